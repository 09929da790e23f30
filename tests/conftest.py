"""What all tests share: no hub, no usage reports, no state outside a temporary folder."""

from __future__ import annotations

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("DO_NOT_TRACK", "1")
os.environ.setdefault("BENTOML_DO_NOT_TRACK", "True")
os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
