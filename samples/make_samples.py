"""Make the shipped sample corpus again, byte for byte, from pinned distribution packages.

    python samples/make_samples.py --work DIR            write the sources beside this script
    python samples/make_samples.py --work DIR --check    build in DIR and compare with what is committed

It needs ``apt-get`` and ``dpkg-deb`` (Debian 12), ``npm`` and ``pip`` on the path, and pyarrow and
selectolax. Downloads stay in DIR and are used again. ``support-notes`` was written by hand for this
corpus, so it is an input here and never overwritten. README.md says what each source is and why it is here.
"""

from __future__ import annotations

import argparse
import ast
import filecmp
import gzip
import hashlib
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from selectolax.lexbor import LexborHTMLParser, LexborNode

Files = dict[str, bytes]
Row = dict[str, str]
HERE = Path(__file__).resolve().parent
BY_HAND = "support-notes"


# --- packages ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Package:
    """A package at one version, and the files of it that are used (shell patterns on its paths)."""

    client: Literal["apt", "npm", "pip"]
    name: str
    version: str
    keep: tuple[str, ...]


RUST_HTML = "usr/share/doc/rust-web-doc/html/"
RUST_COPYRIGHT = "usr/share/doc/rust-web-doc/copyright"
OLD_RUST_HTML = "usr/share/doc/rust-doc/html/"
PYTHON_HTML = "usr/share/doc/python3.11/html/"
OFFICE_HELP = "usr/share/libreoffice/help/"
KICAD_HELP = "usr/share/doc/kicad/help/"
LOCALES = "airflow/ui/dist/i18n/locales/"
RUST_GUIDES = ("edition-guide", "embedded-book", "nomicon")
PYTHON_PARTS = ("tutorial", "howto", "faq", "using", "whatsnew")

PACKAGES = {
    "rust": Package(
        "apt",
        "rust-web-doc",
        "1.85.0+dfsg3-1~deb12u3",
        (
            *(f"{RUST_HTML}{part}/*.html" for part in ("book", *RUST_GUIDES)),
            f"{RUST_HTML}static.files/LICENSE-[AM]*",
            RUST_COPYRIGHT,
        ),
    ),
    "old-rust": Package("apt", "rust-doc", "1.63.0+dfsg1-2", (OLD_RUST_HTML + "nomicon/*.html",)),
    "python": Package(
        "apt",
        "python3.11-doc",
        "3.11.2-6+deb12u9",
        (
            *(f"{PYTHON_HTML}{part}/*.html" for part in PYTHON_PARTS),
            PYTHON_HTML + "license.html",
            PYTHON_HTML + "copyright.html",
        ),
    ),
    "office-en": Package(
        "apt",
        "libreoffice-help-en-us",
        "4:7.4.7-1+deb12u14",
        (OFFICE_HELP + "en-US/text/*.html", "*/copyright"),
    ),
    "office-zh": Package(
        "apt", "libreoffice-help-zh-cn", "4:7.4.7-1+deb12u14", (OFFICE_HELP + "zh-CN/text/*.html",)
    ),
    "licences": Package("apt", "base-files", "12.4+deb12u15", ("usr/share/common-licenses/*",)),
    "kicad-zh": Package("apt", "kicad-doc-zh", "6.0.11+dfsg-1", (KICAD_HELP + "zh/*.html",)),
    "poems": Package("npm", "chinese-poetry", "2.0.1", ("dist/*.json", "LICENSE")),
    "builder": Package("npm", "@modern-js/builder-doc", "2.60.0", ("docs/zh/*.md*", "LICENSE")),
    "airflow": Package(
        "pip",
        "apache-airflow-core",
        "3.3.2",
        (LOCALES + "en/*.json", LOCALES + "zh-CN/*.json", "*/licenses/*"),
    ),
    "django": Package("pip", "django", "5.2.8", ("*/zh_Hans/LC_MESSAGES/django*.po", "*/licenses/LICENSE")),
}


