"""`make up` and `make down` in a checkout of its own: the real servers, started once, while their ports are taken."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

ROOT = Path(__file__).parents[2]
PUBLIC_IN_AIRFLOW = {
    ("GET", "/api/v2/monitor/health"),
    ("GET", "/api/v2/version"),
    ("GET", "/api/v2/auth/login"),
    ("GET", "/api/v2/auth/logout"),
}
REFUSED = {401, 403}
LISTEN, LOOPBACK = "0A", "0100007F"
"""As /proc/net/tcp writes them."""

TOY = Path(__file__).parent / "toy"
"""A DAG of one stage that waits to be stopped and then takes seven seconds for its checkpoint."""


@dataclass
class Checkout:
    """A copy of this repository's files beside the same environment, with state of its own."""

    root: Path
    urls: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, **environment: str) -> tuple[int, str]:
        """The exit code of a command and what it said."""
        ours = ("AIRFLOW", "HEADRACE", "MLFLOW", "BENTOML_HOME", "PYTHONPATH", "MAKE", "MFLAGS")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
        extensions = os.environ.get("TORCH_EXTENSIONS_DIR", str(ROOT / "var/torch_extensions"))
        done = subprocess.run(
            command,
            cwd=self.root,
            env=kept | {"TORCH_EXTENSIONS_DIR": extensions, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=500,
            check=False,
        )
        return done.returncode, done.stdout

    def secret(self, name: str) -> str:
        return (self.root / "var/secrets" / name).read_text()

    @property
    def mlflow_login(self) -> tuple[str, str]:
        return "admin", self.secret("mlflow-password")

    def sessions(self) -> set[int]:
        return {int(file.read_text().split()[0]) for file in self.root.glob("var/run/*.pid")}

    def processes(self) -> list[Path]:
        """Every process that works in this checkout, whoever started it."""
        return [entry for entry in Path("/proc").glob("[0-9]*") if works_in(entry, self.root)]

    def listeners(self) -> list[str]:
        """Local address and port, in hexadecimal, of each listening socket of the servers."""
        sessions = self.sessions()
        members = [entry for entry in Path("/proc").glob("[0-9]*") if session_of(entry) in sessions]
        sockets = {inode for entry in members for inode in sockets_of(entry)}
        lines = [
            line.split() for table in ("tcp", "tcp6") for line in Path("/proc/net", table).read_text().splitlines()
        ]
        return [line[1] for line in lines if line[3] == LISTEN and line[9] in sockets]


def fields_of(entry: Path) -> list[str]:
    """What /proc/<pid>/stat says after the name: state, parent, group, session, …"""
    return (entry / "stat").read_text().rpartition(")")[2].split()


def works_in(entry: Path, folder: Path) -> bool:
    try:
        return fields_of(entry)[0] not in "ZX" and (entry / "cwd").readlink().is_relative_to(folder)
    except OSError:
        return False


def session_of(entry: Path) -> int | None:
    try:
        return int(fields_of(entry)[3])
    except OSError:
        return None


def sockets_of(entry: Path) -> Iterator[str]:
    for descriptor in (entry / "fd").iterdir():
        with contextlib.suppress(OSError):
            if found := re.fullmatch(r"socket:\[(\d+)\]", str(descriptor.readlink())):
                yield found[1]


def until(condition: Any, timeout_s: float = 150) -> Any:
    """What a condition gives as soon as it gives something."""
    end = time.monotonic() + timeout_s
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.5)
    return found


@pytest.fixture(scope="module")
def taken() -> Iterator[list[int]]:
    """The default ports, held by us or by somebody else."""
    with contextlib.ExitStack() as held:
        for port in (8080, 5000):
            with contextlib.suppress(OSError):
                held.enter_context(socket.create_server(("127.0.0.1", port)))
        yield [8080, 5000]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Checkout]:
    root = tmp_path_factory.mktemp("up") / "headrace"
    listed = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    for name in subprocess.run(listed, capture_output=True, text=True, check=True).stdout.split("\0"):
        if (ROOT / name).is_file() and not name.startswith(("tests/", "samples/")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, root / name)
    (root / ".venv").symlink_to(ROOT / ".venv")
    shutil.copytree(TOY, root, dirs_exist_ok=True)
    made = Checkout(root)
    yield made
    made.run("make", "down", HEADRACE_STOP_S="5")


@pytest.fixture(scope="module")
def up(checkout: Checkout, taken: list[int]) -> str:
    """What the first `make up` says."""
    code, said = checkout.run("make", "up")
    assert code == 0, said
    checkout.urls = dict(re.findall(r"^(Airflow|MLflow) +(http://127\.0\.0\.1:\d+) ", said, re.MULTILINE))
    return said


