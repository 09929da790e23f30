"""Signs of life: a file of a store whose modification time moves while somebody works, told by the store's clock alone.

A daemon thread gives them: a fork does not inherit threads, so a child that outlives its parent keeps nothing alive,
and the thread only ever touches a file that is there, so one that hangs in the store and wakes later revives nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from upath import UPath

if TYPE_CHECKING:
    from tasks.core.store import Store

EVERY_S = 15.0


@contextmanager
def beating(store: Store, sign: UPath) -> Iterator[None]:
    """Touch a file that is there every :data:`EVERY_S` for the time of a block."""
    over = threading.Event()
    threading.Thread(target=beat, args=(store, sign, over), name=f"heartbeat {sign.name}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


def beat(store: Store, sign: UPath, over: threading.Event) -> None:
    """Touch the sign until it is over or the sign was taken away."""
    while not over.wait(EVERY_S):
        try:
            store.touch(sign)
        except FileNotFoundError:
            return
        except Exception:  # noqa: S112, BLE001 (a store that is out of reach now may be back at the next beat)
            continue