def download(package: Package, folder: Path) -> Path:
    """The package's archive under ``folder``; its own client fetches it if it is not there yet."""
    if not (folder.is_dir() and any(folder.iterdir())):
        folder.mkdir(parents=True, exist_ok=True)
        commands = {
            "apt": ["apt-get", "download", f"{package.name}={package.version}"],
            "npm": ["npm", "pack", "--silent", f"{package.name}@{package.version}"],
            "pip": [
                "pip",
                "download",
                "-q",
                "--no-deps",
                "--only-binary",
                ":all:",
                f"{package.name}=={package.version}",
            ],
        }
        subprocess.run(commands[package.client], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    (archive,) = folder.iterdir()
    return archive


def read_kept(package: Package, archive: Path) -> Files:
    """The files of an archive that the package's patterns name; nothing is unpacked to disk."""

    def wanted(name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in package.keep)

    if package.client == "pip":
        with zipfile.ZipFile(archive) as wheel:
            return {name: wheel.read(name) for name in sorted(wheel.namelist()) if wanted(name)}
    data = archive.read_bytes()
    if package.client == "apt":
        command = ["dpkg-deb", "--fsys-tarfile", str(archive)]
        data = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    files = {}
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        for member in tar:
            name = member.name.removeprefix("./").removeprefix("package/")
            content = tar.extractfile(member) if member.isreg() and wanted(name) else None
            if content:
                files[name] = content.read()
    return dict(sorted(files.items()))


class Packages:
    """The pinned packages, read on first use."""

    def __init__(self, work: Path) -> None:
        self._work = work
        self._read: dict[str, Files] = {}

    def files(self, key: str) -> Files:
        """The kept files of one package, by path, in path order."""
        if key not in self._read:
            archive = download(PACKAGES[key], self._work / "packages" / key)
            self._read[key] = read_kept(PACKAGES[key], archive)
        return self._read[key]


# --- text ----------------------------------------------------------------------------------------------

BLOCKS = frozenset(
    "p h1 h2 h3 h4 h5 h6 li ul ol dl dt dd div section table tr td th blockquote main article".split()
)
UNWANTED = (
    "script, style, nav, header, footer, button, noscript, .headerlink, .relatedtopics, .buttons, "
    "span.MAC, .sphinxsidebar, .contents, #toc, .boring"
)
HAN = r"[\u3400-\u9fff\u3001-\u3011\uff01-\uff5e]"
BETWEEN_HAN = re.compile(rf"(?<={HAN})\s+(?={HAN})")


def inline(text: str) -> str:
    """One line of text. A line break between two Chinese characters was only the page's wrapping."""
    return BETWEEN_HAN.sub("", " ".join(text.replace("\u200b", "").replace("¶", "").split()))


class PageText:
    """Turns an HTML element into paragraphs: headings marked ``#``, code kept as it stands."""

    def __init__(self, root: LexborNode, fence: str = "") -> None:
        self.paragraphs: list[str] = []
        self.prose = 0
        self._line: list[str] = []
        self._mark = ""
        self._fence = fence
        self._walk(root)
        self._flush()

    def _flush(self) -> None:
        text = inline("".join(self._line))
        self._line = []
        if text:
            self.paragraphs.append(self._mark + text)
            self.prose += len(text.encode())

    def _walk(self, node: LexborNode) -> None:
        for child in node.iter(include_text=True):
            tag = child.tag or ""
            if tag == "-text":
                self._line.append(child.text_content or "")
            elif tag == "br":
                self._line.append(" ")
            elif tag == "pre":
                self._flush()
                code = [self._fence, child.text().strip("\n"), self._fence]
                self.paragraphs.append("\n".join(filter(None, code)))
            elif tag in BLOCKS:
                self._flush()
                self._mark = "#" * int(tag[1]) + " " if re.fullmatch("h[1-6]", tag) else ""
                self._walk(child)
                self._flush()
                self._mark = ""
            else:
                self._walk(child)

    def __str__(self) -> str:
        return "\n\n".join(self.paragraphs) + "\n"


def page(html: bytes, main: str) -> LexborNode | None:
    """The element that holds a page's own text, without navigation."""
    tree = LexborHTMLParser(html.decode())
    for node in tree.css(UNWANTED):
        node.decompose()
    return tree.css_first(main)


def page_text(html: bytes, main: str, *, least: int = 400, fence: str = "") -> str | None:
    """A page's text, or None when it holds less than ``least`` bytes of prose (redirects, bare code)."""
    node = page(html, main)
    text = PageText(node, fence) if node else None
    return str(text) if text and text.prose >= least else None


def shuffled(keys: Iterable[str]) -> list[str]:
    """The keys in an order that looks random and depends on nothing but the keys."""
    return sorted(keys, key=lambda key: hashlib.sha256(key.encode()).digest())


def within(sizes: dict[str, int], budget: int) -> list[str]:
    """As many keys as fit the budget, drawn in shuffled order, returned sorted."""
    chosen: list[str] = []
    for key in shuffled(sizes):
        if sizes[key] <= budget:
            chosen.append(key)
            budget -= sizes[key]
    return sorted(chosen)


# --- writing -------------------------------------------------------------------------------------------


def json_lines(rows: Iterable[Row]) -> bytes:
    """Rows as JSON lines in UTF-8."""
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode()


def gzipped(data: bytes) -> bytes:
    """Gzip without name or time, so that the same rows make the same bytes."""
    return gzip.compress(data, compresslevel=9, mtime=0)


def zstandard(data: bytes) -> bytes:
    """One Zstandard frame."""
    return pa.Codec("zstd", compression_level=19).compress(data, asbytes=True)  # type: ignore[no-any-return]


def parquet(rows: list[Row]) -> bytes:
    """Rows as one Parquet file of string columns."""
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink, compression="zstd", row_group_size=64)
    return sink.getvalue().to_pybytes()  # type: ignore[no-any-return]


