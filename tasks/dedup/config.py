"""Knobs of the ``dedup`` stage."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from tasks.core.config import Config, dial, runtime


@dataclass(frozen=True, kw_only=True)
class DedupConfig(Config):
    """Keep one document of every group of copies and near-copies."""

    threshold: Annotated[float, Field(gt=0, le=1)] = dial(0.8)
    """Exact Jaccard similarity of word shingles from which two documents are copies and only one is kept."""
    cluster_threshold: Annotated[float, Field(gt=0, le=1)] = 0.6
    """Similarity from which two kept documents share a cluster, so that the split puts them on the same side."""
    shingle_words: Annotated[int, Field(ge=1, le=64)] = 5
    """Words per shingle; a Chinese character is a word. A shorter document is one shingle as a whole."""
    num_permutations: Annotated[int, Field(ge=8, le=1024)] = 128
    """MinHash permutations per signature."""
    num_bands: Annotated[int, Field(ge=1)] = 32
    """Bands the signature is cut into; two documents are compared when they agree on one band."""
    rows_per_band: Annotated[int, Field(ge=1)] = 4
    """Permutations per band. A pair of similarity s is compared with probability 1 - (1 - s^rows)^bands."""
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    """Seed of the permutations, as datasketch understands it."""
    workers: Annotated[int, Field(ge=1)] = runtime(1)
    """Threads that compute signatures."""

    def __post_init__(self) -> None:
        if self.num_bands * self.rows_per_band > self.num_permutations:
            raise ValueError(
                f"num_bands * rows_per_band must be at most num_permutations "
                f"({self.num_bands} * {self.rows_per_band} > {self.num_permutations})"
            )
        if self.cluster_threshold > self.threshold:
            raise ValueError(
                f"cluster_threshold must be at most threshold ({self.cluster_threshold} > {self.threshold})"
            )
