"""A bento as one file whose bytes depend on its content alone.

BentoML's own export keeps the time of building, in ``bento.yaml`` and in every entry of the archive, so two builds of
the same thing would differ. Here times are the fixed ones below, as reproducible builds do with SOURCE_DATE_EPOCH; when
a bento was really built is in the artifact's record.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import yaml

EPOCH_S = 315_532_800
"""1980-01-01T00:00:00Z: the earliest time that zip archives and all file systems can hold."""
CREATION_TIME = "1980-01-01T00:00:00+00:00"


def fix_creation_time(bento: Path) -> None:
    """Put the fixed time into a built bento's ``bento.yaml``."""
    path = bento / "bento.yaml"
    values = yaml.safe_load(path.read_text("utf-8"))
    values["creation_time"] = CREATION_TIME
    path.write_text(yaml.safe_dump(values, sort_keys=False, allow_unicode=True), "utf-8")


def write_archive(folder: Path, target: Path) -> None:
    """Write a folder as the tar in xz that a ``.bento`` file is: entries by name, without times and owners."""
    with tarfile.open(target, mode="w:xz", format=tarfile.GNU_FORMAT) as archive:
        for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).as_posix()):
            name = path.relative_to(folder).as_posix()
            entry = archive.gettarinfo(path, arcname=name)
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = EPOCH_S, 0, 0, "", ""
            entry.mode = 0o755 if path.is_dir() else 0o644
            if path.is_file():
                with path.open("rb") as content:
                    archive.addfile(entry, content)
            else:
                archive.addfile(entry)