# --- English -------------------------------------------------------------------------------------------


def rust_licence(files: Files) -> bytes:
    """Both of Rust's licences, of which the reader takes either."""
    stanza = re.search(
        rb"^Copyright: 2006-2009 Graydon Hoare\n.*?^License: .*?\n", files[RUST_COPYRIGHT], re.M | re.S
    )
    texts = [stanza.group()] if stanza else []
    for name, data in files.items():
        if name.startswith(RUST_HTML + "static.files/LICENSE-"):
            texts.append(gzip.decompress(data) if name.endswith(".gz") else data)
    return b"\n".join(texts)


def rust_book(packages: Packages) -> Files:
    """Whole HTML pages of the Rust book, as they are: menus, scripts and all."""
    files = packages.files("rust")
    pages = {
        name: data
        for name, data in files.items()
        if name.startswith(RUST_HTML + "book/ch")
        and name.count("/") == RUST_HTML.count("/") + 1
        and page_text(data, "main")
    }
    chosen = within({name: len(data) for name, data in pages.items()}, 900_000)
    return {"LICENSE": rust_licence(files)} | {Path(name).name: pages[name] for name in chosen}


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


def rust_guides(packages: Packages) -> Files:
    """The edition guide, the embedded book and the Rustonomicon as Markdown.

    Twelve pages of the Rustonomicon are here in their version of 2022 too: natural copies and near-copies.
    """
    files = packages.files("rust")
    made = {"LICENSE": rust_licence(files)}
    for guide in RUST_GUIDES:
        made |= {f"{guide}/{name}": text for name, text in rust_guide(files, RUST_HTML, guide).items()}
    old = rust_guide(packages.files("old-rust"), OLD_RUST_HTML, "nomicon")
    return made | {f"nomicon-2022/{name}": old[name] for name in sorted(shuffled(old)[:12])}


def python_docs(packages: Packages) -> Files:
    """The prose parts of Python's documentation, one plain text per page."""
    files = packages.files("python")
    licence = page_text(
        files[PYTHON_HTML + "license.html"], "#terms-and-conditions-for-accessing-or-otherwise-using-python"
    )
    notice = page_text(files[PYTHON_HTML + "copyright.html"], "div.body", least=0)
    texts: dict[str, bytes] = {}
    for name, data in files.items():
        path = name.removeprefix(PYTHON_HTML)
        text = page_text(data, "div.body") if "/" in path and not path.endswith("index.html") else None
        if text and len(text.encode()) <= 60_000:  # two or three release notes would outweigh all the rest
            texts[path.replace("/", "-").removesuffix(".html") + ".txt"] = text.encode()
    chosen = within({name: len(data) for name, data in texts.items()}, 450_000)
    return {"LICENSE": f"{notice}\n{licence}".encode()} | {name: texts[name] for name in chosen}


