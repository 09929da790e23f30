"""Proves from a sample ledger that a training read every sample exactly once per epoch.

Samples are numbered through the whole run: number ``n`` is read at step ``n // global_batch + 1`` and belongs to epoch
``n // num_samples``. Nothing is padded or left out: a batch at the end of an epoch goes on into the next one. So an
epoch that is over has read every place of the split exactly once, and the last one, if it is not over, at most once.
That is checked on the places that were read, not on the rule that chose them, whatever was killed, resumed and divided
among however many processes.

``python -m tasks.training.exactly_once FOLDER`` does so for ``report/ledger`` of any train artifact.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tasks.core.errors import DataError, GateError
from tasks.training.ledger import Samples, Terms, read, read_terms

NUM_TOLD = 8
"""Contradictions that are named; the first ones say enough."""

# Shapes: N samples read, S steps, R processes.


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What a ledger without a contradiction shows."""

    num_steps: int
    num_read: int
    """Samples read, repeated ones counted again."""
    num_whole_epochs: int
    num_different: int
    """Places of the split that were read at all."""

    def __str__(self) -> str:
        return (
            f"{self.num_steps} steps read {self.num_read} samples, {self.num_different} of them different: "
            f"each exactly once in each of {self.num_whole_epochs} whole epochs, and at most once after them"
        )


def check(folder: Path, last_step: int | None = None) -> Proof:
    """Prove that the steps up to ``last_step`` (all that were planned) read every sample exactly once per epoch.

    Takes 120 bytes of memory and a microsecond per sample.

    Raises:
        DataError: there is no ledger, or its files do not fit each other.
        GateError: the ledger contradicts this; the first contradictions are named by step and rank.
    """
    terms, samples = read_terms(folder), read(folder)
    last_step = terms.num_steps if last_step is None else last_step
    faults = faults_of(samples, terms, last_step)
    sound = samples[~np.any(list(faults.values()), axis=0)]
    problems = chain(
        wrong_samples(samples, faults),
        wrong_shares(sound, terms, last_step),
        wrong_numbers(sound, terms, last_step),
        wrong_places(sound, terms, last_step),
    )
    if told := list(islice(problems, NUM_TOLD)):
        raise GateError(
            "the sample ledger does not show every sample exactly once per epoch:\n  " + "\n  ".join(told),
            subject=str(folder),
            next_step="train anew (--force): it is not known what this model has learned from",
        )
    return Proof(
        num_steps=last_step,
        num_read=len(samples),
        num_whole_epochs=len(samples) // terms.num_samples,
        num_different=len(np.unique(samples["place"])),
    )


def faults_of(samples: Samples, terms: Terms, last_step: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Which samples (N) cannot be, by reason."""
    step, rank, processes = samples["step"], samples["rank"], samples["num_processes"]
    return {
        f"the steps are 1 to {last_step}": (step < 1) | (step > last_step),
        "that number is of another step": samples["number"] // terms.global_batch + 1 != step,
        "there is no such process": (rank >= processes) | (processes > terms.global_batch),
        f"the split has {terms.num_samples} places": samples["place"] >= terms.num_samples,
    }


def wrong_samples(samples: Samples, faults: dict[str, npt.NDArray[np.bool_]]) -> Iterator[str]:
    for reason, at_fault_N in faults.items():
        for one in samples[at_fault_N]:
            yield (
                f"step {one['step']}, rank {one['rank']} of {one['num_processes']}: has read sample number "
                f"{one['number']} at place {one['place']}; {reason}"
            )


def wrong_shares(samples: Samples, terms: Terms, last_step: int) -> Iterator[str]:
    """Steps that are missing, and processes that did not read an equal share of theirs."""
    processes_S = np.zeros(last_step, np.int64)
    np.maximum.at(processes_S, samples["step"] - 1, samples["num_processes"])
    for step in np.flatnonzero(processes_S == 0) + 1:
        yield f"step {step}: no process has read anything"
    num_ranks = int(processes_S.max(initial=1))
    cells_N = (samples["step"] - 1) * num_ranks + samples["rank"]
    read_SR = np.bincount(cells_N, minlength=last_step * num_ranks).reshape(last_step, num_ranks)
    share_S = terms.global_batch // processes_S.clip(min=1)
    share_SR = np.where(np.arange(num_ranks) < processes_S[:, None], share_S[:, None], 0)
    for step, rank in np.argwhere(read_SR != share_SR):
        share = f"{read_SR[step, rank]} samples, not {share_SR[step, rank]}"
        yield f"step {step + 1}, rank {rank} of {processes_S[step]}: has read {share}"


def wrong_numbers(samples: Samples, terms: Terms, last_step: int) -> Iterator[str]:
    """Numbers that were read twice or never."""
    times = np.bincount(samples["number"], minlength=last_step * terms.global_batch)
    for number in np.flatnonzero(times > 1):
        yield f"sample number {number} was read {times[number]} times: {readers(samples[samples['number'] == number])}"
    for number in np.flatnonzero(times == 0):
        yield f"step {number // terms.global_batch + 1}: no process has read sample number {number}"


def wrong_places(samples: Samples, terms: Terms, last_step: int) -> Iterator[str]:
    """Places that were read twice in one epoch, or never in one that is over; epochs are counted from 1."""
    num_places = terms.num_samples
    visits_N = samples["number"] // num_places * num_places + samples["place"]
    end_of_whole = last_step * terms.global_batch // num_places * num_places
    times = np.bincount(visits_N, minlength=end_of_whole)
    for visit in np.flatnonzero(times > 1):
        epoch, place = divmod(int(visit), num_places)
        yield f"epoch {epoch + 1}: place {place} was read {times[visit]} times: {readers(samples[visits_N == visit])}"
    for visit in np.flatnonzero(times[:end_of_whole] == 0):
        epoch, place = divmod(int(visit), num_places)
        yield f"epoch {epoch + 1}: place {place} was not read, and the epoch is over"


def readers(samples: Samples) -> str:
    """Who read these samples: ``step 3 by rank 0, step 7 by rank 1``."""
    return ", ".join(f"step {one['step']} by rank {one['rank']}" for one in samples[:NUM_TOLD])


def main(arguments: Sequence[str] | None = None) -> int:
    """Say what sample ledgers prove, or where they contradict themselves (exit code 3)."""
    parser = argparse.ArgumentParser(prog="python -m tasks.training.exactly_once", description=main.__doc__)
    parser.add_argument("folder", nargs="+", type=Path, help="of a ledger, such as report/ledger in a train artifact")
    parser.add_argument("--last-step", type=int, help="check up to here; for a run that has not ended")
    given, code = parser.parse_args(arguments), 0
    for folder in given.folder:
        try:
            sys.stdout.write(f"{folder}: {check(folder, given.last_step)}\n")
        except DataError as error:
            sys.stderr.write(f"error: {folder}: {error}\n")
            code = error.exit_code
    return code


if __name__ == "__main__":
    sys.exit(main())
