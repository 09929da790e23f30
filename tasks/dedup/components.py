"""Connected components of a graph of documents, by union and find."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tasks.dedup.candidates import Pairs
from tasks.text.kernel import kernel

Labels = npt.NDArray[np.int64]


def components(num_documents: int, edges: Pairs) -> Labels:
    """For each document the smallest document number of its component; shape ``(num_documents,)``."""
    found: Labels = _components(num_documents, edges)
    return found


def largest(labels: Labels) -> int:
    """Size of the largest component; 0 when there is none."""
    return int(np.unique_counts(labels).counts.max(initial=0))


@kernel
def _root(parents: Any, one: Any) -> Any:
    while parents[one] != one:
        parents[one] = parents[parents[one]]
        one = parents[one]
    return one


@kernel
def _components(num_documents: Any, edges: Any) -> Any:
    """The smaller root always wins, so a root is the smallest number of its component."""
    parents = np.arange(num_documents)
    for edge in range(len(edges)):
        a, b = _root(parents, edges[edge, 0]), _root(parents, edges[edge, 1])
        parents[max(a, b)] = min(a, b)
    for one in range(num_documents):
        parents[one] = _root(parents, one)
    return parents