# --- Chinese -------------------------------------------------------------------------------------------

COLLECTIONS = (
    "songci/宋词三百首",
    "quantangshi/唐诗三百首",
    "shijing/",
    "shuimotangshi/",
    "wudaishici/",
    "youmengying/",
    "sishuwujing/",
)
SONG_VERSE = "songci/ci.song."
SONG_VERSE_BYTES = 400_000


def poem(record: dict[str, Any]) -> Row | None:
    """One poem or classical chapter as title, author and text, with its modern introduction if it has one."""
    lines = record.get("paragraphs") or record.get("content")
    if not isinstance(lines, list) or not lines:
        return None
    title = record.get("title") or record.get("rhythmic") or record.get("chapter") or ""
    introduction = [record["prologue"]] if record.get("prologue") else []
    return {
        "title": title,
        "author": record.get("author") or "佚名",
        "text": "\n".join([*lines, *introduction]),
    }


def poems(packages: Packages) -> Files:
    """Verse and prose of the Tang, the Song and before; one collection is in traditional characters."""
    files = packages.files("poems")
    rows, song = [], {}
    for name, data in files.items():
        path = name.removeprefix("dist/")
        content = json.loads(data) if path.startswith((*COLLECTIONS, SONG_VERSE)) else []
        found = [poem(record) for record in (content if isinstance(content, list) else [content])]
        if path.startswith(SONG_VERSE):
            song |= {f"{path}#{number}": row for number, row in enumerate(found) if row}
        else:
            rows += [row for row in found if row]
    sizes = {key: len(row["text"].encode()) for key, row in song.items()}
    rows += [song[key] for key in within(sizes, SONG_VERSE_BYTES)]
    return {"LICENSE": files["LICENSE"], "poems.jsonl.gz": gzipped(json_lines(rows))}


def kicad_licence(files: Files) -> bytes:
    """Each manual's own copyright, licence and credits; without mail addresses, which nobody needs here."""
    notices = []
    for name, data in files.items():
        preamble = page(data, "#preamble") or page(data, "#content")
        paragraphs = PageText(preamble).paragraphs if preamble else []
        start = next(n for n, text in enumerate(paragraphs) if "creativecommons.org/licenses/by/3.0" in text)
        credits = "\n\n".join(paragraphs[start : start + 6])
        notices.append(f"{Path(name).name}\n\n" + re.sub(r"\s*<\S+@\S+>", "", credits) + "\n")
    return "\n".join(notices).encode()


def kicad(packages: Packages) -> Files:
    """KiCad's manuals in Chinese, one text per chapter; two are in GB18030 and UTF-16."""
    files = packages.files("kicad-zh")
    made: Files = {}
    for name, data in files.items():
        if not name.endswith(".html"):
            continue
        node = page(data, "#content")
        for number, chapter in enumerate(node.css("div.sect1") if node else [], start=1):
            text = PageText(chapter)
            share = len(re.findall(HAN, str(text))) / len(str(text))
            if text.prose >= 400 and share > 0.3:  # untranslated chapters are still in English
                made[f"{Path(name).stem}-{number:02}.txt"] = str(text).encode()
    for name, encoding in (("introduction-02.txt", "gb18030"), ("pl_editor-03.txt", "utf-16")):
        made[name.replace(".txt", f".{encoding}.txt")] = made.pop(name).decode().encode(encoding)
    return {"LICENSE": kicad_licence(files)} | made


