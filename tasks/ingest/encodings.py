"""Which encoding a text file is in: UTF-8, UTF-16 and UTF-32 by their marks, and GB18030."""

from __future__ import annotations

import codecs
from typing import BinaryIO

SAMPLE_BYTES = 256 * 1024

_MARKS = (
    # UTF-32's little-endian mark begins with UTF-16's, so it is asked first.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WIDE = ("utf-16", "utf-16-le", "utf-16-be", "utf-32")
"""Encodings whose line ends are not the one byte 0x0A."""


def detect_encoding(sample: bytes) -> str:
    """Name of the codec that reads a file which begins with ``sample``.

    A byte order mark decides; then the pattern of zero bytes (UTF-16 without a mark); then how much of the sample
    is broken as UTF-8. Text that is broken as UTF-8 and whole as GB18030 is GB18030; a UTF-8 file with some broken
    characters stays UTF-8, so that only the rows that hold them are lost. Plain ASCII is UTF-8.
    """
    for mark, name in _MARKS:
        if sample.startswith(mark):
            return name
    if name := _utf16_without_mark(sample):
        return name
    if _is_utf8(sample) or _damage(sample, "utf-8") <= 0.1 or not _is_gb18030(sample):
        return "utf-8"
    return "gb18030"


def sample_of(stream: BinaryIO) -> bytes:
    """The first block that is not plain ASCII (it decides the encoding), else the first block.

    A byte order mark and zero bytes are found in the first block, which is returned when it has either.
    """
    first = block = stream.read(SAMPLE_BYTES)
    while block and block.isascii() and b"\0" not in first:
        block = stream.read(SAMPLE_BYTES)
    return block or first


def _utf16_without_mark(sample: bytes) -> str:
    """UTF-16 text has many zero bytes, all on one side: those of its Latin letters, spaces and line ends."""
    even, odd = sample[0::2].count(0), sample[1::2].count(0)
    many, few = max(even, odd), min(even, odd)
    if many < 4 or few > many * 0.05 or many < len(sample) * 0.01:
        return ""
    name = "utf-16-be" if even > odd else "utf-16-le"
    mostly_latin = many > len(sample) * 0.15
    return name if mostly_latin or _damage(sample, "utf-8") > 0.1 else ""


def _is_utf8(sample: bytes) -> bool:
    """Whether the sample is UTF-8, but for a character that its end may cut."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(sample)
    except UnicodeDecodeError:
        return False
    return True


def _damage(sample: bytes, encoding: str) -> float:
    """Share of the characters beyond ASCII that cannot be decoded; 0 when all are ASCII."""
    text = sample.decode(encoding, errors="replace")
    foreign = sum(not ch.isascii() for ch in text)
    return text.count("\ufffd") / foreign if foreign else 0.0


def _is_gb18030(sample: bytes) -> bool:
    """Whether the sample reads as GB18030 and looks like it: most characters are in the GB 2312 plane.

    Two-byte GB18030 accepts nearly any pair, so Latin-1 text passes the codec; its letters pair with ASCII, which
    falls outside GB 2312, whose both bytes are 0xA1 or more.
    """
    text = sample.decode("gb18030", errors="replace")
    foreign = [ch for ch in text if not ch.isascii()]
    broken = text.count("\ufffd")
    plain = sum(_in_gb2312(ch) for ch in foreign)
    return bool(foreign) and broken <= 1 + len(foreign) * 0.01 and plain >= len(foreign) * 0.7


def _in_gb2312(ch: str) -> bool:
    try:
        return len(ch.encode("gb2312")) == 2
    except UnicodeEncodeError:
        return False
