"""A reader who looks all the time, and knows a whole artifact from a partial one."""

from __future__ import annotations

import threading

from tasks.core.artifact import Artifact, altered, file_digest, newest
from tasks.core.location import is_local
from tasks.core.store import Store


class Reader(threading.Thread):
    """Reads the store all the time, as a later stage would, and notes every artifact that is not whole."""

    def __init__(self, store: Store, *stages: str) -> None:
        super().__init__(daemon=True)
        self.store, self.stages, self.violations, self.done = store, stages, list[str](), threading.Event()

    def run(self) -> None:
        while not self.done.wait(0.05):
            try:
                self.look()
            except Exception:
                if is_local(self.store.root):
                    raise
                continue  # a server that was killed shows nothing

    def look(self) -> None:
        for stage in self.stages:
            for artifact in artifacts(self.store, stage):
                self.violations += damage(artifact)

    def stop(self) -> list[str]:
        self.done.set()
        self.join()
        return self.violations


def artifacts(store: Store, stage: str) -> list[Artifact]:
    """All that a stage published."""
    return [found for path in store.artifacts(stage) if (found := newest(store, path))]


def damage(artifact: Artifact) -> list[str]:
    """What is wrong with a published artifact: files that are gone, cut off or other than the record says."""
    if lost := altered(artifact):
        return lost
    return [
        f"{file.path} has other bytes"
        for file in artifact.record.files
        if file_digest(artifact.path / file.path) != file.sha256
    ]