def builder(packages: Packages) -> Files:
    """The Chinese documentation of a web build tool, as the Markdown files it is written in."""
    files = packages.files("builder")
    made = {"LICENSE": files["LICENSE"]}
    for name, data in files.items():
        text = data.decode()
        if name.startswith("docs/zh/") and len(re.findall(HAN, text)) > 80:
            path = name.removeprefix("docs/zh/").replace("/", "-")
            made[re.sub(r"\.mdx?$", ".md", path)] = data
    return made


# --- pairs ---------------------------------------------------------------------------------------------


def office_pages(files: Files, language: str) -> Files:
    """LibreOffice's help pages of one language by their path under ``text/``."""
    root = f"{OFFICE_HELP}{language}/text/"
    return {name.removeprefix(root): data for name, data in files.items() if name.startswith(root)}


def is_prose_page(path: str) -> bool:
    """Every fifth help page becomes Chinese prose; the others give pairs. So none is in both."""
    return hashlib.sha256(path.encode()).digest()[0] % 5 == 0


def office_licence(packages: Packages) -> bytes:
    """The package's own statement, and the text it points to."""
    (statement,) = (data for name, data in packages.files("office-en").items() if name.endswith("/copyright"))
    licences = packages.files("licences")
    head = statement.split(b"\n\nFiles: ")[0] + b"\n\n"
    mine = re.search(rb"^Files: \*\n.*?\n\n", statement, re.M | re.S)
    assert mine
    return head + mine.group() + licences["usr/share/common-licenses/MPL-2.0"]


def office_prose(packages: Packages) -> Files:
    """Pages of LibreOffice's Chinese help."""
    rows = []
    for path, data in office_pages(packages.files("office-zh"), "zh-CN").items():
        text = page_text(data, "#DisplayArea") if is_prose_page(path) else None
        if text and len(re.findall(HAN, text)) > 0.4 * len(text):
            rows.append({"path": path, "title": text.split("\n")[0].lstrip("# "), "text": text})
    chosen = set(within({row["path"]: len(row["text"].encode()) for row in rows}, 650_000))
    kept = [row for row in rows if row["path"] in chosen]
    return {"LICENSE": office_licence(packages), "pages.parquet": parquet(kept)}


def office_elements(html: bytes) -> dict[str, str]:
    """The text of each element that has an id of the translators' kind."""
    node = page(html, "#DisplayArea")
    found: dict[str, str] = {}
    for element in node.css("[id^=par_], [id^=hd_]") if node else []:
        for line_break in element.css("br"):
            line_break.replace_with(" ")
        found.setdefault(element.attributes["id"] or "", inline(element.text()))
    return found


def clean_pairs(pairs: Iterable[Row]) -> list[Row]:
    """The pairs without copies, untranslated ones and those of under three English words."""
    taken: set[tuple[str, str]] = set()
    kept = []
    for pair in pairs:
        both = pair["en"], pair["zh"]
        words = re.findall(r"[A-Za-z]{2,}", pair["en"])
        if both in taken or len(words) < 3 or not re.search(HAN, pair["zh"]) or pair["en"] == pair["zh"]:
            continue
        taken.add(both)
        kept.append(pair)
    return kept


def office_pairs(packages: Packages) -> Files:
    """Sentences and paragraphs of LibreOffice's help in both languages, joined by page and element."""
    chinese = office_pages(packages.files("office-zh"), "zh-CN")
    pairs = []
    for path, data in office_pages(packages.files("office-en"), "en-US").items():
        if path in chinese and not is_prose_page(path):
            translated = office_elements(chinese[path])
            for element, text in office_elements(data).items():
                pairs.append(
                    {"id": f"{path}#{element}", "en": text, "zh": translated.get(element, ""), "file": path}
                )
    rows = {row["id"]: row for row in clean_pairs(pairs)}
    sizes = {key: len((row["en"] + row["zh"]).encode()) for key, row in rows.items()}
    kept = [rows[key] for key in within(sizes, 1_300_000)]
    return {"LICENSE": office_licence(packages), "pairs.jsonl.zst": zstandard(json_lines(kept))}


