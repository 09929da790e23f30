"""Package: the compressed model as a BentoML service, exported as one file and registered as the challenger."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from upath import UPath

from tasks.core import events
from tasks.core.artifact import file_digest
from tasks.core.config import plain
from tasks.core.errors import DataError
from tasks.core.registered import ARTIFACT_TAG
from tasks.core.transfer import local_copy, local_output
from tasks.package import build, registry
from tasks.package.archive import fix_creation_time, write_archive
from tasks.package.card import card_of
from tasks.package.config import PackageConfig
from tasks.package.service.limits import Limits

VERSION = 1

DESCRIPTION = "bento.json"


@dataclass(frozen=True)
class PackageResult:
    """The bento and what it was built around."""

    tag: str
    """``name:version``, where the version is a digest of everything inside."""
    file: str
    size_bytes: int
    sha256: str
    num_files: int
    bits_per_byte: float | None
    """Of the evaluated model; None when the evaluation has no such number."""


def run(config: PackageConfig, compressed: UPath, evaluation: UPath, *, out: UPath) -> PackageResult:
    """Build, export, describe and register the bento.

    Raises:
        DataError: an input lacks a file.
        ServiceError: MLflow's registry cannot be reached.
    """
    with local_copy(compressed) as model, local_copy(evaluation) as evaluated, local_output(out) as target:
        needed = [model / name for name in (*build.MODEL_FILES, f"{config.variant}/model.onnx", "contracts.json")]
        check_present([*needed, evaluated / "evaluation.json"])
        scores, contracts = (read_json(path) for path in (evaluated / "evaluation.json", model / "contracts.json"))
        limits = Limits(**plain(config))
        tag, files = make_bento(limits, model, scores, contracts, target)
        bento = target / f"{config.model_name}.bento"
        result = PackageResult(
            tag=tag,
            file=bento.name,
            size_bytes=bento.stat().st_size,
            sha256=file_digest(UPath(bento)),
            num_files=len(files),
            bits_per_byte=bits_per_byte(scores),
        )
        about = {"files": files, "requirements": build.requirements(), "limits": asdict(limits), "evaluation": scores}
        write_json(target / DESCRIPTION, {**asdict(result), **about})
        registered = register(config, result, bento, str(out))
        (target / "report").mkdir()
        write_json(target / "report" / "registration.json", asdict(registered))
    return result


def check_present(paths: list[Path]) -> None:
    """Raise a DataError that names every file an input lacks."""
    if missing := [str(path) for path in paths if not path.is_file()]:
        raise DataError(
            f"missing: {', '.join(missing)}", subject=missing[0], next_step="run compress and evaluate again"
        )


def make_bento(
    limits: Limits, model: Path, scores: dict[str, Any], contracts: dict[str, Any], target: Path
) -> tuple[str, list[dict[str, Any]]]:
    """Write ``<name>.bento``; returns its tag and its files with size and digest."""
    with tempfile.TemporaryDirectory(prefix="headrace-package-") as name:
        folder, home = Path(name, "context"), Path(name, "home")
        folder.mkdir()
        home.mkdir()
        build.gather(model, limits, folder)
        write_json(folder / "model" / "evaluation.json", scores)
        build_version = build.digest_of(folder)[:16]
        tag = f"{limits.model_name}:{build_version}"
        (folder / "README.md").write_text(card_of(tag, limits, scores, contracts), "utf-8")
        events.note(f"building {tag}")
        bento = build.build(folder, home, name=limits.model_name, build_version=build_version)
        fix_creation_time(bento)
        write_archive(bento, target / f"{limits.model_name}.bento")
        return tag, listing(bento)


def listing(folder: Path) -> list[dict[str, Any]]:
    """Every file below a folder with its size and digest."""
    return [
        {"path": path.relative_to(folder).as_posix(), "size": path.stat().st_size, "sha256": file_digest(UPath(path))}
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    ]


def register(config: PackageConfig, result: PackageResult, bento: Path, artifact: str) -> registry.Registration:
    """Make the bento the registry's challenger, with tags that lead back to the artifact."""
    tags = {"headrace.bento": result.tag, ARTIFACT_TAG: artifact}
    if result.bits_per_byte is not None:
        tags["headrace.bits_per_byte"] = f"{result.bits_per_byte:.6g}"
    found = registry.register(config.model_name, bento, result.sha256, tags)
    known = " (these bytes were registered before)" if found.reused else ""
    events.note(f"registered {found.name} version {found.version} as {found.alias}{known}")
    events.metric("registry_version", float(found.version))
    return found


def bits_per_byte(scores: dict[str, Any]) -> float | None:
    """The model's bits per byte over the whole evaluated split."""
    found = scores.get("total", {}).get("bits_per_byte", {}).get("model")
    return float(found) if isinstance(found, int | float) else None


def read_json(path: Path) -> dict[str, Any]:
    values: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return values


def write_json(path: Path, values: dict[str, Any]) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", "utf-8")
