"""What the clusters of near-copies are called. The split is a hash of the name, so a known name is never changed."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.core.documents import text_digest
from tasks.dedup.components import Labels
from tasks.dedup.corpus import Corpus


def cluster_names(labels: Labels, kept: Labels, corpus: Corpus) -> pa.Array:
    """The name of each document's cluster, given its component ``labels`` and which document is ``kept`` for it.

    A known document keeps the name it has. Another one takes the name of the known documents in its component, of
    several names the smallest, and without a known document the smallest id of those that are kept in it. A document
    and the one kept for it always share a component, since copies are more alike than a cluster asks for.
    """
    known = pc.unique(corpus.clusters).sort()
    old, new = corpus.ids[: corpus.num_known], corpus.ids[corpus.num_known :]
    names = pa.concat_arrays([known, old, _new_names(new, known)])  # in the order in which they are preferred
    name = len(known) + kept
    name[: corpus.num_known] = pc.index_in(corpus.clusters, value_set=known).to_numpy()
    first = np.full(len(labels), len(names), np.int64)
    np.minimum.at(first, labels, name)
    name[corpus.num_known :] = first[labels][corpus.num_known :]
    return names.take(pa.array(name))


def _new_names(ids: pa.Array, taken: pa.Array) -> pa.Array:
    """The ids as names of new clusters. One that names a known cluster already gives a digest of itself."""
    clash = pc.is_in(ids, value_set=taken)
    others = set(taken.to_pylist())
    free = pa.array([_free(one, others) for one in ids.filter(clash).to_pylist()], pa.string())
    return pc.replace_with_mask(ids, clash, free)


def _free(name: str, taken: set[str]) -> str:
    while name in taken:
        name = text_digest(name)
    return name
