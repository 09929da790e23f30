"""Starts the processes of a training with torchrun, watches them, and says what became of them."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tasks.core import events, workspace
from tasks.core.errors import HeadraceError, TryAgain
from tasks.core.store import REPOSITORY
from tasks.training import checkpoint, exactly_once, extension, ledger
from tasks.training.curve import CurveReader, cut_curve
from tasks.training.device import has_accelerator, num_cores
from tasks.training.exchange import Exchange
from tasks.training.plan import Plan
from tasks.training.process import alone

POLL_S = 0.25
TORCHRUN_LOG = "torchrun.log"
PATIENCE_S = 50.0
"""How long processes that were asked to stop may take for their step and their checkpoint."""
SHUTDOWN_S = 5
"""How long torchrun waits for the others once one process is gone; they cannot do anything useful without it."""
METRICS = ("loss", "validation_loss", "learning_rate", "gradient_norm", "tokens_per_second")


def run_training(function: str, job: dict[str, Any], plan: Plan, exchange: Exchange) -> dict[str, Any]:
    """Run ``function`` ("module:name", called with the exchange and the job in every process) to the end of the plan.

    Resumes from the newest verified checkpoint. Returns what the first process wrote as the run's outcome.

    Raises:
        ConfigError: the checkpoints are of another ZeRO stage, or divided among another number of processes.
        GateError: a gate of the loop refused the run, or the ledger does not lead up to the checkpoint.
        TryAgain: a process was killed or asked to stop, or one of an earlier attempt works on; the same call resumes.
        ServiceError: DeepSpeed's extension cannot be built here.
    """
    if not has_accelerator():
        extension.ensure_built()
    refuse_company(exchange.folder)
    layout = checkpoint.Layout(plan.num_processes, plan.zero_stage)
    resume, refused = checkpoint.newest_verified(exchange.checkpoints, layout)
    step = checkpoint.step_of(resume) if resume else 0
    for line in refused:
        events.note(line)
    if resume:
        events.note(f"resuming from step {step} of {plan.num_steps}")
    lease = workspace.lease()
    told = {"resume": resume, "supervisor": os.getpid(), "lease": asdict(lease) if lease else None}
    exchange.prepare({**job, "plan": plan.as_json(), **told})
    cut_curve(exchange.curve, step)
    terms = ledger.Terms(num_steps=plan.num_steps, global_batch=plan.global_batch, num_samples=plan.num_samples)
    ledger.begin(exchange.ledger, terms, step)
    exactly_once.check(exchange.ledger, step)
    reader = CurveReader(exchange.curve)
    reader.skip()
    events.note(f"starting {plan.num_processes} processes for {plan.num_steps - step} steps (usually 15 to 40 s)")
    with torchrun(function, plan, exchange) as process:
        while process.poll() is None:
            relay(reader, plan)
            time.sleep(POLL_S)
    relay(reader, plan)
    return outcome_of(exchange, process.returncode)


def refuse_company(folder: Path) -> None:
    """Refuse to start while processes of an earlier attempt work: they would add to a curve and a ledger cut back.

    Raises:
        TryAgain: when there are any.
    """
    for lock in sorted(folder.glob("rank-*.lock")):
        with alone(lock):
            pass


def outcome_of(exchange: Exchange, code: int) -> dict[str, Any]:
    """What became of a launch that ended with ``code``."""
    outcome = exchange.read_outcome()
    if outcome is not None and outcome["finished"]:
        return outcome
    if (failure := exchange.read_failure()) is not None and type(failure) is not HeadraceError:
        raise failure
    if outcome is not None:
        raise TryAgain(f"stopped after step {outcome['step']}, which is saved", next_step="run the same command")
    log = exchange.logs / TORCHRUN_LOG
    if (
        code == -signal.SIGKILL
        or was_ended_by(signal.SIGKILL, log)
        or (failure is None and was_ended_by(signal.SIGTERM, log))
    ):
        who = "torchrun" if code == -signal.SIGKILL else "a training process"
        raise TryAgain(
            f"{who} was killed (by a person, or by the kernel when memory ran out)",
            subject=str(exchange.logs),
            next_step=f"the same command resumes from step {checkpoint.last_step(exchange.checkpoints)}",
        )
    for text in getattr(failure, "__notes__", [last_lines(log, 30)]):
        events.note(text)
    raise failure or HeadraceError(
        f"torchrun ended with {code}", subject=str(exchange.logs), next_step=f"read the logs in {exchange.logs}"
    )


def was_ended_by(killer: signal.Signals, log: Path) -> bool:
    """Whether torchrun reports a process that was ended by a signal.

    After a SIGKILL the others fail in its wake, with whatever their broken connection raises, so their words do not
    matter then.
    """
    return re.search(rf"exitcode\s*:\s*-{killer.value}\b", log.read_text("utf-8", "replace")) is not None


def relay(reader: CurveReader, plan: Plan) -> None:
    """Pass new lines of the curve on to whoever listens to the stage."""
    for line in reader.new_lines():
        for name in METRICS:
            if name in line:
                events.metric(name, line[name], line["step"])
        events.progress(line["step"], plan.num_steps, "steps")


@contextmanager
def torchrun(function: str, plan: Plan, exchange: Exchange) -> Iterator[subprocess.Popen[bytes]]:
    """torchrun on this machine, reachable from this machine only.

    When the block is left by an error (a SIGTERM, a Ctrl-C) the processes finish their step, save and leave first.
    """
    command = [sys.executable, "-m", "torch.distributed.run", "--local-addr=127.0.0.1", "--nnodes=1"]
    command += ["--rdzv-backend=c10d", "--rdzv-conf=store_type=file", f"--rdzv-endpoint={exchange.meeting}"]
    command += [f"--nproc-per-node={plan.num_processes}", f"--shutdown-timeout={SHUTDOWN_S}"]
    command += ["-m", "tasks.training.process", str(exchange.folder), *function.split(":")]
    with (exchange.logs / TORCHRUN_LOG).open("wb") as log:
        process = subprocess.Popen(
            command,
            cwd=REPOSITORY,
            env=environment(plan.num_processes),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    except BaseException:
        exchange.stop.touch()
        events.note("stopping: the processes finish their step and save")
        wait_for(process)
        raise
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()


def wait_for(process: subprocess.Popen[bytes]) -> None:
    """Wait :data:`PATIENCE_S` for a process to end by itself."""
    try:
        process.wait(PATIENCE_S)
    except subprocess.TimeoutExpired:
        events.note(f"the processes did not stop within {PATIENCE_S:.0f} s")


def environment(num_processes: int) -> dict[str, str]:
    """Variables for the training processes.

    OpenMP's threads are divided among the processes and sleep while they wait: spinning ones take the cores from each
    other. Freed memory is kept (``MALLOC_…``): large activations would otherwise be given back to the kernel and
    zeroed again in every step, which cost 14% of the speed.
    """
    variables = {
        **os.environ,
        "OMP_NUM_THREADS": str(max(1, num_cores() // num_processes)),
        "OMP_WAIT_POLICY": "PASSIVE",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(2**40),
        "MALLOC_TOP_PAD_": str(64 * 2**20),
        "TOKENIZERS_PARALLELISM": "false",
        "PYTHONUNBUFFERED": "1",
        "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1",
    }
    if not has_accelerator():
        variables |= {
            "DS_ACCELERATOR": "cpu",
            "GLOO_SOCKET_IFNAME": "lo",
            "TORCH_EXTENSIONS_DIR": str(extension.cache_folder()),
        }
    return variables


def last_lines(path: Path, count: int) -> str:
    """The last lines of a log, for a message."""
    if not path.is_file():
        return ""
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-count:])
