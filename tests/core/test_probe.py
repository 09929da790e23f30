import os
import secrets
from pathlib import Path
from threading import Barrier

import pytest

from tasks import __main__ as command
from tasks import upkeep
from tasks.core.errors import ServiceError
from tasks.core.location import local
from tasks.core.probe import NUM_WRITERS, prove_exclusive_writes
from tasks.core.store import LocalStore


class Overwriting(LocalStore):
    """Publishes by renaming, which replaces what is there."""

    def create(self, path, data):
        target = local(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        private = target.with_name(secrets.token_hex(8))
        private.write_bytes(data)
        private.replace(target)


class LooksFirst(LocalStore):
    """Looks whether the name is free and takes it then; here everybody has looked before anybody writes."""

    everybody_looked = Barrier(NUM_WRITERS)

    def create(self, path, data):
        if path.exists():
            raise FileExistsError(path)
        self.everybody_looked.wait()
        local(path).parent.mkdir(parents=True, exist_ok=True)
        local(path).write_bytes(data)


class WritesInPlace(LocalStore):
    """Exclusive, but the winner's bytes are not what stands there in the end."""

    def create(self, path, data):
        super().create(path, data)
        local(path).write_bytes(data[:-1])


class WithoutLinks(LocalStore):
    """On a file system that has no hard links."""

    def create(self, path, data):
        raise PermissionError(1, os.strerror(1), f"{path} ({len(data)} bytes)")


def test_a_local_disk_is_proven_and_left_as_it_was(store):
    Path(store.root.path).mkdir()
    prove_exclusive_writes(store)
    assert list(Path(store.root.path).iterdir()) == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (Overwriting, "it accepted 16"),
        (LooksFirst, "of 16 exclusive writes of one name it accepted 16"),
        (WritesInPlace, "holds other bytes"),
        (WithoutLinks, "a write failed"),
    ],
)
def test_a_store_without_exclusive_writes_is_refused(store, kind, reason):
    with pytest.raises(ServiceError, match=reason):
        prove_exclusive_writes(kind(store.root))
    assert list(Path(store.root.path).glob(".probe-*")) == []


def test_the_command_ends_with_the_code_of_a_missing_service(store, monkeypatch, capsys):
    assert command.main(["check", "--probe", "--store", str(store.root)]) == 0
    assert "exactly one won" in capsys.readouterr().out
    monkeypatch.setattr(upkeep, "open_store", lambda root: Overwriting(store.root))
    assert command.main(["check", "--probe"]) == 4
    assert "could overwrite each other's records" in capsys.readouterr().err