@pytest.fixture(scope="module")
def airflow(checkout: Checkout, up: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=checkout.urls["Airflow"], trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def admin(checkout: Checkout, airflow: httpx.Client) -> dict[str, str]:
    """The headers of somebody who logged in to Airflow."""
    password = json.loads(checkout.secret("airflow-passwords.json"))["admin"]
    answer = airflow.post("/auth/token", json={"username": "admin", "password": password})
    return {"Authorization": f"Bearer {answer.raise_for_status().json()['access_token']}"}


@pytest.fixture(scope="module")
def mlflow(checkout: Checkout, up: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=checkout.urls["MLflow"], trust_env=False, timeout=30) as client:
        yield client


@pytest.fixture(scope="module")
def running_stage(checkout: Checkout, airflow: httpx.Client, admin: dict[str, str]) -> str:
    """What the stage of a run that the API was asked for found in MLFLOW_UI_URL; it runs."""
    until(lambda: airflow.get("/api/v2/dags/waits", headers=admin).status_code == 200)
    airflow.patch("/api/v2/dags/waits", json={"is_paused": False}, headers=admin).raise_for_status()
    airflow.post("/api/v2/dags/waits/dagRuns", json={"logical_date": None}, headers=admin).raise_for_status()
    written = checkout.root / "var/ui-url"
    return until(lambda: written.exists() and written.read_text())


@pytest.fixture(scope="module")
def down(checkout: Checkout, running_stage: str) -> str:
    """What `make down` says while a stage runs."""
    code, said = checkout.run("make", "down")
    assert code == 0, said
    return said


def test_taken_default_ports_are_passed_over_with_a_word(checkout, up, taken):
    for port in taken:
        assert f"port {port} is taken" in up
    assert not {int(url.rpartition(":")[2]) for url in checkout.urls.values()} & set(taken)


def test_it_says_who_may_log_in_and_where_the_logs_are_but_no_secret(checkout, up):
    assert up.count("user admin, password in ") == 2
    assert str(checkout.root / "var/log/mlflow.log") in up
    secrets = [json.loads(checkout.secret("airflow-passwords.json"))["admin"], checkout.secret("mlflow-password")]
    logs = "".join(file.read_text() for file in checkout.root.glob("var/log/*"))
    assert not [secret for secret in secrets if secret in up + logs]


def test_no_secret_is_on_a_command_line(checkout, up):
    secrets = [file.read_text() for file in (checkout.root / "var/secrets").iterdir()]
    secrets.append(json.loads(checkout.secret("airflow-passwords.json"))["admin"])
    lines = "".join((entry / "cmdline").read_text() for entry in checkout.processes())
    assert "uvicorn" in lines
    assert not [secret for secret in secrets if secret in lines]


def test_state_is_readable_by_its_owner_only(checkout, up):
    files = [file for folder in ("secrets", "run", "log") for file in (checkout.root / "var" / folder).iterdir()]
    assert {file.name for file in files} >= {"airflow-passwords.json", "mlflow-password", "mlflow.pid", "mlflow.log"}
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}


def test_everything_listens_on_loopback_only(checkout, up):
    listeners = checkout.listeners()
    ports = {int(url.rpartition(":")[2]) for url in checkout.urls.values()}
    assert {int(address.rpartition(":")[2], 16) for address in listeners} == ports
    assert {address.rpartition(":")[0] for address in listeners} == {LOOPBACK}


def test_airflows_api_is_closed_but_for_health_version_and_login(airflow, up):
    paths = airflow.get("/openapi.json").raise_for_status().json()["paths"]
    routes = {(method.upper(), filled(path)) for path, methods in paths.items() for method in methods}
    assert len(routes) > 100
    assert {route for route in routes if answer(airflow, *route) not in REFUSED} == PUBLIC_IN_AIRFLOW


def test_what_airflows_pages_are_filled_from_is_closed(checkout, airflow):
    """It is not in the public description; the pages themselves are empty frames."""
    code = """
from airflow.api_fastapi.core_api.routes.ui import ui_router
for route in ui_router.routes:
    print("route", *route.methods, route.path)
"""
    _, said = checkout.run("bin/with-env", "python", "-c", code)
    routes = re.findall(r"^route ([A-Z]+) (/ui/\S+)$", said, re.MULTILINE)
    assert len(routes) > 20
    assert [route for route in routes if answer(airflow, route[0], filled(route[1])) not in REFUSED] == []


