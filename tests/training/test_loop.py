"""The loop on DeepSpeed's real engine, in this process alone; several processes are tests/train's matter."""

from __future__ import annotations

import math
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

os.environ["DS_ACCELERATOR"] = "cpu"

import deepspeed
import torch.distributed as dist

from tasks.core.errors import GateError
from tasks.training import exactly_once, extension, ledger, loop
from tasks.training.checkpoint import last_step
from tasks.training.curve import read_curve
from tasks.training.engine import make_engine, preload_extension
from tasks.training.exchange import Exchange
from tasks.training.generators import late_seed
from tasks.training.plan import Plan
from tests.training import plans

PLAN = plans.plan(
    num_steps=30, global_batch=8, num_samples=9, tokens_per_sample=4, micro_batch=8, num_processes=1, optimizer="adamw",
    lr=0.05, schedule="wsd", guessing_loss=math.log(9), max_skipped_steps=4, log_every=7,
)  # fmt: skip


class Successor(torch.nn.Module):
    """Predicts the next of nine tokens from the last, through one matrix."""

    def __init__(self) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(3)
        self.table = torch.nn.Embedding(9, 6)
        self.inner = torch.nn.Linear(6, 6, bias=False)
        self.head = torch.nn.Linear(6, 9, bias=False)
        for parameter in self.parameters():
            parameter.data.normal_(0, 0.1, generator=generator)

    def get_input_embeddings(self) -> torch.nn.Module:
        return self.table

    def get_output_embeddings(self) -> torch.nn.Module:
        return self.head

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.inner(self.table(tokens)))


class Counting:
    """Learn that each token is followed by the next one; remembers which samples were asked for and read."""

    def __init__(self, poison: range = range(0)) -> None:
        self.poison, self.asked, self.read = poison, [], []

    def places(self, numbers: range) -> list[int]:
        self.asked.append(numbers)
        return [number * 5 % 9 for number in numbers]

    def batch(self, places: list[int]) -> torch.Tensor:
        self.read += places
        return (torch.tensor(places)[:, None] + torch.arange(5)[None]) % 9

    def loss(self, model: Any, batch: torch.Tensor) -> torch.Tensor:
        logits = model(batch[:, :-1]).flatten(0, 1)
        loss = torch.nn.functional.cross_entropy(logits, batch[:, 1:].flatten())
        return loss * math.nan if self.asked[-1].start // PLAN.global_batch in self.poison else loss

    def validation_loss(self, model: Any) -> float | None:  # noqa: ARG002
        return 1.5


@pytest.fixture(scope="module", autouse=True)
def _group(tmp_path_factory):
    address = f"file://{tmp_path_factory.mktemp('group')}/store"
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("RANK", "0"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "1")):
            patch.setenv(name, value)
        preload_extension()
        deepspeed.init_distributed("gloo", False, init_method=address, rank=0, world_size=1, verbose=False)
        yield
        dist.destroy_process_group()


@pytest.fixture(autouse=True)
def _signals():
    before = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.fixture
def exchange(tmp_path) -> Exchange:
    made = Exchange(tmp_path / "workspace")
    made.folder.mkdir()
    made.prepare({})
    terms = ledger.Terms(num_steps=PLAN.num_steps, global_batch=PLAN.global_batch, num_samples=PLAN.num_samples)
    ledger.begin(made.ledger, terms, 0)
    return made


def trained(
    plan: Plan, exchange: Exchange, objective: Counting | None = None, resume: str | None = None
) -> tuple[list[torch.Tensor], loop.Ending]:
    engine = make_engine(Successor(), plan)
    ending = loop.train(engine, objective or Counting(), plan, exchange, resume=resume, supervisor=os.getpid())
    return [parameter.detach().clone() for parameter in engine.module.parameters()], ending


