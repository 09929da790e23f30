"""Real runs of the stage (torchrun, DeepSpeed, two processes) on a model of 20,000 weights, made once for all tests."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from upath import UPath

from tasks.core import events, workspace
from tasks.core.config import validated
from tasks.core.errors import GateError, TryAgain
from tasks.core.runner import terminated_as_try_again
from tasks.train import stage
from tasks.train.config import TrainConfig
from tasks.training import checkpoint
from tasks.training.exchange import Exchange
from tests.shards.stored import store_tokens

VOCABULARY = 300
SMALL: dict[str, Any] = {
    "num_layers": 1, "hidden_size": 32, "num_heads": 2, "num_kv_heads": 1, "ffn_size": 64, "sequence_length": 16,
    "global_batch": 6, "train_tokens": 400 * 96, "precision": "fp32", "log_every": 5, "checkpoint_every": 50,
    "validation_every": 150,
}  # fmt: skip


@dataclass
class Listener:
    """Notes everything and may act at the first metric from a step on."""

    at_step: int | None = None
    act: Callable[[], None] | None = None
    metrics: list[tuple[str, float, int | None]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def metric(self, name: str, value: float, step: int | None) -> None:
        self.metrics.append((name, value, step))
        if self.act is not None and step is not None and self.at_step is not None and step >= self.at_step:
            act, self.act = self.act, None
            act()

    def note(self, message: str) -> None:
        self.notes.append(message)

    def progress(self, done: float, total: float | None, unit: str) -> None: ...
    def drop(self, reason: str, count: int) -> None: ...
    def sample(self, name: str, text: str) -> None: ...


@dataclass
class Made:
    """One finished run."""

    result: stage.TrainResult
    out: Path
    exchange: Exchange
    listener: Listener


class Bench:
    """Runs the stage on the test's own data in folders of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.shards = write_shards(root / "shards", {"train": 20_000, "validation": 1_000, "test": 0})
        self.tokenizer = root / "tokenizer"
        self.tokenizer.mkdir()
        for name in stage.TOKENIZER_FILES:
            (self.tokenizer / name).write_text(json.dumps({"name": name}), encoding="utf-8")

    def run(self, name: str, listener: Listener | None = None, *, initial: Path | None = None, **knobs: Any) -> Made:
        listener, folder = listener or Listener(), self.root / name
        folder.mkdir(exist_ok=True)
        config = validated(TrainConfig, {**SMALL, **knobs}, stage="train")
        with workspace.bound(folder / "workspace"), events.listening(listener), terminated_as_try_again():
            inputs = (UPath(self.shards), UPath(self.tokenizer), UPath(initial) if initial else None)
            result = stage.run(config, *inputs, out=UPath(folder / "out"))
        return Made(result, folder / "out", Exchange(folder / "workspace"), listener)


def write_shards(folder: Path, num_tokens: dict[str, int]) -> Path:
    """Token shards of a noisy chain that a small model can learn: the next token is mostly ``7 n + 3``."""
    random, splits = np.random.default_rng(5), {}
    for split, count in num_tokens.items():
        tokens = np.zeros(count, np.int64)
        noise, jumps = random.random(count) < 0.1, random.integers(1, VOCABULARY, count)
        for i in range(1, count):
            tokens[i] = jumps[i] if noise[i] else (7 * tokens[i - 1] + 3) % VOCABULARY
        splits[split] = [tokens] if count else []
    store_tokens(folder, splits, vocab_size=VOCABULARY)
    return folder


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("train"))


@pytest.fixture(scope="session")
def uninterrupted(bench: Bench) -> Made:
    return bench.run("uninterrupted")


@dataclass
class Eventful:
    """A run that was terminated, continued, lost a process to ``kill -9``, lost a checkpoint, and then finished."""

    terminated: TryAgain
    saved_when_terminated: list[str]
    listening: set[str]
    killed: TryAgain
    damaged: str
    made: Made


