"""Notices partitions that arrive: the watcher of the asset that ``dags/arrivals.py`` is scheduled by.

In ``airflow.cfg`` (or ``AIRFLOW__HEADRACE__…`` in the environment)::

    [headrace]
    arrivals_prefix = s3://bucket/incoming
    arrivals_every_s = 60

Each partition is told at least once, and mostly exactly once: the trigger keeps what it told in the asset's state, in
Airflow's database, one look later, when its events have surely been handed on. If the triggerer dies in between, they
are told again, and starting a run that there is already does nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Collection
from typing import Any

from airflow.sdk import Asset, AssetWatcher
from airflow.sdk.configuration import conf
from airflow.triggers.base import BaseEventTrigger, TriggerEvent

from plugins.hooks import credentials
from plugins.operators.backends import ROOT, SECTION, local_environment
from tasks.core.errors import ConfigError

ASSET = "headrace-arrivals"
STATE = "announced"
EVERY_S = 60.0
LEAST_S = 5.0
"""An event is in Airflow's database a second or two after it was told; a look later has to be later than that."""
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
    return Asset(ASSET, watchers=[AssetWatcher(name="partitions", trigger=ArrivalsTrigger(prefix, every_s))])


class LookError(Exception):
    """A look that failed; the next may go well."""


class ArrivalsTrigger(BaseEventTrigger):
    """Looks again and again, and tells of each partition that has become complete.

    It never ends by itself: Airflow would start it again at once, and again.
    """

    def __init__(self, prefix: str, every_s: float) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.prefix = prefix
        self.every_s = every_s
        self._told: set[str] | None = None
        self._kept: set[str] | None = None

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """What Airflow needs to make it again. No credentials: each look asks for them."""
        return f"{__name__}.{type(self).__name__}", {"prefix": self.prefix, "every_s": self.every_s}

    async def run(self) -> AsyncIterator[TriggerEvent]:
        """One event for each partition, with its name."""
        failures = 0
        while True:
            wait_s = self.every_s
            try:
                arrived = await self.arrived()
            except Exception as error:  # noqa: BLE001 (see above: nothing may end it)
                arrived, failures = [], failures + 1
                wait_s = wait_after(failures, self.every_s)
                self.log.warning("look %d in a row that failed: %s; next in %.0f s", failures, error, wait_s)
            else:
                failures = 0
            for name in arrived:
                yield TriggerEvent({"partition": name})  # type: ignore[no-untyped-call]
            await asyncio.sleep(wait_s)

    async def arrived(self) -> list[str]:
        """What to tell now.

        Of the partitions that were there before anybody looked, only the newest, as with a schedule that does not catch
        up; a night reads what came since the champion anyway.
        """
        if self._told is None:
            self._told = self._kept = await self.remembered()
        await self.remember()
        complete = await look(self.prefix, self._told or ())
        if self._told is None:
            self.log.info("watching %s, where %d partitions are complete", self.prefix, len(complete))
            self._told, complete = set(complete[:-1]), complete[-1:]
            await self.remember()
        self._told = self._told | set(complete)
        return complete

    async def remembered(self) -> set[str] | None:
        """What was told of this prefix before the triggerer was started; None if nobody looked there yet."""
        kept: Any = await self.asset_state_store.aget(STATE) if self.asset_state_store else None
        return set(kept["names"]) if kept and kept["prefix"] == self.prefix else None

    async def remember(self) -> None:
        """Keep what has been told, if there is more of it."""
        if self.asset_state_store and self._told is not None and self._told != self._kept:
            await self.asset_state_store.aset(STATE, {"prefix": self.prefix, "names": [*sorted(self._told)]})
            self._kept = self._told


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
