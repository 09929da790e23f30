from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tasks.core import events
from tasks.core.errors import ServiceError
from tasks.training import extension


class Notes:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def note(self, message: str) -> None:
        self.lines.append(message)


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    return extension.cache_folder()


@pytest.fixture
def built(cache) -> Path:
    folder = cache / extension.NAME
    folder.mkdir(parents=True)
    (folder / extension.BUILT).touch()
    return folder


def test_a_finished_build_is_not_touched(built, monkeypatch):
    monkeypatch.setattr(extension, "compile_into", None)
    started = time.monotonic()
    assert extension.ensure_built().parent == built
    assert time.monotonic() - started < 0.2


def test_the_lock_of_a_killed_build_does_not_stop_the_next(cache, monkeypatch):
    monkeypatch.setattr(extension, "BUILD", "import os, pathlib; assert not list(pathlib.Path('.').glob('lock'))")
    folder = cache / extension.NAME
    folder.mkdir(parents=True)
    (folder / "lock").touch()
    extension.ensure_built()
    assert not (folder / "lock").exists()
    assert (folder / extension.BUILT).is_file()


def test_a_failed_build_shows_the_compilers_last_lines_and_does_not_count(cache, monkeypatch):
    monkeypatch.setattr(extension, "BUILD", "raise SystemExit('fatal error: omp.h: No such file')")
    with pytest.raises(ServiceError, match=r"omp\.h: No such file"):
        extension.ensure_built()
    assert not (cache / extension.NAME / extension.BUILT).exists()


def test_a_missing_compiler_is_named_with_the_package_that_brings_it(cache, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(ServiceError, match="compiler no-such-compiler is missing") as error:
        extension.ensure_built()
    assert "g++" in error.value.next_step


def test_missing_headers_are_named(cache, monkeypatch, tmp_path):
    monkeypatch.setattr(extension.sysconfig, "get_paths", lambda: {"include": str(tmp_path / "include")})
    with pytest.raises(ServiceError, match=r"Python's headers \(.*Python.h\) are missing"):
        extension.ensure_built()


def test_two_builders_at_once_build_once(cache, tmp_path):
    count = tmp_path / "count"
    program = (
        "from tasks.training import extension\n"
        f"extension.BUILD = \"import time; time.sleep(1); open({str(count)!r}, 'a').write('x')\"\n"
        "extension.ensure_built()\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", program], cwd=extension.VAR.parent) for _ in range(2)]
    assert [one.wait(60) for one in both] == [0, 0]
    assert count.read_text() == "x"


def test_a_long_build_says_how_long_it_has_taken(cache, monkeypatch):
    monkeypatch.setattr(extension, "BUILD", "import time; time.sleep(1.2)")
    monkeypatch.setattr(extension, "SAY_EVERY_S", 0.3)
    notes = Notes()
    with events.listening(notes):
        extension.ensure_built()
    assert sum("ETA at most" in line for line in notes.lines) >= 2


def test_another_kind_of_cpu_has_another_cache(tmp_path):
    for name, flags in (("one", "avx2"), ("other", "avx2 avx512f")):
        (tmp_path / name).write_text(f"processor\t: 0\nflags\t\t: {flags}\ncpu MHz\t: 1\n")
    assert extension.cpu_digest(tmp_path / "one") != extension.cpu_digest(tmp_path / "other")


def test_the_folder_given_to_a_child_is_the_same_in_the_child(cache, monkeypatch):
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(cache))
    assert extension.cache_folder() == cache
