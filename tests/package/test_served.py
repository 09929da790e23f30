"""The packaged service under the real server, asked over real HTTP."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tasks.smoke.server import serving
from tasks.smoke.stage import description_of
from tests import tiny_release as release


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    about = description_of(release.local(release.packaged()))
    bento = release.local(release.packaged()) / about["file"]
    with serving(bento, about["tag"], start_timeout_s=120) as found:
        yield found


def ask(url: str, **body: object) -> httpx.Response:
    return httpx.post(f"{url}/v1/completions", json={"temperature": 0, **body}, timeout=30)


def processes_named(text: str) -> set[int]:
    """Ids of running processes whose command names ``text``."""
    found = set()
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):
                if text.encode() in (folder / "cmdline").read_bytes():
                    found.add(int(folder.name))
    return found


def parent_of(process: int) -> int:
    return int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])


def runs(process: int) -> bool:
    """Whether a process still runs; one that is dead and waits for its parent, or for init, does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def tag() -> str:
    return description_of(release.local(release.packaged()))["tag"]


def pieces_of(text: str) -> list[str]:
    """The texts of a streamed answer."""
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    return [choice["text"] for event in events for choice in json.loads(event)["choices"]]


def test_it_answers_and_streams(url: str) -> None:
    plain = ask(url, prompt="春眠", max_tokens=20).json()["choices"][0]["text"]
    assert plain.startswith("不覺曉")
    pieces = pieces_of(ask(url, prompt="春眠", max_tokens=20, stream=True).text)
    assert "".join(pieces) == plain
    assert len(pieces) > 3


def test_no_process_of_it_has_torch_in_memory(url: str) -> None:
    ask(url, prompt="x", max_tokens=2)
    mapped = {one: Path(f"/proc/{one}/maps").read_text() for one in processes_named(tag())}
    assert any("onnxruntime" in text for text in mapped.values())
    assert not [one for one, text in mapped.items() if "libtorch" in text]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/completions", {"prompt": "闸" * 200}, 400),
        ("/v1/completions", {"prompt": "x", "n": 2}, 400),
        ("/v1/completions", {"prompt": "x" * 5000}, 413),
        ("/v1/chat/completions", {"prompt": "x"}, 404),
    ],
)
def test_refusals_reach_the_caller_in_one_shape(url: str, path: str, body: dict[str, object], status: int) -> None:
    response = httpx.post(url + path, json=body)
    assert response.status_code == status
    assert set(response.json()["error"]) == {"message", "type", "param", "code"}


def test_metrics_count_tokens_and_requests(url: str) -> None:
    used = ask(url, prompt="The", max_tokens=8).json()["usage"]["completion_tokens"]
    text = httpx.get(f"{url}/metrics").text
    counted = next(line for line in text.splitlines() if line.startswith('headrace_tokens_total{kind="completion"}'))
    assert float(counted.split()[-1]) >= used
    assert "headrace_first_token_seconds_bucket" in text
    assert 'endpoint="/v1/completions"' in text


def test_many_at_once_are_answered_alike_or_told_to_come_back(url: str) -> None:
    expected = ask(url, prompt="The", max_tokens=40).json()["choices"][0]["text"]
    found: list[httpx.Response] = []
    threads = [threading.Thread(target=lambda: found.append(ask(url, prompt="The", max_tokens=40))) for _ in range(24)]
    for one in threads:
        one.start()
    assert [httpx.get(f"{url}/livez", timeout=10).status_code for _ in range(5)] == [200] * 5
    for one in threads:
        one.join()
    assert {one.status_code for one in found} <= {200, 429}
    assert {one.json()["choices"][0]["text"] for one in found if one.status_code == 200} == {expected}
    assert ask(url, prompt="The", max_tokens=40).status_code == 200


def test_nothing_is_left_when_the_block_fails() -> None:
    """A failure inside the block, while every process of the service is deaf to SIGTERM."""
    about = description_of(release.local(release.packaged()))
    before, seen = processes_named(about["tag"]), set[int]()

    def fail() -> None:
        with serving(release.local(release.packaged()) / about["file"], about["tag"], start_timeout_s=120):
            workers = processes_named(about["tag"]) - before
            seen.update(workers, map(parent_of, workers))
            for one in seen:
                os.kill(one, signal.SIGSTOP)
            raise RuntimeError("in the block")

    with pytest.raises(RuntimeError, match="in the block"):
        fail()
    assert len(seen) == 2  # the first process and its worker
    assert not [one for one in seen if runs(one)]
