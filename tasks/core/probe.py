"""Proves on the real store that of many who publish at once exactly one wins; everything else rests on that."""

from __future__ import annotations

import secrets
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from upath import UPath

from tasks.core.errors import ServiceError
from tasks.core.store import Store

NUM_WRITERS = 16
NUM_RACES = 5
BODY_BYTES = 10_000
"""More than one page, so that a mixture of two writers' bytes would show."""


def prove_exclusive_writes(store: Store) -> None:
    """Race for new names in a folder of its own, which is removed afterwards.

    Threads of one process reach the store's file system exactly as processes would.

    Raises:
        ServiceError: two writers won, nobody did, or the winner's bytes are not what stands there.
    """
    folder = store.root / f".probe-{secrets.token_hex(8)}"
    try:
        for turn in range(NUM_RACES):
            judge(store, folder / f"{turn}.json", race(store, folder / f"{turn}.json"))
    except OSError as error:
        raise refusal(store, f"a write failed: {error}") from error
    finally:
        store.discard(folder)


def race(store: Store, path: UPath) -> list[int]:
    """Let all writers create one name at once; numbers of those who were told that they were first."""
    start = Barrier(NUM_WRITERS)

    def won(number: int) -> bool:
        start.wait()
        try:
            store.create(path, body_of(number))
        except FileExistsError:
            return False
        return True

    with ThreadPoolExecutor(NUM_WRITERS) as pool:
        return [number for number, first in enumerate(pool.map(won, range(NUM_WRITERS))) if first]


def judge(store: Store, path: UPath, winners: list[int]) -> None:
    """Refuse a race that had not exactly one winner, or whose winner's bytes do not stand."""
    if len(winners) != 1:
        raise refusal(store, f"of {NUM_WRITERS} exclusive writes of one name it accepted {len(winners)}")
    if path.read_bytes() != body_of(winners[0]):
        raise refusal(store, "it holds other bytes than those of the one write that it accepted")


def body_of(number: int) -> bytes:
    """What a writer writes; its length differs from everybody else's."""
    return bytes([number]) * (BODY_BYTES + number)


def refusal(store: Store, reason: str) -> ServiceError:
    return ServiceError(
        f"the store {store.root} cannot be used: {reason}; two runs could overwrite each other's records",
        subject=str(store.root),
        next_step="put the store on a file system with hard links that are made atomically (ext4, XFS, NFSv4)",
    )
