"""A stage that waits to be stopped, and then takes seven seconds for its checkpoint."""

import os
import time
from dataclasses import dataclass

from tasks.waits.config import WaitsConfig
from upath import UPath

from tasks.core.store import VAR

VERSION = 1


@dataclass(frozen=True)
class WaitsResult:
    """Nothing to tell."""


def run(config: WaitsConfig, *, out: UPath) -> WaitsResult:
    (VAR / "ui-url").write_text(os.environ["MLFLOW_UI_URL"])
    try:
        time.sleep(600)
    finally:
        time.sleep(7)
        (VAR / "checkpoint").write_text("whole")
    return WaitsResult()
