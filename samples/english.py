"""English prose: what Rust's and Python's documentation gives."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from drawing import Drawn, draw, shuffled
from packages import Files, Package, Packages
from page_text import page_text

RUST_HTML = "usr/share/doc/rust-web-doc/html/"
RUST_COPYRIGHT = "usr/share/doc/rust-web-doc/copyright"
OLD_RUST_HTML = "usr/share/doc/rust-doc/html/"
PYTHON_HTML = "usr/share/doc/python3.11/html/"
RUST_GUIDES = ("edition-guide", "embedded-book", "nomicon")
PYTHON_PARTS = ("tutorial", "howto", "faq", "using", "whatsnew")

RUST = Package(
    "apt",
    "rust-web-doc",
    "1.85.0+dfsg3-1~deb12u3",
    (
        *(f"{RUST_HTML}{part}/*.html" for part in ("book", *RUST_GUIDES)),
        f"{RUST_HTML}static.files/LICENSE-[AM]*",
        RUST_COPYRIGHT,
    ),
)
OLD_RUST = Package("apt", "rust-doc", "1.63.0+dfsg1-2", (OLD_RUST_HTML + "nomicon/*.html",))
PYTHON = Package(
    "apt",
    "python3.11-doc",
    "3.11.2-6+deb12u9",
    (
        *(f"{PYTHON_HTML}{part}/*.html" for part in PYTHON_PARTS),
        PYTHON_HTML + "license.html",
        PYTHON_HTML + "copyright.html",
    ),
)


def rust_licence(packages: Packages) -> bytes:
    """Both of Rust's licences, of which the reader takes either."""
    files = packages.files(RUST)
    stanza = re.search(rb"^Copyright: 2006-2009 Graydon Hoare\n.*?^License: .*?\n", files[RUST_COPYRIGHT], re.M | re.S)
    texts = [stanza.group()] if stanza else []
    for name, data in files.items():
        if name.startswith(RUST_HTML + "static.files/LICENSE-"):
            texts.append(gzip.decompress(data) if name.endswith(".gz") else data)
    return b"\n".join(texts)


def rust_book_pages(packages: Packages) -> Drawn[bytes]:
    """The chapters of the Rust book as whole HTML pages by path, drawn to 900 kB."""
    pages = {}
    for path, data in packages.files(RUST).items():
        name = path.removeprefix(RUST_HTML + "book/")
        if name.startswith("ch") and "/" not in name and page_text(data, "main"):
            pages[path] = data
    return draw(pages, 900_000, len)


def rust_book(packages: Packages) -> Files:
    """Whole HTML pages of the Rust book, as they are: menus, scripts and all."""
    pages = rust_book_pages(packages).taken
    return {"LICENSE": rust_licence(packages)} | {Path(path).name: data for path, data in pages.items()}


def rust_guide(files: Files, root: str, guide: str) -> dict[str, bytes]:
    """One guide's pages as Markdown, by file name."""
    pages = {}
    for name, data in files.items():
        path = name.removeprefix(f"{root}{guide}/")
        if path != name and not path.endswith(("print.html", "toc.html", "index.html")):
            text = page_text(data, "main", fence="```")
            if text:
                pages[path.replace("/", "-").removesuffix(".html") + ".md"] = text.encode()
    return pages


def rust_guide_pages(packages: Packages) -> Files:
    """The pages of the edition guide, the embedded book and the Rustonomicon as Markdown."""
    made: Files = {}
    for guide in RUST_GUIDES:
        pages = rust_guide(packages.files(RUST), RUST_HTML, guide)
        made |= {f"{guide}/{name}": text for name, text in pages.items()}
    return made


def rust_guides(packages: Packages) -> Files:
    """The Rust guides; twelve pages of the Rustonomicon in their version of 2022 too: natural (near-)copies."""
    old = rust_guide(packages.files(OLD_RUST), OLD_RUST_HTML, "nomicon")
    old_pages = {f"nomicon-2022/{name}": old[name] for name in sorted(shuffled(old)[:12])}
    return {"LICENSE": rust_licence(packages)} | rust_guide_pages(packages) | old_pages


def python_licence(packages: Packages) -> bytes:
    """Python's copyright notice and the terms of its documentation."""
    files = packages.files(PYTHON)
    terms = "#terms-and-conditions-for-accessing-or-otherwise-using-python"
    notice = page_text(files[PYTHON_HTML + "copyright.html"], "div.body", least=0)
    return f"{notice}\n{page_text(files[PYTHON_HTML + 'license.html'], terms)}".encode()


def python_pages(packages: Packages) -> Drawn[bytes]:
    """The prose parts of Python's documentation as plain text by file name, drawn to 450 kB."""
    texts: dict[str, bytes] = {}
    for name, data in packages.files(PYTHON).items():
        path = name.removeprefix(PYTHON_HTML)
        text = page_text(data, "div.body") if "/" in path and not path.endswith("index.html") else None
        if text and len(text.encode()) <= 60_000:  # two or three release notes would outweigh all the rest
            texts[path.replace("/", "-").removesuffix(".html") + ".txt"] = text.encode()
    return draw(texts, 450_000, len)


def python_docs(packages: Packages) -> Files:
    """The prose parts of Python's documentation, one plain text per page."""
    return {"LICENSE": python_licence(packages)} | python_pages(packages).taken
