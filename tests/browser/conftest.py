"""Airflow as a person meets it: a server that really runs, and a real Chromium to look at it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tasks.core.location import local
from tasks.core.store import open_store
from tests.dags.conftest import Checkout, prepared  # noqa: F401 (a fixture)

READY_S = 300
PICTURES = "HEADRACE_PICTURES"
"""Names a folder that pictures of the pages are written to, with what is in ``HEADRACE_STORE`` on them."""


@dataclass(frozen=True)
class Server:
    """A running Airflow with the toy pipeline."""

    url: str
    checkout: Checkout

    @property
    def password(self) -> str:
        passwords = json.loads((self.checkout.root / "var/secrets/airflow-passwords.json").read_text())
        return str(passwords["admin"])

    def keys(self, stage: str) -> list[str]:
        """Keys of what a stage made, the newest last."""
        records = self.checkout.root.glob(f"var/store/{stage}/*/records/1.json")
        return [path.parents[1].name for path in sorted(records, key=lambda path: path.stat().st_mtime)]


def needed(found: Any, what: str) -> None:
    """Skip where something is missing, and fail in CI, which has to have it."""
    if not found:
        assert not os.environ.get("CI"), f"CI must have {what}"
        pytest.skip(f"needs {what}")


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """Debian's Chromium under Playwright, whose event loop no other test could work beside."""
    program = shutil.which("chromium")
    needed(program, "Chromium (apt-get install chromium)")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        needed(None, "the Python package playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(prepared: Checkout, chromium: Any) -> Iterator[Server]:  # noqa: F811
    """API server, scheduler and DAG processor in a session of their own, so that all of them can be stopped."""
    checkout = prepared.copy(prepared.root.parent / "served")
    link_store(checkout)
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    settings = {
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__BASE_URL": url,
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(free_port()),
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
    }
    log = checkout.root / "airflow.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "airflow", "standalone"],
            cwd=checkout.root,
            env=checkout.environment | settings,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            wait_until(lambda: is_ready(url, checkout), lambda: log.read_text()[-4000:], READY_S)
            yield Server(url, checkout)
        finally:
            end_session(process)


def link_store(checkout: Checkout) -> None:
    """For pictures, let the server see what real stages made."""
    if PICTURES in os.environ:
        (checkout.root / "var/store").mkdir(parents=True)
        for stage in local(open_store().root).iterdir():
            (checkout.root / "var/store" / stage.name).symlink_to(stage)


def free_port() -> int:
    """A port nobody uses, below those that the kernel gives to outgoing connections while the server starts."""
    while True:
        port = random.randrange(20_000, 32_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


def is_ready(url: str, checkout: Checkout) -> bool:
    """Whether all components are healthy and the DAG was read."""
    try:
        health = httpx.get(f"{url}/api/v2/monitor/health", timeout=5).json()
    except (httpx.HTTPError, ValueError):
        return False
    healthy = all(health[one]["status"] == "healthy" for one in ("metadatabase", "scheduler", "dag_processor"))
    return healthy and has_dag(checkout)


def has_dag(checkout: Checkout) -> bool:
    with closing(sqlite3.connect(checkout.root / "var/airflow/airflow.db")) as database:
        return bool(database.execute("SELECT count(*) FROM serialized_dag").fetchone()[0])


def wait_until(true: Callable[[], bool], explain: Callable[[], str], patience_s: float) -> None:
    until = time.monotonic() + patience_s
    while not true():
        assert time.monotonic() < until, f"not within {patience_s} s:\n{explain()}"
        time.sleep(0.5)


def end_session(process: subprocess.Popen[bytes]) -> None:
    """TERM to all, then KILL to whoever is left."""
    for number, patience_s in ((signal.SIGTERM, 20), (signal.SIGKILL, 5)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


@pytest.fixture
def page(chromium: Any, server: Server) -> Iterator[Any]:
    """A window of somebody who is not logged in."""
    context = chromium.new_context(base_url=server.url, viewport={"width": 1280, "height": 900}, locale="en-US")
    context.set_default_timeout(60_000)
    yield context.new_page()
    context.close()


@pytest.fixture
def admin(page: Any, server: Server) -> Any:
    """A window of the administrator, who came in through the login page."""
    page.goto("/")
    log_in(page, server)
    return page


def log_in(page: Any, server: Server) -> None:
    page.get_by_label("Username").fill("admin")
    page.get_by_label("Password").fill(server.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(lambda url: "/auth/login" not in url)


def picture(page: Any, name: str, **how: Any) -> None:
    """Write a picture of a page by day and by night, where the environment asks for pictures."""
    if folder := os.environ.get(PICTURES):
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            page.wait_for_timeout(500)
            page.screenshot(path=Path(folder, f"{name}-{scheme}.png"), **how)
        page.emulate_media(color_scheme=None)