def test_the_loss_falls_and_the_first_one_is_kept(exchange):
    _, ending = trained(PLAN, exchange)
    assert ending.finished
    assert ending.progress.first_loss == pytest.approx(math.log(9), abs=0.1)
    assert ending.progress.last_loss < 1.0


def test_accumulating_gives_the_gradients_of_one_batch(exchange):
    whole, _ = trained(PLAN, exchange)
    parts, _ = trained(replace(PLAN, micro_batch=2), exchange)
    for one, other in zip(whole, parts, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_every_step_reads_its_own_samples(exchange):
    objective = Counting()
    trained(replace(PLAN, micro_batch=4, num_steps=3), exchange, objective)
    assert [number for numbers in objective.asked for number in numbers] == list(range(24))


def test_the_ledger_tells_what_was_read(exchange):
    objective = Counting()
    trained(replace(PLAN, micro_batch=4), exchange, objective)
    samples = ledger.read(exchange.ledger)
    assert samples["place"].tolist() == objective.read
    assert samples["step"].tolist() == [step for step in range(1, 31) for _ in range(8)]
    assert exactly_once.check(exchange.ledger).num_whole_epochs == 26


def test_the_ledger_counts_steps_that_were_skipped(exchange):
    trained(PLAN, exchange, Counting(poison=range(5, 8)))
    assert exactly_once.check(exchange.ledger).num_read == 240


def test_the_ledger_is_durable_before_the_checkpoint_that_continues_it(exchange, monkeypatch):
    made_durable, fsync = [], os.fsync

    def noting(descriptor: int) -> None:
        made_durable.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noting)
    trained(replace(PLAN, num_steps=1), exchange)
    manifest = made_durable.index(f".manifest.json.{os.getpid()}")
    assert {"rank-00000.places", "rank-00000.passes", "ledger"} <= set(made_durable[:manifest])


