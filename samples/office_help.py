"""LibreOffice's help: every fifth page as prose, the others as aligned pairs."""

from __future__ import annotations

import hashlib
import re

from drawing import Drawn, draw
from formats import Row, json_lines, parquet, zstandard
from packages import Files, Package, Packages
from page_text import HAN, inline, page, page_text
from pairs import clean_pairs

OFFICE_HELP = "usr/share/libreoffice/help/"
VERSION = "4:7.4.7-1+deb12u14"
ENGLISH = Package("apt", "libreoffice-help-en-us", VERSION, (OFFICE_HELP + "en-US/text/*.html", "*/copyright"))
CHINESE = Package("apt", "libreoffice-help-zh-cn", VERSION, (OFFICE_HELP + "zh-CN/text/*.html",))
LICENCES = Package("apt", "base-files", "12.4+deb12u15", ("usr/share/common-licenses/*",))


def office_pages(files: Files, language: str) -> Files:
    """LibreOffice's help pages of one language by their path under ``text/``."""
    root = f"{OFFICE_HELP}{language}/text/"
    return {name.removeprefix(root): data for name, data in files.items() if name.startswith(root)}


def is_prose_page(path: str) -> bool:
    """Every fifth help page becomes Chinese prose; the others give pairs. So none is in both."""
    return hashlib.sha256(path.encode()).digest()[0] % 5 == 0


def office_licence(packages: Packages) -> bytes:
    """The package's own statement, and the text it points to."""
    (statement,) = (data for name, data in packages.files(ENGLISH).items() if name.endswith("/copyright"))
    licences = packages.files(LICENCES)
    head = statement.split(b"\n\nFiles: ")[0] + b"\n\n"
    mine = re.search(rb"^Files: \*\n.*?\n\n", statement, re.M | re.S)
    assert mine
    return head + mine.group() + licences["usr/share/common-licenses/MPL-2.0"]


def chinese_text(html: bytes) -> str | None:
    """A page's text if it is long enough and translated."""
    text = page_text(html, "#DisplayArea")
    return text if text and len(re.findall(HAN, text)) > 0.4 * len(text) else None


def chinese_prose(packages: Packages) -> dict[str, str]:
    """The text of the Chinese prose pages by path."""
    pages = office_pages(packages.files(CHINESE), "zh-CN")
    texts = {path: chinese_text(data) for path, data in pages.items() if is_prose_page(path)}
    return {path: text for path, text in texts.items() if text}


def english_prose(packages: Packages) -> dict[str, str]:
    """The English text of the prose pages by path; their Chinese is in ``office-zh``."""
    pages = office_pages(packages.files(ENGLISH), "en-US")
    texts = {path: page_text(data, "#DisplayArea") for path, data in pages.items() if is_prose_page(path)}
    return {path: text for path, text in texts.items() if text}


def office_prose(packages: Packages) -> Files:
    """Pages of LibreOffice's Chinese help."""
    rows = [
        {"path": path, "title": text.split("\n")[0].lstrip("# "), "text": text}
        for path, text in chinese_prose(packages).items()
    ]
    return {"LICENSE": office_licence(packages), "pages.parquet": parquet(rows)}


def office_elements(html: bytes) -> dict[str, str]:
    """The text of each element that has an id of the translators' kind."""
    node = page(html, "#DisplayArea")
    found: dict[str, str] = {}
    for element in node.css("[id^=par_], [id^=hd_]") if node else []:
        for line_break in element.css("br"):
            line_break.replace_with(" ")
        found.setdefault(element.attributes["id"] or "", inline(element.text()))
    return found


def aligned_elements(packages: Packages) -> list[Row]:
    """Each element of the pages that give pairs, in both languages."""
    chinese = office_pages(packages.files(CHINESE), "zh-CN")
    pairs = []
    for path, data in office_pages(packages.files(ENGLISH), "en-US").items():
        if path in chinese and not is_prose_page(path):
            translated = office_elements(chinese[path])
            pairs += [
                {"id": f"{path}#{element}", "en": text, "zh": translated.get(element, ""), "file": path}
                for element, text in office_elements(data).items()
            ]
    return pairs


def help_pairs(packages: Packages) -> Drawn[Row]:
    """Sentences and paragraphs in both languages, joined by page and element, drawn to 1.3 MB."""
    rows = {row["id"]: row for row in clean_pairs(aligned_elements(packages))}
    return draw(rows, 1_300_000, lambda row: len((row["en"] + row["zh"]).encode()))


def unpaired_prose(packages: Packages) -> dict[str, str]:
    """The Chinese text of pages that might give pairs, but of which not one was drawn."""
    paired = {row["file"] for row in help_pairs(packages).taken.values()}
    pages = office_pages(packages.files(CHINESE), "zh-CN")
    texts = {path: chinese_text(data) for path, data in pages.items() if path not in paired and not is_prose_page(path)}
    return {path: text for path, text in texts.items() if text}


def office_pairs(packages: Packages) -> Files:
    """Pairs of LibreOffice's help."""
    kept = help_pairs(packages).taken.values()
    return {"LICENSE": office_licence(packages), "pairs.jsonl.zst": zstandard(json_lines(kept))}
