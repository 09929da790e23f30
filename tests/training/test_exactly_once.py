"""The proof, on ledgers of simulated runs: the real numbering, the real order of samples and the real ledger, without a
model."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest

from tasks.core.errors import DataError, GateError
from tasks.lm.token_shards import sample_order
from tasks.training.exactly_once import Proof, check, main
from tasks.training.ledger import PASS, PLACE, LedgerWriter, Terms, begin, read
from tests.training.plans import plan


class Killed(Exception):  # noqa: N818 (it is an event)
    """The processes are gone, wherever they were."""


@dataclass
class Simulation:
    """A run that reads and keeps its ledger as the loop does."""

    folder: Path
    terms: Terms
    saved: int = 0
    """Step of the newest checkpoint."""
    witness: list[tuple[int, int, int, int, int]] = field(default_factory=list)
    """Step, rank, processes, number and place of all that was read in steps that count."""

    def attempt(self, num_processes: int, micro_batch: int, *, save_every: int, lives: int | None = None) -> None:
        """Go on from the newest checkpoint to the end, or until ``lives`` batches were read."""
        begin(self.folder, self.terms, self.saved)
        check(self.folder, self.saved)
        self.witness = [row for row in self.witness if row[0] <= self.saved]
        writers = [LedgerWriter(self.folder, rank, num_processes) for rank in range(num_processes)]
        for step in range(self.saved, self.terms.num_steps):
            for rank, numbers in self.batches(step, num_processes, micro_batch):
                if lives == 0:
                    raise Killed
                lives = lives and lives - 1
                places = [self.place(number) for number in numbers]
                writers[rank].record(step + 1, numbers, places)
                pairs = zip(numbers, places, strict=True)
                self.witness += [(step + 1, rank, num_processes, number, place) for number, place in pairs]
            if (step + 1) % save_every == 0 or step + 1 == self.terms.num_steps:
                self.saved = step + 1

    def batches(self, step: int, num_processes: int, micro_batch: int) -> list[tuple[int, range]]:
        """Which process reads which samples in a step, by the plan's own rule."""
        terms = self.terms
        one = plan(global_batch=terms.global_batch, num_processes=num_processes, micro_batch=micro_batch)
        turns = [(turn, rank) for turn in range(one.accumulation) for rank in range(num_processes)]
        return [(rank, one.numbers(step, turn, rank)) for turn, rank in turns]

    def place(self, number: int) -> int:
        epoch, position = divmod(number, self.terms.num_samples)
        return int(order(self.terms.num_samples, epoch)[position])


@lru_cache(maxsize=4)
def order(num_samples: int, epoch: int) -> np.ndarray:
    return sample_order(num_samples, epoch, seed=3)


SMALL = Terms(num_steps=10, global_batch=6, num_samples=8)
"""Seven and a half epochs; most of them end within a batch."""


