"""Hadoop's jars: fetched once, whole or not at all, and named when the machine cannot fetch them."""

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
JAVA = 'echo "openjdk version \\"${JAVA_SAYS:-17.0.15}\\" 2025-04-15" >&2'
MAVEN = """
for argument; do case $argument in -DoutputDirectory=*) folder=${argument#*=} ;; esac; done
mkdir -p "$folder"
echo fetched >>"$FETCHES"
echo one >"$folder/one.jar"
${MAVEN_DOES:-true}
echo two >"$folder/two.jar"
"""


class Checkout:
    """A checkout whose machine has the programs that the test gives it."""

    def __init__(self, root: Path) -> None:
        self.root, self.programs, self.fetches = root, root / "programs", root / "fetches"
        for name in ("bin/hadoop-jars", "containers/hdfs/pom.xml"):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
        self.programs.mkdir()
        for name in ("bash", "cat", "dirname", "env", "flock", "mkdir", "mv", "rm", "sed", "sha256sum"):
            (self.programs / name).symlink_to(shutil.which(name))

    def has(self, name: str, code: str) -> None:
        (self.programs / name).write_text(f"#!/usr/bin/env bash\n{code}\n")
        (self.programs / name).chmod(0o755)

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.root / "bin/hadoop-jars", *arguments],
            env={"PATH": str(self.programs), "FETCHES": str(self.fetches), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def jars(self) -> list[str]:
        return sorted(path.name for path in (self.root / "var/hdfs/lib").glob("*.jar"))


@pytest.fixture
def checkout(tmp_path):
    return Checkout(tmp_path)


@pytest.fixture
def equipped(checkout):
    checkout.has("java", JAVA)
    checkout.has("mvn", MAVEN)
    return checkout


def test_a_machine_without_java_and_maven_is_told_the_one_line_that_helps(checkout):
    refused = checkout()
    assert refused.returncode == 4
    assert refused.stderr.splitlines()[-1] == "next step: sudo apt-get install -y openjdk-17-jre-headless maven"
    assert checkout("lacks").stdout.split() == ["openjdk-17-jre-headless", "maven"]


@pytest.mark.parametrize(
    ("version", "lacks"), [("17", ""), ("21.0.2", ""), ("11.0.9", "openjdk"), ("1.8.0", "openjdk")]
)
def test_java_has_to_be_17_or_newer(equipped, version, lacks):
    assert equipped("lacks", JAVA_SAYS=version).stdout.partition("-")[0] == lacks


def test_java_is_the_one_of_java_home(equipped, tmp_path):
    assert equipped("lacks", JAVA_HOME=str(tmp_path / "nowhere")).stdout == "openjdk-17-jre-headless\n"


def test_jars_are_fetched_once(equipped):
    assert equipped("there").returncode == 1
    first, second = equipped(), equipped()
    assert first.stdout == second.stdout == f"{equipped.root}/var/hdfs/lib\n"
    assert equipped.jars() == ["one.jar", "two.jar"]
    assert equipped.fetches.read_text() == "fetched\n"
    assert equipped("there").returncode == 0


def test_five_at_once_fetch_once(equipped):
    with ThreadPoolExecutor(5) as pool:
        found = {one.stdout for one in pool.map(lambda _: equipped(MAVEN_DOES="sleep 0.2"), range(5))}
    assert found == {f"{equipped.root}/var/hdfs/lib\n"}
    assert equipped.fetches.read_text() == "fetched\n"


@pytest.mark.parametrize("end", ["exit 1", "kill -KILL 0"])
def test_half_a_download_is_not_taken_for_all_of_it(equipped, end):
    subprocess.run(
        [equipped.root / "bin/hadoop-jars"],
        env={"PATH": str(equipped.programs), "FETCHES": str(equipped.fetches), "MAVEN_DOES": end},
        check=False,
        start_new_session=True,
        capture_output=True,
    )
    assert (equipped.root / "var/hdfs/.fetching/one.jar").exists()
    assert equipped.jars() == []
    assert equipped("there").returncode == 1
    assert equipped().returncode == 0
    assert equipped.jars() == ["one.jar", "two.jar"]


def test_another_version_is_fetched_anew(equipped):
    equipped()
    pom = equipped.root / "containers/hdfs/pom.xml"
    pom.write_text(pom.read_text().replace("3.5.0", "3.5.1"))
    assert equipped("there").returncode == 1
    equipped()
    assert equipped.fetches.read_text() == "fetched\nfetched\n"


def test_an_unknown_argument_is_refused(equipped):
    refused = equipped("everything")
    assert refused.returncode == 2
    assert "everything" in refused.stderr
    assert not equipped.fetches.exists()
