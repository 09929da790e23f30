"""Chinese verse and prose: classical poems, KiCad's manuals and the documentation of a web build tool."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from drawing import Drawn, draw
from formats import Row, gzipped, json_lines
from packages import Files, Package, Packages
from page_text import HAN, PageText, page

KICAD_HELP = "usr/share/doc/kicad/help/"
POEMS = Package("npm", "chinese-poetry", "2.0.1", ("dist/*.json", "LICENSE"))
KICAD = Package("apt", "kicad-doc-zh", "6.0.11+dfsg-1", (KICAD_HELP + "zh/*.html",))
BUILDER = Package("npm", "@modern-js/builder-doc", "2.60.0", ("docs/zh/*.md*", "LICENSE"))

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


def poem_records(files: Files, start: tuple[str, ...]) -> dict[str, Row]:
    """The poems of the collections whose path starts so, by path and place in the file."""
    found = {}
    for name, data in files.items():
        path = name.removeprefix("dist/")
        content = json.loads(data) if path.startswith(start) else []
        for number, record in enumerate(content if isinstance(content, list) else [content]):
            if row := poem(record):
                found[f"{path}#{number}"] = row
    return found


def song_verse(packages: Packages) -> Drawn[Row]:
    """The full collection of Song lyrics, drawn to 400 kB."""
    verse = poem_records(packages.files(POEMS), (SONG_VERSE,))
    return draw(verse, SONG_VERSE_BYTES, lambda row: len(row["text"].encode()))


def poems(packages: Packages) -> Files:
    """Verse and prose of the Tang, the Song and before; one collection is in traditional characters."""
    files = packages.files(POEMS)
    rows = [*poem_records(files, COLLECTIONS).values(), *song_verse(packages).taken.values()]
    return {"LICENSE": files["LICENSE"], "poems.jsonl.gz": gzipped(json_lines(rows))}


def kicad_licence(files: Files) -> bytes:
    """Each manual's own copyright, licence and credits; without mail addresses, which nobody needs here."""
    notices = []
    for name, data in files.items():
        preamble = page(data, "#preamble") or page(data, "#content")
        paragraphs = PageText(preamble).paragraphs if preamble else []
        start = next(n for n, text in enumerate(paragraphs) if "creativecommons.org/licenses/by/3.0" in text)
        notice = "\n\n".join(paragraphs[start : start + 6])
        notices.append(f"{Path(name).name}\n\n" + re.sub(r"\s*<\S+@\S+>", "", notice) + "\n")
    return "\n".join(notices).encode()


def kicad(packages: Packages) -> Files:
    """KiCad's manuals in Chinese, one text per chapter; two are in GB18030 and UTF-16."""
    files = packages.files(KICAD)
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
    files = packages.files(BUILDER)
    made = {"LICENSE": files["LICENSE"]}
    for name, data in files.items():
        text = data.decode()
        if name.startswith("docs/zh/") and len(re.findall(HAN, text)) > 80:
            path = name.removeprefix("docs/zh/").replace("/", "-")
            made[re.sub(r"\.mdx?$", ".md", path)] = data
    return made
