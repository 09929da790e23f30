"""Checkpoints that are whole or absent.

    checkpoints/step-00000200/…              what DeepSpeed and each process wrote
    checkpoints/step-00000200/manifest.json  sizes and SHA-256 of all of it, the generation of the lease it was
                                             written under; written last, and then it counts
    checkpoints/latest                       the name of the newest that counts, for people

DeepSpeed's own ``latest`` appears before all processes have written their part, so a kill at the wrong moment leaves
it pointing at half a checkpoint; it is not used. Nothing here is unpickled before its digest was verified.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from tasks.core import workspace
from tasks.core.errors import ConfigError
from tasks.core.store import sync_folder
from tasks.training.exchange import write_json
from tasks.training.generators import late_seed, random_state, restore_random_state, seed_generators

MANIFEST = "manifest.json"
LATEST = "latest"
NUM_KEPT = 2

Engine = Any
"""``deepspeed.DeepSpeedEngine``, which has no types."""


@dataclass(frozen=True)
class Layout:
    """What a checkpoint's files depend on besides the run."""

    num_processes: int
    zero_stage: int

    def reads(self, written: Layout) -> bool:
        """Whether a run of this layout can go on from a checkpoint of that one.

        At ZeRO stage 0 every process holds the whole state and the first one saves it, so their number may change; from
        stage 1 on each saves a part, and DeepSpeed refuses to load them in another number.
        """
        return self == written or self.zero_stage == written.zero_stage == 0


def tag_of(step: int) -> str:
    return f"step-{step:08d}"


def step_of(tag: str) -> int:
    return int(tag.removeprefix("step-"))


def save(engine: Engine, folder: Path, step: int, state: dict[str, Any], layout: Layout) -> None:
    """Write, commit and prune; every process calls it. ``state`` must be plain values, the same on every process.

    Raises:
        TryAgain: another run has taken the workspace.
    """
    tag = tag_of(step)
    if dist.get_rank() == 0:
        workspace.check_lease()
        shutil.rmtree(folder / tag, ignore_errors=True)
    dist.barrier()
    engine.save_checkpoint(str(folder), tag=tag, client_state={"run": state}, save_latest=False)
    torch.save(random_state(), folder / tag / f"random-{dist.get_rank()}.pt")
    dist.barrier()
    if dist.get_rank() == 0:
        commit(folder, tag, layout)
        prune(folder)
    dist.barrier()


def load(engine: Engine, folder: Path, tag: str, *, seed: int) -> dict[str, Any]:
    """Put engine and random state back to a verified checkpoint; returns the ``state`` given to :func:`save`.

    A process that the run did not have when it saved has no random state to put back. It gets one that follows from
    the run's seed, its rank and the step.
    """
    path, client_state = engine.load_checkpoint(str(folder), tag=tag)
    assert path is not None, f"DeepSpeed found no checkpoint in {folder / tag}"
    kept = folder / tag / f"random-{dist.get_rank()}.pt"
    if kept.is_file():
        restore_random_state(torch.load(kept, weights_only=True))
    else:
        seed_generators(late_seed(seed, dist.get_rank(), step_of(tag)))
    state: dict[str, Any] = client_state["run"]
    return state


def commit(folder: Path, tag: str, layout: Layout) -> None:
    """Make the files of a tag durable, then the manifest that makes them count, then the pointer.

    Raises:
        TryAgain: another run has taken the workspace; the tag does not count then.
    """
    files = {}
    for path in sorted(one for one in (folder / tag).rglob("*") if one.is_file()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
            os.fsync(file.fileno())
        files[path.relative_to(folder / tag).as_posix()] = {"size": path.stat().st_size, "sha256": digest}
    sync_folder(folder / tag)
    workspace.check_lease()
    lease = workspace.lease()
    write_json(
        folder / tag / MANIFEST, {"files": files, "generation": lease.generation if lease else 0, **vars(layout)}
    )
    private = folder / f".{LATEST}"
    private.write_text(tag + "\n", encoding="utf-8")
    private.replace(folder / LATEST)
    sync_folder(folder)


def prune(folder: Path) -> None:
    """Remove all but the newest :data:`NUM_KEPT` checkpoints."""
    for tag in tags(folder)[NUM_KEPT:]:
        shutil.rmtree(folder / tag)


def tags(folder: Path) -> list[str]:
    """Names of the checkpoints that were begun, newest first."""
    if not folder.is_dir():
        return []
    return sorted((path.name for path in folder.glob("step-*") if path.is_dir()), key=step_of, reverse=True)


def last_step(folder: Path) -> int:
    """Step of the newest checkpoint that counts; 0 when there is none."""
    return next((step_of(tag) for tag in tags(folder) if damage(folder / tag) is None), 0)


def damage(checkpoint: Path) -> str | None:
    """Why a checkpoint does not count; None when every file is what the manifest says."""
    manifest = checkpoint / MANIFEST
    if not manifest.is_file():
        return "was never finished"
    for name, told in json.loads(manifest.read_text("utf-8"))["files"].items():
        path = checkpoint / name
        if not path.is_file() or path.stat().st_size != told["size"]:
            return f"{name} is missing or cut off"
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() != told["sha256"]:
                return f"{name} was altered"
    return None


def newest_verified(folder: Path, layout: Layout) -> tuple[str | None, list[str]]:
    """The newest checkpoint that counts, and one line about each newer one that does not.

    Raises:
        ConfigError: when it was written under another ZeRO stage; or by another number of processes, unless at stage 0.
    """
    refused = []
    for tag in tags(folder):
        if (reason := damage(folder / tag)) is not None:
            refused.append(f"checkpoint {tag} left out: {reason}")
            continue
        told = json.loads((folder / tag / MANIFEST).read_text("utf-8"))
        written = Layout(told["num_processes"], told["zero_stage"])
        if not layout.reads(written):
            raise ConfigError(
                f"checkpoint {folder / tag} is of num_processes={written.num_processes}, "
                f"zero_stage={written.zero_stage}; given: {layout.num_processes}, {layout.zero_stage}",
                next_step="run with the same two knobs (at zero_stage 0 num_processes may change), or remove the "
                "checkpoints to start anew",
            )
        return tag, refused
    return None, refused