def made(folder: Path, terms: Terms) -> Path:
    """The ledger of a run of two processes that nothing happened to."""
    Simulation(folder, terms).attempt(2, terms.global_batch // 2, save_every=5)
    return folder


@pytest.fixture
def folder(tmp_path) -> Path:
    return made(tmp_path / "ledger", SMALL)


def eventful_run(folder: Path, draw: random.Random) -> Simulation:
    """Killed up to five times, anywhere, and continued by 1, 3, 2, 1, 3 … processes; each kill may tear a file."""
    num_samples = draw.choice([8, 9, 50, 1000, 10_000])
    global_batch = {8: 6, 9: 6, 50: 12, 1000: 48, 10_000: 96}[num_samples]
    num_steps = int(draw.uniform(0.5, 3.5) * num_samples / global_batch) + 1
    run = Simulation(folder, Terms(num_steps=num_steps, global_batch=global_batch, num_samples=num_samples))
    for attempt in range(6):
        num_processes = (2, 1, 3)[attempt % 3]
        share = global_batch // num_processes
        micro_batch = draw.choice([size for size in range(1, share + 1) if share % size == 0 and share // size < 4])
        batches_left = (num_steps - run.saved) * global_batch // (micro_batch * num_processes) * num_processes
        try:
            run.attempt(
                num_processes,
                micro_batch,
                save_every=draw.randint(1, 10),
                lives=draw.randrange(batches_left) if attempt < 5 else None,
            )
        except Killed:
            torn = f"rank-{draw.randrange(num_processes):05d}.{draw.choice(['passes', 'places'])}"
            with (folder / torn).open("ab") as file:
                file.write(draw.randbytes(draw.randrange(PASS.itemsize)))
    return run


@pytest.mark.parametrize("seed", range(40))
def test_each_sample_is_read_once_per_epoch_through_kills_and_other_numbers_of_processes(tmp_path, seed):
    run = eventful_run(tmp_path / "ledger", random.Random(seed))
    assert sorted(read(run.folder).tolist()) == sorted(run.witness)
    num_samples, num_read = run.terms.num_samples, run.terms.num_steps * run.terms.global_batch
    visits = Counter((number // num_samples, place) for _, _, _, number, place in run.witness)
    num_whole = num_read // num_samples
    assert set(visits.values()) == {1}
    assert all((epoch, place) in visits for epoch in range(num_whole) for place in range(num_samples))
    assert check(run.folder) == Proof(
        num_steps=run.terms.num_steps,
        num_read=num_read,
        num_whole_epochs=num_whole,
        num_different=len({place for _, place in visits}),
    )


def change(folder: Path, rank: int, change: Callable[[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]) -> None:
    """Doctor what one process wrote."""
    files = folder / f"rank-{rank:05d}.passes", folder / f"rank-{rank:05d}.places"
    doctored = change(np.fromfile(files[0], PASS), np.fromfile(files[1], PLACE))
    for path, values in zip(files, doctored, strict=True):
        values.tofile(path)


def contradictions(folder: Path) -> list[str]:
    with pytest.raises(GateError) as refused:
        check(folder)
    assert refused.value.exit_code == 3
    return [line.strip() for line in str(refused.value).splitlines()[1:]]


def test_a_sample_that_was_read_twice_is_named(folder):
    first = int(np.fromfile(folder / "rank-00000.places", PLACE)[0])

    def double(passes, places):
        places[1] = first
        return passes, places

    lost = int(np.fromfile(folder / "rank-00001.places", PLACE)[1])
    change(folder, 1, double)
    assert contradictions(folder) == [
        f"epoch 1: place {first} was read 2 times: step 1 by rank 0, step 1 by rank 1",
        f"epoch 1: place {lost} was not read, and the epoch is over",
    ]


def test_a_step_that_is_missing_is_named(folder):
    for rank in (0, 1):
        change(folder, rank, lambda passes, places: (np.delete(passes, 3), np.delete(places, range(9, 12))))
    assert contradictions(folder)[0] == "step 4: no process has read anything"


def test_a_process_that_is_missing_is_named(folder):
    for path in folder.glob("rank-00001.*"):
        path.unlink()
    assert contradictions(folder)[0] == "step 1, rank 1 of 2: has read 0 samples, not 3"


def test_a_share_that_is_missing_in_one_step_is_named(folder):
    change(folder, 1, lambda passes, places: (np.delete(passes, 6), np.delete(places, range(18, 21))))
    told = contradictions(folder)
    assert told[0] == "step 7, rank 1 of 2: has read 0 samples, not 3"
    assert "step 7: no process has read sample number 39" in told


def test_a_step_that_was_done_twice_is_named(folder):
    change(folder, 0, lambda passes, places: (np.append(passes, passes[-1:]), np.append(places, places[-3:])))
    told = contradictions(folder)
    assert told[0] == "step 10, rank 0 of 2: has read 6 samples, not 3"
    assert "sample number 54 was read 2 times: step 10 by rank 0, step 10 by rank 0" in told


def test_a_batch_that_was_padded_at_the_end_of_an_epoch_is_named(folder):
    """Step 2 ends epoch 1 and begins epoch 2; here it repeats the first sample of that instead of going on."""
    first = int(np.fromfile(folder / "rank-00000.places", PLACE)[5])

    def pad(passes, places):
        places[3:6] = first
        return passes, places

    change(folder, 1, pad)
    who = "step 2 by rank 0, step 2 by rank 1, step 2 by rank 1, step 2 by rank 1"
    assert contradictions(folder)[0] == f"epoch 2: place {first} was read 4 times: {who}"


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("step", 11, "the steps are 1 to 10"),
        ("step", 0, "the steps are 1 to 10"),
        ("first", 0, "that number is of another step"),
        ("first", 2**64 - 6, "that number is of another step"),
        ("num_processes", 1, "there is no such process"),
        ("num_processes", 2**32 - 1, "there is no such process"),
    ],
)
def test_a_pass_that_cannot_be_is_named(folder, name, value, reason):
    def forge(passes, places):
        passes[name][-1] = value
        return passes, places

    change(folder, 1, forge)
    told = contradictions(folder)
    assert any("rank 1 of" in line and line.endswith(reason) for line in told)


def test_a_place_outside_the_split_is_named(folder):
    def stray(passes, places):
        places[4] = 8
        return passes, places

    change(folder, 0, stray)
    assert contradictions(folder)[0] == (
        "step 2, rank 0 of 2: has read sample number 7 at place 8; the split has 8 places"
    )


def test_only_the_first_contradictions_are_told(tmp_path):
    folder = made(tmp_path / "ledger", Terms(num_steps=300, global_batch=6, num_samples=50))
    for path in folder.glob("rank-*"):
        path.unlink()
    assert contradictions(folder) == [f"step {step}: no process has read anything" for step in range(1, 9)]


def test_a_run_that_has_not_ended_is_proven_up_to_a_step(tmp_path):
    run = Simulation(tmp_path / "ledger", SMALL)
    with pytest.raises(Killed):
        run.attempt(2, 3, save_every=1, lives=9)
    begin(run.folder, SMALL, run.saved)
    assert check(run.folder, 4) == Proof(num_steps=4, num_read=24, num_whole_epochs=3, num_different=8)
    assert contradictions(run.folder)[0] == "step 5: no process has read anything"


def test_the_command_line_tells_what_a_ledger_proves(folder, capsys):
    assert main([str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder}: {check(folder)}\n"


def test_the_command_line_names_the_ledger_that_contradicts_itself(folder, tmp_path, capsys):
    other = made(tmp_path / "other", SMALL)
    for path in folder.glob("rank-00000.*"):
        path.unlink()
    assert main([str(folder), str(other), str(tmp_path)]) == DataError.exit_code
    told = capsys.readouterr()
    assert f"error: {folder}: " in told.err
    assert "step 1, rank 0 of 2" in told.err
    assert f"error: {tmp_path}: " in told.err
    assert told.out.startswith(f"{other}: 10 steps read 60 samples, 8 of them different")
