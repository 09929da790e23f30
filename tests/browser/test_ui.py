"""What a person does in Airflow's UI: log in, turn a dial, watch the run, look at what it made."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from plugins.links.artifact import URL_PREFIX
from tests.browser.conftest import Server, log_in, picture, wait_until

RUN_S = 240
CONTRASTS = """() => {
    const light = (colour) => colour.match(/[0-9.]+/g).slice(0, 3).map((one) => one / 255)
        .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
        .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
    const paper = light(getComputedStyle(document.body).backgroundColor);
    const texts = [...document.querySelectorAll("main *")].filter((one) => one.innerText);
    return texts.map((one) => light(getComputedStyle(one).color))
        .map((ink) => (Math.max(ink, paper) + 0.05) / (Math.min(ink, paper) + 0.05));
}"""
"""The contrast of every text of a page with its paper, as WCAG 2 defines it."""


def dialog_of(page: Any) -> Any:
    """The trigger form of the DAG, with the dials of ``hum`` unfolded."""
    page.goto("/dags/song")
    page.get_by_role("button", name="Trigger").first.click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="hum").click()
    return dialog


def trigger(page: Any, times: int) -> Any:
    """Send the form off with a dial turned; gives the form."""
    dialog = dialog_of(page)
    dial = dialog.locator('input[name="element_hum.times"]')
    dial.fill(str(times))
    dial.blur()
    dialog.get_by_role("button", name="Trigger", exact=True).click()
    return dialog


def states(page: Any, run: str) -> dict[str, str]:
    """State of every task of a run, as the UI's own requests get it."""
    answer = page.request.get(f"/api/v2/dags/song/dagRuns/{run}/taskInstances", timeout=RUN_S * 1000).json()
    return {one["task_id"]: one["state"] for one in answer["task_instances"]}


@pytest.fixture(scope="module")
def ran(chromium: Any, server: Server) -> str:
    """The id of a run that was triggered in the form and came to its end."""
    context = chromium.new_context(base_url=server.url, locale="en-US")
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto("/")
    log_in(page, server)
    trigger(page, times=5)
    page.wait_for_url(re.compile("/dags/song/runs/"))
    run = unquote(page.url.rsplit("/", 1)[1])
    wait_until(lambda: states(page, run)["close"] in ("success", "failed"), lambda: str(states(page, run)), RUN_S)
    context.close()
    return run


@pytest.mark.parametrize("cookie", [None, "forged"])
def test_nobody_sees_the_pages_without_a_login(server, cookie):
    cookies = {"_token": cookie} if cookie else {}
    with httpx.Client(base_url=server.url, cookies=cookies) as client:
        codes = {client.get(f"{URL_PREFIX}/{path}").status_code for path in ("", "hum", "hum/0123456789abcdef01234567")}
    assert codes == ({403} if cookie else {401})


def test_a_login_leads_back_to_the_page_that_asked_for_it(page, server):
    assert page.goto(f"{URL_PREFIX}/").status == 401
    page.get_by_role("link", name="Log in").click()
    log_in(page, server)
    page.get_by_role("heading", name="Artifacts").wait_for()
    assert page.url == f"{server.url}{URL_PREFIX}/"


def test_a_wrong_dial_is_refused_with_the_reason_before_anything_runs(admin):
    dialog = trigger(admin, times=0)
    dialog.get_by_text("Invalid input for param hum.times: 0 is less than or equal to the minimum of 0").wait_for()
    assert admin.url.endswith("/dags/song")


def test_a_run_from_the_form_comes_to_its_end_with_the_dial_that_was_turned(admin, server, ran):
    assert states(admin, ran) == dict.fromkeys(("pin", "hum", "echo", "close"), "success")
    assert [path.read_text() for path in server.checkout.root.glob("var/store/hum/*/*/tune.txt")] == [
        "hum hum hum hum hum"
    ]


def test_a_task_leads_to_the_page_of_its_artifact_inside_the_ui(admin, server, ran):
    (key,) = server.keys("hum")
    admin.goto(f"/dags/song/runs/{ran}/tasks/hum")
    admin.get_by_role("link", name="Details").click()
    admin.get_by_role("link", name="Artifact", exact=True).click()
    frame = admin.frame_locator("iframe[title=Artifacts]")
    frame.get_by_role("heading", name="hum", level=1).wait_for()
    assert admin.url == f"{server.url}/plugin/artifacts{URL_PREFIX}/hum/{key}"
    assert frame.locator("tr", has_text="times").locator("td").inner_text() == "5"
    frame.get_by_role("link", name=re.compile("^echo")).click()
    frame.get_by_role("heading", name="echo", level=1).wait_for()
    assert frame.get_by_role("link", name=re.compile("^hum")).count() == 1


def test_the_menu_leads_to_the_list_of_artifacts(admin, ran):
    admin.get_by_role("link", name="Artifacts").click()
    frame = admin.frame_locator("iframe[title=Artifacts]")
    frame.get_by_role("heading", name="hum", level=2).wait_for()
    picture(admin, "artifacts")


def test_a_page_needs_nothing_from_anywhere_else(admin, server, ran):
    """The security policy would refuse it, and say so in the browser's console."""
    asked, said = [], []
    admin.on("request", lambda request: asked.append(request.url))
    admin.on("console", lambda message: said.append(message.text))
    (key,) = server.keys("hum")
    admin.goto(f"{URL_PREFIX}/hum/{key}")
    admin.get_by_role("heading", name="Files").wait_for()
    assert asked == [f"{server.url}{URL_PREFIX}/hum/{key}"]
    assert said == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_can_be_read_by_day_and_by_night(admin, server, ran, scheme):
    """WCAG asks for a contrast of 4.5 to 1."""
    (key,) = server.keys("hum")
    admin.emulate_media(color_scheme=scheme)
    admin.goto(f"{URL_PREFIX}/hum/{key}")
    contrasts = admin.evaluate(CONTRASTS)
    assert len(contrasts) > 20
    assert min(contrasts) >= 4.5


def test_the_pages_of_whatever_is_in_the_store_open_in_the_ui(admin, server, ran):
    for stage in ("hum", "echo", "clean", "train", "evaluate"):
        for key in server.keys(stage)[-1:]:
            admin.goto(f"/plugin/artifacts{URL_PREFIX}/{stage}/{key}")
            admin.frame_locator("iframe[title=Artifacts]").get_by_role("heading", name=stage, level=1).wait_for()
            picture(admin, f"artifact-{stage}")
