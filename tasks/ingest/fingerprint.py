"""What the sources hold now: a line that is added to a file must run ingest again."""

from __future__ import annotations

from typing import Any

from tasks.ingest.config import IngestConfig
from tasks.ingest.files import all_files, sha256_of


def fingerprint(config: IngestConfig) -> dict[str, Any]:
    """For each source its files as ``[name, size in bytes, SHA-256]``, in the order of names.

    Raises:
        ConfigError: naming every source that has no file.
        NothingNew: no partition of those asked for is there.
    """
    return {
        name: [[file.name, file.size_bytes, sha256_of(file.path)] for file in files]
        for name, files in all_files(config).items()
    }


def size_bytes(config: IngestConfig) -> int:
    """Bytes of all files of all sources, as they lie on disk."""
    return sum(file.size_bytes for files in all_files(config).values() for file in files)
