"""Setting up: what only tests need is asked for by who tests, and by nobody else."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NO_SUCH_JAVA = "/nowhere"


class Checkout:
    """A checkout in which everything but the jars is set up, on a machine whose Java is nowhere."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir()
        for name in ("setup", "hadoop-jars"):
            shutil.copy(ROOT / "bin" / name, root / "bin")
        for name in ("requirements.txt", "airflow.cfg"):
            shutil.copy(ROOT / name, root)
        shutil.copytree(ROOT / "containers/hdfs", root / "containers/hdfs")
        (root / "bin/with-env").write_text("#!/bin/sh\necho with-env $* >&2\n")
        (root / "bin/with-env").chmod(0o755)
        for folder, name, files in (
            (".venv", ".installed", "requirements.txt bin/setup"),
            ("var", ".prepared", "requirements.txt airflow.cfg bin/setup"),
        ):
            (root / folder).mkdir()
            subprocess.run(
                f'touch "{folder}/{name}-$(cat {files} | sha256sum | cut -c1-16)"', shell=True, cwd=root, check=True
            )

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "bin/setup", *arguments],
            env={**os.environ, "JAVA_HOME": NO_SUCH_JAVA, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


def test_running_needs_no_java(checkout):
    done = checkout()
    assert done.returncode == 0, done.stderr
    assert done.stderr == "with-env python -m tasks.training.extension\n"


def test_who_tests_without_java_is_told_the_one_line_that_helps(checkout):
    refused = checkout("tests")
    assert refused.returncode == 4
    assert "next step: sudo apt-get install -y openjdk-17-jre-headless" in refused.stderr.splitlines()[-1]


def test_who_tests_gets_the_jars_with_a_name_and_an_estimate(checkout):
    (checkout.root / "bin/hadoop-jars").write_text('#!/bin/sh\n[ "$1" != there ]\n')
    done = checkout("tests")
    assert done.returncode == 0, done.stderr
    assert "Fetching Hadoop's jars for the tests (70 MB, about 20 s)" in done.stderr


def test_jars_that_are_there_are_not_fetched(checkout):
    (checkout.root / "bin/hadoop-jars").write_text("#!/bin/sh\n")
    assert "Fetching" not in checkout("tests").stderr


def test_an_unknown_purpose_is_refused(checkout):
    refused = checkout("test")
    assert refused.returncode == 2
    assert "known: tests" in refused.stderr


@pytest.mark.parametrize(
    ("goal", "first"), [("test", "bin/setup tests"), ("run", "bin/setup"), ("check", "bin/setup"), ("up", "bin/setup")]
)
def test_make_sets_up_for_tests_only_what_tests(goal, first):
    command = ["make", "--dry-run", "--no-print-directory", goal]  # make may be what runs this test
    shown = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[0] == first
