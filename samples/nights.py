"""What arrives on three nights: text left over from the other sources, and some that came before.

A document comes fresh on one night, told by the hash of its key. As real feeds do, each night also delivers
documents again, from the main sample and from the night before, under the id of the new night.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

from chinese import COLLECTIONS, POEMS, poem_records, song_verse
from drawing import draw, shuffled
from english import python_licence, python_pages, rust_book_pages, rust_guide_pages, rust_licence
from formats import Row, gzipped, json_lines, zstandard
from office_help import chinese_prose, english_prose, help_pairs, office_licence, unpaired_prose
from packages import Files, Packages
from page_text import page_text

DATES = ("2026-11-01", "2026-11-02", "2026-11-03")
MAIL_ADDRESS = re.compile(r"[\w.+-]+@[\w-]+\.[A-Za-z]")
Rows = dict[str, Row]


@dataclass(frozen=True, kw_only=True)
class Feed:
    """One kind of text from one origin: rows by key, the origin first in the key."""

    file: str
    left: Rows
    """Rows that are not in the main sample."""
    main: Rows
    """Rows that are."""
    night_bytes: int
    """Most text that comes fresh on one night."""
    num_main: int
    """Rows of the main sample that a night delivers again."""
    num_before: int
    """Fresh rows of the night before that a night delivers again."""

    def fresh(self, night: int) -> Rows:
        """What comes for the first time on a night."""
        new = {key: row for key, row in self._new().items() if night_of(key) == night}
        return draw(new, self.night_bytes, lambda row: len("".join(texts(row)).encode())).taken

    def _new(self) -> Rows:
        """One row for each text that the main sample lacks."""
        known = {texts(row) for row in self.main.values()}
        by_text = {texts(row): key for key, row in reversed(self.left.items())}
        return {key: self.left[key] for text, key in by_text.items() if text not in known and not has_mail(text)}

    def delivered(self, night: int) -> Rows:
        """All of a night by id: fresh and again."""
        rows = self.fresh(night) | again(self.main, night, self.num_main)
        if night:
            rows |= again(self.fresh(night - 1), night, self.num_before)
        return {f"{DATES[night]}/{key}": row for key, row in rows.items()}


def texts(row: Row) -> tuple[str, ...]:
    """The columns that hold text: of a page or poem one, of a pair two."""
    return (row["text"],) if "text" in row else (row["en"], row["zh"])


def has_mail(text: tuple[str, ...]) -> bool:
    """Whether a mail address stands in it; a feed can do without."""
    return any(MAIL_ADDRESS.search(part) for part in text)


def night_of(key: str) -> int:
    """The night on which a document comes first; not by the first byte, which decides other draws."""
    return hashlib.sha256(key.encode()).digest()[-1] % len(DATES)


def again(rows: Rows, night: int, count: int) -> Rows:
    """Some of the rows, others each night."""
    start = DATES[night] + "/"
    wanted = (start + key for key, row in rows.items() if not has_mail(texts(row)))
    keys = [one.removeprefix(start) for one in shuffled(wanted)[:count]]
    return {key: rows[key] for key in keys}


def prose(origin: str, lang: str, pages: dict[str, str]) -> Rows:
    """Pages as rows of ``prose.jsonl.gz``."""
    return {f"{origin}/{path}": {"lang": lang, "text": text} for path, text in pages.items()}


def decoded(pages: Files) -> dict[str, str]:
    """Files as text."""
    return {name: data.decode() for name, data in pages.items()}


def rust_feed(packages: Packages) -> Feed:
    """Chapters of the Rust book as Markdown; pages of the guides come again."""
    pages = {path: page_text(html, "main", fence="```") for path, html in rust_book_pages(packages).left.items()}
    chapters = {"book/" + path.rsplit("/", 1)[1].replace(".html", ".md"): text for path, text in pages.items() if text}
    left, main = prose("rust", "en", chapters), prose("rust", "en", decoded(rust_guide_pages(packages)))
    return Feed(file="prose", left=left, main=main, night_bytes=27_000, num_main=1, num_before=1)


def python_feed(packages: Packages) -> Feed:
    """Pages of Python's documentation."""
    pages = python_pages(packages)
    left, main = (prose("python", "en", decoded(part)) for part in (pages.left, pages.taken))
    return Feed(file="prose", left=left, main=main, night_bytes=27_000, num_main=0, num_before=0)


def english_help_feed(packages: Packages) -> Feed:
    """Pages of LibreOffice's English help."""
    left = prose("office/en", "en", english_prose(packages))
    return Feed(file="prose", left=left, main={}, night_bytes=27_000, num_main=0, num_before=1)


def chinese_help_feed(packages: Packages) -> Feed:
    """Pages of LibreOffice's Chinese help, which give no pairs."""
    left = prose("office/zh", "zh", unpaired_prose(packages))
    main = prose("office/zh", "zh", chinese_prose(packages))
    return Feed(file="prose", left=left, main=main, night_bytes=20_000, num_main=2, num_before=1)


def poem_feed(packages: Packages) -> Feed:
    """Song lyrics; the other collections are all in the main sample."""
    song, others = song_verse(packages), poem_records(packages.files(POEMS), COLLECTIONS)
    left, main = ({f"poems/{key}": row for key, row in rows.items()} for rows in (song.left, others | song.taken))
    return Feed(file="poems", left=left, main=main, night_bytes=60_000, num_main=4, num_before=2)


def pair_feed(packages: Packages) -> Feed:
    """Pairs of LibreOffice's help, none from a page that is prose here."""
    drawn, unpaired = help_pairs(packages), unpaired_prose(packages)
    main, left = (
        {
            f"office/{key}": {"en": row["en"], "zh": row["zh"]}
            for key, row in rows.items()
            if row["file"] not in unpaired
        }
        for rows in drawn
    )
    return Feed(file="pairs", left=left, main=main, night_bytes=80_000, num_main=8, num_before=5)


FEEDS = (rust_feed, python_feed, english_help_feed, chinese_help_feed, poem_feed, pair_feed)
WRITERS: dict[str, tuple[str, Callable[[bytes], bytes]]] = {
    "prose": ("prose.jsonl.gz", gzipped),
    "poems": ("poems.jsonl.gz", gzipped),
    "pairs": ("pairs.jsonl.zst", zstandard),
}


def nightly(packages: Packages) -> Files:
    """Three nights, a folder each, and the licences of what they hold."""
    made = {
        "LICENSE-rust": rust_licence(packages),
        "LICENSE-python": python_licence(packages),
        "LICENSE-office": office_licence(packages),
        "LICENSE-poems": packages.files(POEMS)["LICENSE"],
    }
    feeds = [feed(packages) for feed in FEEDS]
    for night, date in enumerate(DATES):
        for file, (name, packed) in WRITERS.items():
            rows = {key: row for feed in feeds if feed.file == file for key, row in feed.delivered(night).items()}
            made[f"{date}/{name}"] = packed(json_lines({"id": key} | rows[key] for key in sorted(rows)))
    return made
