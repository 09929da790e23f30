"""Hums."""

from dataclasses import dataclass

from tasks.hum.config import HumConfig
from upath import UPath

VERSION = 1


@dataclass(frozen=True)
class HumResult:
    """How long the tune is."""

    num_chars: int


def run(config: HumConfig, *, out: UPath) -> HumResult:
    text = " ".join([config.word] * config.times)
    (out / "tune.txt").write_text(text)
    return HumResult(len(text))
