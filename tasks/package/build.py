"""From a compressed model to a built bento: gather source, model and limits, then let BentoML build them.

BentoML runs in a process of its own with a home of its own: it imports the service while building, and the modules
of that service must come from the gathered folder and stay out of this process.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import yaml
from upath import UPath

from tasks.core.artifact import file_digest
from tasks.core.config import canonical_json
from tasks.core.errors import HeadraceError, ServiceError
from tasks.core.store import REPOSITORY
from tasks.package.service.limits import Limits

SERVICE = "tasks.package.service.service:Completions"
SOURCES = (
    "tasks/__init__.py",
    "tasks/lm/__init__.py",
    "tasks/lm/completion_text.py",
    "tasks/lm/onnx_generation.py",
    "tasks/package/__init__.py",
)
MODEL_FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")
REQUIREMENTS = ("bentoml", "fastapi", "numpy", "onnxruntime", "prometheus-client", "pydantic", "tokenizers")
"""All that the service imports; the versions are those of the environment that built and tested it."""
BUILD_TIMEOUT_S = 300


def requirements() -> list[str]:
    """The service's direct requirements, pinned to what is installed here."""
    return [f"{name}=={version(name)}" for name in REQUIREMENTS]


def gather(compressed: Path, limits: Limits, folder: Path) -> None:
    """Copy source, model and limits into an empty folder, laid out as inside the bento."""
    services = sorted((REPOSITORY / "tasks/package/service").glob("*.py"))
    for source in (*(REPOSITORY / name for name in SOURCES), *services):
        target = folder / source.relative_to(REPOSITORY)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
    model = folder / "model"
    shutil.copytree(compressed / limits.variant, model / limits.variant)
    for name in MODEL_FILES:
        shutil.copyfile(compressed / name, model / name)
    (model / "service.json").write_text(json.dumps(asdict(limits), indent=1) + "\n", "utf-8")


def digest_of(folder: Path) -> str:
    """Digest of what is built: every gathered file and the requirements; its first 16 digits are the version."""
    files = {
        path.relative_to(folder).as_posix(): file_digest(UPath(path)) for path in folder.rglob("*") if path.is_file()
    }
    return hashlib.sha256(canonical_json([files, requirements()]).encode()).hexdigest()


def environment(home: Path) -> dict[str, str]:
    """The environment of a ``bentoml`` process with a home of its own, that sees no source but the bento's."""
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return {**inherited, "BENTOML_HOME": str(home), "BENTOML_DO_NOT_TRACK": "True"}


def build(folder: Path, home: Path, *, name: str, build_version: str) -> Path:
    """Build the gathered folder; returns the bento's folder inside ``home``.

    Raises:
        ServiceError: uv is missing, which BentoML asks for before it builds, even with nothing to lock.
        HeadraceError: with the last lines of what BentoML said.
    """
    if shutil.which("uv") is None and find_spec("uv") is None:
        raise ServiceError("bentoml build needs uv", subject="uv", next_step="install the uv of requirements.txt")
    options = {
        "service": SERVICE,
        "name": name,
        "description": "file: README.md",
        "include": ["tasks/**", "model/**", "README.md"],
        "python": {"packages": requirements(), "lock_packages": False},
        "docker": {"python_version": f"{sys.version_info.major}.{sys.version_info.minor}"},
    }
    (folder / "bentofile.yaml").write_text(yaml.safe_dump(options, sort_keys=False), "utf-8")
    command = [sys.executable, "-m", "bentoml", "build", "--version", build_version, "--output", "tag", "."]
    done = subprocess.run(
        command, cwd=folder, env=environment(home), capture_output=True, text=True, timeout=BUILD_TIMEOUT_S, check=False
    )
    bento = home / "bentos" / name / build_version
    if done.returncode != 0 or not (bento / "bento.yaml").is_file():
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-20:])
        raise HeadraceError(f"bentoml build exited with {done.returncode}:\n{said}", next_step="read what it says")
    return bento