@pytest.fixture(scope="session")
def eventful(bench: Bench) -> Eventful:
    exchange = Exchange(bench.root / "eventful" / "workspace")
    with pytest.raises(TryAgain) as terminated:
        bench.run("eventful", Listener(60, lambda: os.kill(os.getpid(), signal.SIGTERM)))
    saved = [tag for tag in checkpoint.tags(exchange.checkpoints) if not checkpoint.damage(exchange.checkpoints / tag)]

    listening: set[str] = set()

    def kill_second_process() -> None:
        second = process_of(exchange, 1)
        launcher = int(Path(f"/proc/{second}/stat").read_text().rpartition(")")[2].split()[1])
        for pid in (launcher, second, process_of(exchange, 0)):
            listening.update(listening_addresses(pid))
        os.kill(second, signal.SIGKILL)

    killer = Listener(checkpoint.step_of(saved[0]) + 120, kill_second_process)
    with pytest.raises(TryAgain) as killed:
        bench.run("eventful", killer)
    assert killer.act is None, "something else ended the run"
    damaged = checkpoint.newest_verified(exchange.checkpoints, checkpoint.Layout(2, 0))[0]
    assert damaged is not None
    flip_last_byte(exchange.checkpoints / damaged / "mp_rank_00_model_states.pt")
    return Eventful(terminated.value, saved, listening, killed.value, damaged, bench.run("eventful"))


@pytest.fixture(scope="session")
def continued(bench: Bench, uninterrupted: Made) -> Made:
    """A run of 40 steps that starts where another one ended."""
    return bench.run("continued", initial=uninterrupted.out, train_tokens=40 * 96)


@pytest.fixture(scope="session")
def continued_twice(bench: Bench, uninterrupted: Made) -> Made:
    """The same, terminated halfway and run again."""
    terminator = Listener(5, lambda: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(TryAgain):
        bench.run("continued twice", terminator, initial=uninterrupted.out, train_tokens=40 * 96)
    return bench.run("continued twice", initial=uninterrupted.out, train_tokens=40 * 96)


@pytest.fixture(scope="session")
def regrouped(bench: Bench) -> Made:
    """A run of two processes that lost one to ``kill -9``, went on as one, lost that too, and finished as three."""
    exchange = Exchange(bench.root / "regrouped" / "workspace")
    for num_processes in (2, 1):
        at_step = checkpoint.last_step(exchange.checkpoints) + 70
        killer = Listener(at_step, partial(kill, exchange, num_processes - 1))
        with pytest.raises(TryAgain, match="was killed"):
            bench.run("regrouped", killer, num_processes=num_processes)
        assert killer.act is None, "something else ended the run"
    return bench.run("regrouped", num_processes=3)


@pytest.fixture(scope="session")
def doctored(bench: Bench) -> GateError:
    """Refusal of a run in whose ledger somebody wrote that the second process read its first sample twice."""
    places = Exchange(bench.root / "doctored" / "workspace").ledger / "rank-00001.places"

    def repeat_the_first_place() -> None:
        with places.open("r+b") as file:
            first = file.read(4)
            file.write(first)

    with pytest.raises(GateError) as refused:
        bench.run("doctored", Listener(5, repeat_the_first_place), train_tokens=20 * 96)
    assert not (bench.root / "doctored" / "out").exists()
    return refused.value


def kill(exchange: Exchange, rank: int) -> None:
    os.kill(process_of(exchange, rank), signal.SIGKILL)


def process_of(exchange: Exchange, rank: int) -> int:
    return int((exchange.folder / f"rank-{rank}.lock").read_text("ascii"))


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def listening_addresses(pid: int) -> set[str]:
    """Hexadecimal addresses on which a process accepts connections (``0100007F`` is 127.0.0.1)."""
    inodes = {path.readlink().name[8:-1] for path in Path(f"/proc/{pid}/fd").iterdir()}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in inodes:
                found.add(fields[1].split(":")[0])
    return found
