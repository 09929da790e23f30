"""Notices partitions that arrive: the watcher of the asset that ``dags/arrivals.py`` is scheduled by.

In ``airflow.cfg`` (or ``AIRFLOW__HEADRACE__…`` in the environment)::

    [headrace]
    arrivals_prefix = s3://bucket/incoming
    arrivals_every_s = 60

What has been started is written in the asset's state, in Airflow's database, by the DAG that started it. What is not
there is told again after a while, so nothing is missed when an event is lost on its way: Airflow's scheduler passes
over one that comes while another of the same asset waits for it, and events in a triggerer that dies are gone.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import AsyncIterator, Collection
from typing import Any
from urllib.parse import quote

from airflow.sdk import Asset, AssetWatcher
from airflow.sdk.configuration import conf
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from plugins.hooks import credentials
from plugins.operators.backends import ROOT, SECTION, local_environment
from tasks.core.errors import ConfigError

STARTED = "started"
"""Key in the asset's state: names of the partitions that need not be told any more."""
EVERY_S = 60.0
LEAST_S = 5.0
"""A look lists a folder, in a process that takes some tenths of a second to start."""
AGAIN_S = 300.0
"""After which a partition that nothing was started for is told again."""
LONGEST_WAIT_S = 900.0
"""From one failed look to the next, at most."""
LOOK_S = 300.0
"""How long a look may take before it counts as failed."""


def watched() -> Asset | None:
    """The asset that is updated when a partition arrives; None where nothing is to be watched.

    Raises:
        ConfigError: the time between two looks is too short; Airflow shows it as an import error.
    """
    prefix = str(conf.get(SECTION, "arrivals_prefix", fallback="")).strip()
    every_s = conf.getfloat(SECTION, "arrivals_every_s", fallback=EVERY_S)
    if not prefix:
        return None
    if not every_s >= LEAST_S:
        raise ConfigError(f"[{SECTION}] arrivals_every_s must be at least {LEAST_S:g} (got {every_s:g})")
    trigger = ArrivalsTrigger(prefix, every_s)
    name = f"partitions under {quote(prefix, safe=':/')}"  # of its own for each prefix, so that its state is, too
    return Asset(name, watchers=[AssetWatcher(name="partitions", trigger=trigger)])


class LookError(Exception):
    """A look that failed; the next may go well."""


class ArrivalsTrigger(BaseEventTrigger):
    """Looks again and again, and tells of the partitions that have become complete, all of a look in one event.

    It never ends by itself: Airflow would start it again at once, and again.
    """

    def __init__(self, prefix: str, every_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefix = prefix
        self.every_s = every_s
        self._told_at: dict[str, float] = {}

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow needs to make it again. No credentials: each look asks for them."""
        return f"{__name__}.{type(self).__name__}", {"prefix": self.prefix, "every_s": self.every_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """The names of partitions, whenever there are some to tell."""
        failures = 0
        while True:
            wait_s, names = self.every_s, []
            try:
                names = await self.to_tell()
                failures = 0
            except Exception as error:  # noqa: BLE001 (see above: nothing may end it)
                failures += 1
                wait_s = wait_after(failures, self.every_s)
                self.log.warning("look %d in a row that failed: %s; next in %.0f s", failures, error, wait_s)
            if names:
                yield TriggerEvent({"partitions": names})  # type: ignore[no-untyped-call]
            await asyncio.sleep(wait_s)

    async def to_tell(self) -> list[str]:
        """The complete partitions for which nothing was started, without those that were told lately."""
        assert self.asset_state_store is not None  # Airflow gives it to every watcher
        started: Any = await self.asset_state_store.aget(STARTED)
        complete = await look(self.prefix, started or ())
        if started is None:
            self.log.info("watching %s, where %d partitions are complete", self.prefix, len(complete))
            complete = await self.without_history(complete)
        now = time.monotonic()
        names = [name for name in complete if now - self._told_at.get(name, -AGAIN_S) >= AGAIN_S]
        self._told_at.update(dict.fromkeys(names, now))
        return names

    async def without_history(self, complete: list[str]) -> list[str]:
        """Of the partitions that were there before anybody looked, only the newest, as with a schedule that does not
        catch up: a night reads what came since the champion anyway."""
        assert self.asset_state_store is not None
        await self.asset_state_store.aset(STARTED, [*complete[:-1]])
        return complete[-1:]


def wait_after(failures: int, every_s: float) -> float:
    """Seconds from one of so many failed looks in a row to the next."""
    return max(every_s, min(every_s * 2.0 ** min(failures, 20), LONGEST_WAIT_S))


async def look(prefix: str, known: Collection[str]) -> list[str]:
    """The complete partitions under a prefix that are not known yet; none while there is no such prefix.

    Raises:
        LookError: it did not work, or took too long.
        ConfigError: a Connection is missing or cannot be used.
    """
    given = await credentials.for_trigger()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "plugins.triggers.look", prefix),
        cwd=ROOT,
        env=local_environment(given.environment),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        said, problem = await asyncio.wait_for(process.communicate(json.dumps(sorted(known)).encode()), LOOK_S)
    except TimeoutError:
        raise LookError(f"no answer about {prefix} after {LOOK_S:.0f} s") from None
    finally:
        if process.returncode is None:
            process.kill()
    if process.returncode:
        words = problem.decode("utf-8", "replace").strip().splitlines() or ["it was killed"]
        raise LookError(f"cannot look for partitions under {prefix}: {given.hide(words[-1])}")
    return json.loads(said) or []