def leaves(tree: dict[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Every string of a nested locale file with its dotted key."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from leaves(value, f"{path}{key}.")
        elif isinstance(value, str):
            yield path + key, value


def airflow_pairs(packages: Packages) -> list[Row]:
    """Apache Airflow's user interface in both languages."""
    files = packages.files("airflow")
    rows = []
    for name, data in files.items():
        if name.startswith(LOCALES + "en/"):
            chinese = dict(leaves(json.loads(files[name.replace("/en/", "/zh-CN/")])))
            file = "airflow/" + Path(name).name
            rows += [
                {"id": f"{file}#{key}", "en": text, "zh": chinese.get(key, ""), "file": file}
                for key, text in leaves(json.loads(data))
            ]
    return rows


def django_pairs(packages: Packages) -> list[Row]:
    """Django's messages; the key of a message is its English text."""
    entry = re.compile(r'^msgid ((?:".*"\n)+)msgstr ((?:".*"\n)+)', re.M)
    rows = []
    for name, data in packages.files("django").items():
        file = "/".join(Path(name).parts[:-4]) + "/" + Path(name).name
        fuzzy_free = re.sub(r"^#, .*fuzzy[^\n]*\n(?:[^\n]+\n)*", "", data.decode(), flags=re.M)
        for number, match in enumerate(entry.finditer(fuzzy_free) if name.endswith(".po") else []):
            english, chinese = (
                "".join(ast.literal_eval(line) for line in part.splitlines()) for part in match.groups()
            )
            rows.append(
                {"id": f"{file}#{number}", "en": inline(english), "zh": inline(chinese), "file": file}
            )
    return rows


def interface_pairs(packages: Packages) -> Files:
    """Short messages of two programs, each with its own licence."""
    airflow, django = packages.files("airflow"), packages.files("django")
    rows = clean_pairs(airflow_pairs(packages) + django_pairs(packages))
    licences = {
        name: data for files in (airflow, django) for name, data in files.items() if "/licenses/" in name
    }
    made = {"pairs.jsonl.gz": gzipped(json_lines(rows))}
    for name, data in licences.items():
        owner = "django" if name.startswith("django") else "airflow"
        if Path(name).name in ("LICENSE", "NOTICE"):
            made[f"{Path(name).name}-{owner}"] = data
    return made


# --- all -----------------------------------------------------------------------------------------------

SOURCES: dict[str, Callable[[Packages], Files]] = {
    "rust-book": rust_book,
    "rust-guides": rust_guides,
    "python-docs": python_docs,
    "poems": poems,
    "kicad-zh": kicad,
    "office-zh": office_prose,
    "builder-zh": builder,
    "office-pairs": office_pairs,
    "interface-pairs": interface_pairs,
}


def write(files: Files, folder: Path) -> None:
    """Replaces a source's folder by these files."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def differences(made: Path, committed: Path) -> list[str]:
    """Files that are missing, surplus or unlike in the committed folder."""
    names = {
        path.relative_to(root) for root in (made, committed) for path in root.rglob("*") if path.is_file()
    }
    return [
        str(committed.name / name)
        for name in sorted(names)
        if not ((made / name).is_file() and (committed / name).is_file())
        or not filecmp.cmp(made / name, committed / name, shallow=False)
    ]


def main() -> int:
    """Builds or checks the sources; the exit status is 1 when a check finds a difference."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--work", type=Path, required=True, help="where downloads are kept")
    parser.add_argument(
        "--check", action="store_true", help="compare with the committed files, change nothing"
    )
    parser.add_argument("--only", nargs="*", choices=SOURCES, default=list(SOURCES), help="some sources")
    arguments = parser.parse_args()
    packages = Packages(arguments.work)
    unlike: list[str] = []
    for name in arguments.only:
        files = SOURCES[name](packages)
        if arguments.check:
            with tempfile.TemporaryDirectory() as folder:
                write(files, Path(folder) / name)
                unlike += differences(Path(folder) / name, HERE / name)
        else:
            write(files, HERE / name)
        print(f"{name}: {len(files)} files, {sum(map(len, files.values())):,} bytes")
    for path in unlike:
        print(f"differs: {path}", file=sys.stderr)
    return 1 if unlike else 0


if __name__ == "__main__":
    raise SystemExit(main())
