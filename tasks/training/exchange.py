"""The files through which a supervising stage and its training processes talk.

job.json          what to do; written before the launch
stop              "finish your step, save and leave"; made by the supervisor
training.jsonl    the loss curve, one JSON object per line; appended by the first process
ledger/           which samples each process read, see tasks.training.ledger
outcome.json      how it ended: the last thing the first process writes
failure.json      why it ended: written by the first process that failed
checkpoints/      see tasks.training.checkpoint
logs/             everything torch, DeepSpeed and the processes print
"""

from __future__ import annotations

import json
import os
import traceback
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tasks.core import errors
from tasks.core.errors import HeadraceError
from tasks.core.store import sync_folder


@dataclass(frozen=True)
class Exchange:
    """The folder of one training, by the names above."""

    folder: Path

    @property
    def job(self) -> Path:
        return self.folder / "job.json"

    @property
    def stop(self) -> Path:
        return self.folder / "stop"

    @property
    def curve(self) -> Path:
        return self.folder / "training.jsonl"

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger"

    @property
    def outcome(self) -> Path:
        return self.folder / "outcome.json"

    @property
    def failure(self) -> Path:
        return self.folder / "failure.json"

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def meeting(self) -> Path:
        return self.folder / "meeting"

    @property
    def group(self) -> Path:
        return self.folder / "group"

    @property
    def model(self) -> Path:
        return self.folder / "model"

    def prepare(self, job: dict[str, Any]) -> None:
        """Clear what an earlier attempt left behind (not its checkpoints) and write the job."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        self.logs.mkdir(exist_ok=True)
        for path in (self.stop, self.outcome, self.failure, self.meeting, self.group):
            path.unlink(missing_ok=True)
        write_json(self.job, job)

    def read_job(self) -> dict[str, Any]:
        job: dict[str, Any] = json.loads(self.job.read_text("utf-8"))
        return job

    def read_outcome(self) -> dict[str, Any] | None:
        """How the run ended; None when it did not come to an end of its own."""
        if not self.outcome.is_file():
            return None
        outcome: dict[str, Any] = json.loads(self.outcome.read_text("utf-8"))
        return outcome

    def write_failure(self, error: BaseException) -> None:
        """Leave a failure for the supervisor; the first process to fail is heard, as others fail in its wake."""
        described = {
            "kind": type(error).__name__,
            "message": str(error),
            "next_step": getattr(error, "next_step", ""),
            "subject": getattr(error, "subject", ""),
            "traceback": "".join(traceback.format_exception(error)),
        }
        private = self.folder / f".failure-{os.getpid()}"
        write_json(private, described)
        with suppress(FileExistsError):
            os.link(private, self.failure)
        private.unlink()

    def read_failure(self) -> HeadraceError | None:
        """The failure as the error it was, a fault with its traceback as a note; None when no process told of one."""
        if not self.failure.is_file():
            return None
        told = json.loads(self.failure.read_text("utf-8"))
        kind = getattr(errors, told["kind"], None)
        if kind in (errors.GateError, errors.DataError, errors.ServiceError, errors.TryAgain):
            return kind(told["message"], next_step=told["next_step"], subject=told["subject"])  # type: ignore[no-any-return]
        failure = HeadraceError(
            f"a training process failed with {told['kind']}: {told['message']}",
            subject=str(self.logs),
            next_step=f"read the traceback above and the logs in {self.logs}",
        )
        failure.add_note(told["traceback"])
        return failure


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file that appears whole and durably, or not at all."""
    private = path.with_name(f".{path.name}.{os.getpid()}")
    with private.open("w", encoding="utf-8") as file:
        json.dump(value, file, ensure_ascii=False, indent=1, sort_keys=True)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    private.replace(path)
    sync_folder(path.parent)
