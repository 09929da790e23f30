"""The completions interface, asked in process: shapes, limits, streaming. The real server is asked elsewhere."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tasks.lm.onnx_generation import OnnxModel, Sampling, generate
from tasks.package.service.api import create_app
from tasks.package.service.engine import Engine
from tasks.package.service.limits import Limits
from tests import tiny_release as release

LIMITS = Limits(**asdict(release.PACKAGE))
GATE = "English: Open the gate.\nChinese:"


class Counted:
    """Stands in for the Prometheus counters, which exist once per process."""

    def __init__(self) -> None:
        self.prompt, self.completion, self.firsts = 0, 0, 0

    def prompt_tokens(self, count: int) -> None:
        self.prompt += count

    def completion_tokens(self, count: int) -> None:
        self.completion += count

    def first_token(self, seconds: float) -> None:  # noqa: ARG002
        self.firsts += 1


def client_of(limits: Limits) -> TestClient:
    app = create_app(limits)
    app.state.engine = Engine(release.local(release.compressed()), limits)
    app.state.metrics = Counted()
    return TestClient(app, raise_server_exceptions=False)


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with client_of(LIMITS) as found:
        yield found


def ask(client: TestClient, **body: Any) -> Any:
    return client.post("/completions", json={"temperature": 0, "max_tokens": 30, **body})


def streamed(client: TestClient, **body: Any) -> list[dict[str, Any]]:
    lines = [line for line in ask(client, stream=True, **body).text.split("\n\n") if line]
    assert lines[-1] == "data: [DONE]"
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


def error_of(response: Any, status: int) -> dict[str, Any]:
    assert response.status_code == status, response.text
    assert set(response.json()) == {"error"}
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


def test_an_answer_has_the_shape_of_openai(client: TestClient) -> None:
    values = ask(client, prompt=GATE, model="headrace-lm").json()
    assert set(values) == {"id", "object", "created", "model", "choices", "usage"}
    assert (values["object"], values["model"]) == ("text_completion", "headrace-lm")
    assert values["choices"][0].keys() == {"index", "text", "logprobs", "finish_reason"}


def test_the_greedy_answer_is_the_models_own(client: TestClient) -> None:
    values = ask(client, prompt=GATE).json()
    tokens = [0, *release.tokenizer()(GATE)["input_ids"]]
    model = OnnxModel(release.local(release.compressed()), "int8")
    expected = list(generate(model, tokens, Sampling(max_tokens=30)))
    assert values["choices"][0]["text"] == release.tokenizer().decode(expected).rstrip("\ufffd")
    assert values["usage"] == {
        "prompt_tokens": len(tokens),
        "completion_tokens": len(expected),
        "total_tokens": len(tokens) + len(expected),
    }


def test_the_reason_for_the_end_is_length_or_stop(client: TestClient) -> None:
    assert ask(client, prompt=GATE, max_tokens=2).json()["choices"][0]["finish_reason"] == "length"
    cut = ask(client, prompt=GATE, stop="门").json()["choices"][0]
    assert (cut["text"], cut["finish_reason"]) == (" 打开闸", "stop")


@pytest.mark.parametrize("prompt", [GATE, "春眠", "The quick", ""])
@pytest.mark.parametrize("more", [{}, {"stop": ["。", "the"]}, {"temperature": 1.5, "top_p": 0.9, "seed": 3}])
def test_a_streamed_answer_is_the_plain_answer_in_pieces(client: TestClient, prompt: str, more: dict[str, Any]) -> None:
    plain = ask(client, prompt=prompt, **more).json()
    events = streamed(client, prompt=prompt, stream_options={"include_usage": True}, **more)
    choices = [choice for event in events for choice in event["choices"]]
    assert "".join(choice["text"] for choice in choices) == plain["choices"][0]["text"]
    assert [choice["finish_reason"] for choice in choices if choice["finish_reason"]] == [
        plain["choices"][0]["finish_reason"]
    ]
    assert events[-1]["usage"] == plain["usage"]


def test_no_streamed_piece_holds_half_a_character(client: TestClient) -> None:
    events = streamed(client, prompt="春眠不", max_tokens=40)
    texts = [choice["text"] for event in events for choice in event["choices"]]
    assert len(texts) > 5
    assert "\ufffd" not in "".join(texts)


def test_several_prompts_are_answered_in_order_each_as_alone(client: TestClient) -> None:
    prompts = ["The", GATE, "春"]
    choices = ask(client, prompt=prompts).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    assert [choice["text"] for choice in choices] == [
        ask(client, prompt=prompt).json()["choices"][0]["text"] for prompt in prompts
    ]


def test_the_seed_decides_a_sampled_answer(client: TestClient) -> None:
    texts = [ask(client, prompt="The", temperature=2, seed=seed).json()["choices"][0]["text"] for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_text_of_a_special_token_in_a_prompt_is_text(client: TestClient) -> None:
    used = ask(client, prompt="<|endoftext|>", max_tokens=1).json()["usage"]["prompt_tokens"]
    assert release.tokenizer()("<|endoftext|>")["input_ids"] == [0]  # what reading it as special would make of it
    assert used > 1 + 5


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({}, "prompt"),
        ({"prompt": None}, "prompt"),
        ({"prompt": []}, "prompt"),
        ({"prompt": [1, 2]}, "prompt"),
        ({"prompt": 5}, "prompt"),
        ({"prompt": "x", "max_tokens": 0}, "max_tokens"),
        ({"prompt": "x", "max_tokens": "5"}, "max_tokens"),
        ({"prompt": "x", "max_tokens": 65}, "max_tokens"),
        ({"prompt": ["x"] * 4}, "prompt"),
        ({"prompt": "x", "temperature": -1}, "temperature"),
        ({"prompt": "x", "top_p": 0}, "top_p"),
        ({"prompt": "x", "seed": -1}, "seed"),
        ({"prompt": "x", "stop": ["a", "b", "c", "d", "e"]}, "stop"),
        ({"prompt": "x", "stop": ""}, "stop"),
        ({"prompt": "x", "n": 2}, "n"),
        ({"prompt": "x", "best_of": 3}, "best_of"),
        ({"prompt": "x", "echo": True}, "echo"),
        ({"prompt": "x", "logprobs": 1}, "logprobs"),
        ({"prompt": "x", "suffix": "y"}, "suffix"),
        ({"prompt": "x", "logit_bias": {"5": 1.0}}, "logit_bias"),
        ({"prompt": "x", "presence_penalty": 0.5}, "presence_penalty"),
        ({"prompt": "x", "tempreature": 0.5}, "tempreature"),
    ],
)
def test_what_is_not_offered_is_refused_by_name(client: TestClient, body: dict[str, Any], param: str) -> None:
    error = error_of(client.post("/completions", json=body), 400)
    assert error["type"] == "invalid_request_error"
    assert error["param"] == param
    assert param in error["message"]


def test_fields_of_openai_that_change_nothing_are_taken(client: TestClient) -> None:
    neutral = {"n": 1, "best_of": 1, "echo": False, "logprobs": None, "suffix": None, "logit_bias": {}, "user": "me"}
    penalties = {"presence_penalty": 0, "frequency_penalty": 0.0, "stop": None, "seed": None, "stream": None}
    assert ask(client, prompt="x", **neutral, **penalties).status_code == 200


def test_all_problems_of_a_request_are_told_at_once(client: TestClient) -> None:
    error = error_of(client.post("/completions", json={"temperature": 9, "max_tokens": -1}), 400)
    assert {"prompt", "temperature", "max_tokens"} <= {word.strip(":;") for word in error["message"].split()}


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_too_long_for_the_context_names_tokens_and_limit(client: TestClient, stream: bool) -> None:
    error = error_of(ask(client, prompt="闸" * 200, stream=stream), 400)
    assert (error["param"], error["code"]) == ("prompt", "context_length_exceeded")
    tokens = 1 + len(release.tokenizer()("闸" * 200)["input_ids"])
    assert str(tokens) in error["message"]
    assert str(release.CONTEXT) in error["message"]


def test_an_unknown_model_is_not_found(client: TestClient) -> None:
    error = error_of(ask(client, prompt="x", model="gpt-9"), 404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'"text"', b'{"prompt": "\xff"}', b'{"prompt": "x", "temperature": NaN}']
)
def test_a_body_that_is_no_request_is_refused(client: TestClient, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    error_of(client.post("/completions", content=content, headers=headers), 400)


@pytest.mark.parametrize(
    "content", [rb'{"prompt": "a\ud800b"}', rb'{"prompt": "a", "stop": ["\udc00"]}', rb'{"prompt": "a", "\ud800": 1}']
)
def test_a_lone_surrogate_is_refused_and_breaks_nothing(client: TestClient, content: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    assert "surrogate" in error_of(client.post("/completions", content=content, headers=headers), 400)["message"]
    assert ask(client, prompt="x").status_code == 200


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_over_the_limit_is_refused(client: TestClient, chunked: bool) -> None:
    body = json.dumps({"prompt": "x" * LIMITS.max_body_bytes}).encode()
    content = iter([body[:100], body[100:]]) if chunked else body
    error = error_of(client.post("/completions", content=content), 413)
    assert str(LIMITS.max_body_bytes) in error["message"]


def test_other_paths_and_methods_have_the_same_shape(client: TestClient) -> None:
    error_of(client.get("/nothing"), 404)
    error_of(client.get("/completions"), 405)


def test_the_models_list_names_the_one_model(client: TestClient) -> None:
    assert [one["id"] for one in client.get("/models").json()["data"]] == ["headrace-lm"]


def test_a_fault_of_the_service_is_told_without_its_details() -> None:
    with client_of(LIMITS) as client:
        client.app.state.engine.model = None
        error = error_of(ask(client, prompt="x"), 500)
        assert error["type"] == "server_error"
        assert "NoneType" not in error["message"]


def test_a_request_that_takes_too_long_is_ended() -> None:
    with client_of(replace(LIMITS, timeout_s=1e-6)) as client:
        assert error_of(ask(client, prompt="x"), 504)["code"] == "timeout"
        assert streamed(client, prompt="x")[-1]["error"]["code"] == "timeout"


def test_one_request_too_many_is_told_to_come_back() -> None:
    with client_of(replace(LIMITS, max_concurrency=2)) as client:
        release_engine = hold_worker(client.app.state.engine)
        waiting = [threading.Thread(target=ask, args=(client,), kwargs={"prompt": "x"}) for _ in range(2)]
        for one in waiting:
            one.start()
        wait_for(lambda: client.app.state.engine._worker._work_queue.qsize() == 2)
        refused = ask(client, prompt="x")
        assert client.get("/models").status_code == 200  # what generates nothing is always answered
        release_engine.set()
        for one in waiting:
            one.join()
        assert error_of(refused, 429)["type"] == "rate_limit_error"
        assert refused.headers["Retry-After"] == "1"
        assert ask(client, prompt="x").status_code == 200


def hold_worker(engine: Engine) -> threading.Event:
    """Keep the one generating thread busy until the event is set."""
    event = threading.Event()
    engine._worker.submit(event.wait, 30)
    return event


def wait_for(condition: Any) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_tokens_are_counted(client: TestClient) -> None:
    before = client.app.state.metrics.completion
    used = ask(client, prompt=["The", "春"]).json()["usage"]["completion_tokens"]
    assert client.app.state.metrics.completion - before == used > 0