@pytest.mark.parametrize("zero_stage", [1, 2])
def test_zero_trains_the_same_weights(exchange, zero_stage):
    plain, _ = trained(PLAN, exchange)
    divided, _ = trained(replace(PLAN, zero_stage=zero_stage), exchange)
    for one, other in zip(plain, divided, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_a_step_that_is_not_finite_changes_nothing(exchange):
    once = replace(PLAN, num_steps=1, guessing_loss=None)
    before = [parameter.detach().clone() for parameter in Successor().parameters()]
    after, ending = trained(once, exchange, Counting(poison=range(1)))
    assert ending.progress.skipped == 1
    assert all(torch.equal(one, other) for one, other in zip(before, after, strict=True))


def test_a_few_bad_steps_are_survived_and_counted(exchange):
    weights, ending = trained(PLAN, exchange, Counting(poison=range(5, 8)))
    assert ending.progress.skipped == 3
    assert [line["skipped_steps"] for line in read_curve(exchange.curve)] == [2, 3, 3, 3, 3]
    assert all(math.isfinite(line["loss"]) for line in read_curve(exchange.curve))
    assert all(parameter.isfinite().all() for parameter in weights)


@pytest.mark.parametrize("zero_stage", [0, 1])
def test_a_loss_that_stays_nan_stops_the_run(exchange, zero_stage):
    with pytest.raises(GateError, match="not finite in 4 steps in a row, up to step 9"):
        trained(replace(PLAN, zero_stage=zero_stage), exchange, Counting(poison=range(5, 30)))


def test_weights_that_explode_stop_the_run(exchange):
    with pytest.raises(GateError, match="4 steps in a row"):
        trained(replace(PLAN, optimizer="muon", matrix_lr=1e38, lr=1e38), exchange)


def test_a_first_loss_far_from_guessing_stops_the_run(exchange):
    with pytest.raises(GateError, match="ln"):
        trained(replace(PLAN, guessing_loss=math.log(100)), exchange)


def test_a_trained_start_is_validated_before_the_first_step_and_remembered(exchange):
    plan = replace(PLAN, num_steps=4, checkpoint_every=2, guessing_loss=None, starts_trained=True)
    exchange.stop.touch()
    trained(plan, exchange)
    exchange.stop.unlink()
    told_otherwise = Counting()
    told_otherwise.validation_loss = lambda _: 9.9
    _, ending = trained(plan, exchange, told_otherwise, resume="step-00000001")
    assert ending.progress.initial_validation_loss == 1.5


def test_a_line_of_the_curve_is_the_mean_of_its_steps(exchange):
    trained(replace(PLAN, log_every=1), exchange)
    single = [line["loss"] for line in read_curve(exchange.curve)]
    exchange.curve.unlink()
    trained(PLAN, exchange)
    lines = read_curve(exchange.curve)
    assert [line["step"] for line in lines] == [7, 14, 21, 28, 30]
    assert lines[1]["loss"] == pytest.approx(sum(single[7:14]) / 7, rel=1e-12)


def test_the_gradient_norm_is_that_before_clipping(exchange):
    trained(replace(PLAN, num_steps=1, log_every=1), exchange)
    model, objective = Successor(), Counting()
    objective.loss(model, objective.batch(objective.places(range(8)))).backward()
    norm = math.sqrt(sum(float((parameter.grad**2).sum()) for parameter in model.parameters()))
    assert read_curve(exchange.curve)[0]["gradient_norm"] == pytest.approx(norm, rel=1e-5)


@pytest.mark.parametrize(("optimizer", "zero_stage"), [("muon", 0), ("adamw", 1)])
def test_a_stopped_run_continues_to_the_same_bits(exchange, optimizer, zero_stage):
    plan = replace(PLAN, optimizer=optimizer, zero_stage=zero_stage)
    whole, _ = trained(plan, exchange)
    shutil.rmtree(exchange.checkpoints)
    exchange.curve.unlink()
    exchange.stop.touch()
    _, ending = trained(plan, exchange)
    assert (ending.finished, ending.progress.step) == (False, 1)
    exchange.stop.unlink()
    resumed, ending = trained(plan, exchange, resume="step-00000001")
    assert ending.finished
    assert all(torch.equal(one, other) for one, other in zip(whole, resumed, strict=True))


def test_a_process_that_joins_later_draws_from_its_own_seed(exchange):
    trained(replace(PLAN, num_steps=1), exchange)
    (exchange.checkpoints / "step-00000001" / "random-0.pt").unlink()
    trained(PLAN, exchange, resume="step-00000001")
    assert torch.initial_seed() == late_seed(PLAN.seed, 0, 1)


def test_a_run_whose_supervisor_died_saves_and_leaves(exchange):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    ending = loop.train(make_engine(Successor(), PLAN), Counting(), PLAN, exchange, resume=None, supervisor=gone.pid)
    assert not ending.finished
    assert last_step(exchange.checkpoints) == ending.progress.step == 1


def test_a_terminated_process_finishes_its_step_and_saves(exchange):
    class Terminating(Counting):
        def places(self, numbers: range) -> list[int]:
            if numbers.start == 5 * PLAN.global_batch:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().places(numbers)

    _, ending = trained(PLAN, exchange, Terminating())
    assert not ending.finished
    assert last_step(exchange.checkpoints) == ending.progress.step
    assert ending.progress.step in (6, 7)


def test_validation_comes_at_its_interval(exchange):
    trained(replace(PLAN, validation_every=10), exchange)
    assert [line["step"] for line in read_curve(exchange.curve) if "validation_loss" in line] == [10, 20]


def test_the_extension_loads_beside_the_lock_of_a_killed_process(tmp_path, monkeypatch):
    library = extension.ensure_built()
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path))
    folder = extension.cache_folder() / extension.NAME
    shutil.copytree(library.parent, folder)
    (folder / "lock").touch()
    program = "from tasks.training.engine import preload_extension; preload_extension()"
    subprocess.run([sys.executable, "-c", program], cwd=extension.VAR.parent, timeout=120, check=True)