def test_every_route_of_mlflow_wants_the_password(mlflow, up):
    routes = mlflow_routes()
    assert len(routes) > 200
    assert {path for method, path in routes if answer(mlflow, method, path) != 401} == {"/health"}


def filled(path: str) -> str:
    """A route's path with a 1 for each of its parameters."""
    return re.sub(r"\{[^}]*\}|<[^>]*>", "1", path)


def answer(client: httpx.Client, method: str, path: str) -> int:
    return client.request(method, path, follow_redirects=False).status_code


def mlflow_routes() -> set[tuple[str, str]]:
    """Method and path of every route of MLflow's own application, FastAPI's and Flask's."""
    from mlflow.server import app as flask
    from mlflow.server.fastapi_app import app

    fast = {(method, route.path) for route in app.routes for method in getattr(route, "methods", None) or ()}
    slow = {(method, rule.rule) for rule in flask.url_map.iter_rules() for method in rule.methods or ()}
    return {(method, filled(path)) for method, path in fast | slow}


def test_a_wrong_password_opens_nothing(checkout, airflow, mlflow):
    assert airflow.post("/auth/token", json={"username": "admin", "password": "admin"}).status_code == 401
    assert mlflow.get("/", auth=("admin", "password1234")).status_code == 401
    assert mlflow.get("/", auth=("root", checkout.mlflow_login[1])).status_code == 401


def test_who_logs_in_to_mlflow_sees_its_pages_and_runs(checkout, mlflow):
    assert "<title>MLflow</title>" in mlflow.get("/", auth=checkout.mlflow_login).text
    found = mlflow.post("/api/2.0/mlflow/experiments/search", json={"max_results": 9}, auth=checkout.mlflow_login)
    assert found.status_code == 200
    assert [one["name"] for one in found.json()["experiments"]] == ["Default"]


def test_mlflows_own_client_logs_in(checkout, mlflow):
    code = "import mlflow; print([one.name for one in mlflow.MlflowClient().search_experiments()])"
    user, password = checkout.mlflow_login
    login = {"MLFLOW_TRACKING_USERNAME": user, "MLFLOW_TRACKING_PASSWORD": password}
    uri = str(mlflow.base_url)
    told = checkout.run("bin/with-env", "python", "-c", code, MLFLOW_TRACKING_URI=uri, **login)
    assert told == (0, "['Default']\n")


def test_who_logs_in_to_airflow_sees_the_lifecycle_paused_and_no_import_error(airflow, admin):
    answered = until(lambda: airflow.get("/api/v2/dags", headers=admin).json()["dags"])
    lifecycle = next(dag for dag in answered if dag["dag_id"] == "lifecycle")
    assert lifecycle["is_paused"]
    assert airflow.get("/api/v2/importErrors", headers=admin).json()["total_entries"] == 0


def test_a_second_up_says_it_runs_and_changes_nothing(checkout, up):
    sessions = checkout.sessions()
    code, said = checkout.run("make", "up")
    assert code == 0, said
    assert said.count("runs already") == 2
    assert set(up.splitlines()) >= {line for line in said.splitlines() if "http://" in line}
    assert checkout.sessions() == sessions


def test_a_task_reaches_the_api_on_the_port_that_was_found_and_links_to_mlflow_on_its_own(checkout, running_stage):
    assert running_stage == checkout.urls["MLflow"]


def test_down_gives_a_running_stage_the_time_for_its_checkpoint(checkout, down):
    assert (checkout.root / "var/checkpoint").read_text() == "whole"


def test_down_leaves_no_process_no_port_and_no_pid_file(checkout, down):
    assert down.count(": stopped") == 5
    assert checkout.processes() == []
    for url in checkout.urls.values():
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)
    assert list(checkout.root.glob("var/run/*")) == []


def test_down_when_nothing_runs_says_so_and_is_no_failure(checkout, down):
    code, said = checkout.run("make", "down")
    assert code == 0
    assert said.count("does not run") == 5


def test_when_one_cannot_start_the_other_is_stopped(checkout, down, taken):
    code, said = checkout.run("make", "up", AIRFLOW_PORT=str(taken[0]))
    assert code != 0
    assert f"port {taken[0]}, which AIRFLOW_PORT asks for, is taken" in said
    assert checkout.processes() == []


def test_a_start_that_fails_shows_the_end_of_the_log(checkout, down):
    database = checkout.root / "var/mlflow/mlflow.db"
    database.write_text("this is no database, it only has its name" * 100)
    code, said = checkout.run("mlflow/serve", "up")
    assert code == 4
    assert f"the end of {checkout.root}/var/log/mlflow.log" in said
    assert "file is not a database" in said
    assert checkout.processes() == []
