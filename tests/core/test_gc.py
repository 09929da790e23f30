import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from upath import UPath

from tasks import __main__ as command
from tasks.core import roots
from tasks.core.artifact import altered, newest
from tasks.core.attempt import attempting, sign_of
from tasks.core.errors import TryAgain
from tasks.core.gc import ATTEMPT, MARKED, REACHED, SWEPT, collect, the_only_one
from tasks.core.lease import alone_in
from tasks.core.mlflow_runs import RunContext
from tasks.core.runner import Spec, run
from tasks.core.store import REPOSITORY, UNREACHABLE, LocalStore, open_store

TOY = Path(__file__).parent / "toy"
HOUR_S = 3600


def age(path, hours: float) -> None:
    """Let a file or folder look as it will after some hours."""
    before = Path(str(path)).stat().st_mtime
    os.utime(str(path), (before - hours * HOUR_S,) * 2)


def done(store, **named) -> list[tuple[str, str]]:
    """What a pass did: kind and URI."""
    return [(one.kind, str(one.path)) for one in collect(store, (), **named)]


@pytest.fixture
def made(store) -> str:
    """URI of an artifact that nothing leads to."""
    return run(Spec(stage="make"), store).uri


@pytest.fixture
def counted(store, made) -> str:
    """URI of an artifact that was made from ``made``."""
    return run(Spec(stage="count", inputs={"documents": made}), store).uri


def killed_attempt(store) -> UPath:
    """The folder that a run leaves which is killed while its stage works."""
    program = (
        f"import tasks; tasks.__path__.append({str(TOY)!r})\n"
        "from tasks.core.runner import Spec, run\nfrom tasks.core.store import open_store\n"
        f"run(Spec(stage='make', config={{'pause_s': 60}}), open_store({str(store.root)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", program], cwd=REPOSITORY) as process:
        deadline = time.monotonic() + 60
        while not (found := list(Path(str(store.root)).glob("make/*/2*/first.txt"))):
            assert time.monotonic() < deadline, "the stage never began"
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    return UPath(found[0].parent)


def test_what_a_killed_run_left_goes_after_a_day_of_silence(store):
    folder = killed_attempt(store)
    assert (ATTEMPT, str(folder)) not in done(store)
    age(sign_of(folder), 23)
    assert (ATTEMPT, str(folder)) not in done(store)
    age(sign_of(folder), 2)
    assert (ATTEMPT, str(folder)) in done(store)
    assert not folder.exists()
    assert not sign_of(folder).exists()


def test_an_attempt_that_never_gave_a_sign_is_as_old_as_its_folder(store):
    folder = store.new_attempt("make", "0" * 24)
    assert (ATTEMPT, str(folder)) not in done(store)
    age(folder, 25)
    assert (ATTEMPT, str(folder)) in done(store)


def test_an_attempt_that_a_record_names_is_never_silent_enough(store, made):
    roots.pin(store, made)
    age(newest(store, UPath(made)).path, 1000)
    assert done(store) == []


@pytest.mark.parametrize("apart_s", [-3 * 24 * HOUR_S, 3 * 24 * HOUR_S])
def test_only_the_clock_of_the_store_counts(store, apart_s):
    class Elsewhere(LocalStore):
        """A store whose clock is three days from this machine's."""

        def modified(self, path):
            return super().modified(path) + apart_s

    there = Elsewhere(store.root)
    with attempting(there, "make", "0" * 24, []) as alive:
        dead = there.new_attempt("make", "1" * 24)
        age(dead, 25)
        assert [path for kind, path in done(there) if kind == ATTEMPT] == [str(dead)]
        assert alive.exists()


def test_what_nothing_leads_to_is_marked_and_goes_a_day_later(store, made):
    assert done(store) == [(MARKED, made)]
    assert done(store) == []
    age(f"{made}/{UNREACHABLE}", 23)
    assert done(store) == []
    age(f"{made}/{UNREACHABLE}", 2)
    assert done(store) == [(SWEPT, made)]
    assert not Path(made).exists()
    assert not run(Spec(stage="make"), store).cached


def test_a_use_in_between_starts_the_day_anew(store, made):
    done(store)
    age(f"{made}/{UNREACHABLE}", 25)
    assert run(Spec(stage="make"), store).cached
    assert done(store) == [(MARKED, made)]


def test_being_an_input_is_a_use(store, made):
    done(store)
    age(f"{made}/{UNREACHABLE}", 25)
    counted = run(Spec(stage="count", inputs={"documents": made}), store).uri
    assert done(store) == [(MARKED, counted), (MARKED, made)]


def test_what_an_artifact_was_made_from_is_kept_with_it(store, made, counted):
    roots.pin(store, counted)
    assert done(store) == []
    roots.pin(store, made)
    Path(str(store.root), "pins", f"count-{Path(counted).name}.json").unlink()
    assert done(store) == [(MARKED, counted)]


def test_a_pin_takes_the_mark_away(store, made):
    done(store)
    age(f"{made}/{UNREACHABLE}", 25)
    roots.pin(store, made)
    assert done(store) == [(REACHED, made)]
    assert not Path(made, UNREACHABLE).exists()


def test_what_the_registry_serves_is_kept(store, made, counted):
    assert collect(store, {f"{counted}/20260101T000000-00000000"}) == []
    assert collect(store, {"s3://somewhere/else", made})[0].path == UPath(counted)


def test_a_run_of_a_pipeline_keeps_what_it_found_cached(store, made):
    run(Spec(stage="make", run=RunContext(pipeline="toy", run_id="manual__2026-01-01T00:00:00+00:00")), store)
    assert done(store) == []


def test_the_ten_newest_runs_of_each_pipeline_are_roots(store):
    for number in range(12):
        context = RunContext(pipeline="toy", run_id=f"run {number}")
        roots.remember(store, context, "make", f"{number:024d}")
        age(store.root / "runs" / "toy" / f"run {number}" / f"make-{number:024d}.json", 12 - number)
    roots.remember(store, RunContext(pipeline="other", run_id="run 0"), "make", f"{99:024d}")
    expected = {f"make/{number:024d}" for number in (*range(2, 12), 99)}
    assert set(roots.roots(store)) == expected
    done(store)
    assert set(roots.roots(store)) == expected
    assert len(list(Path(str(store.root), "runs", "toy").iterdir())) == 10


def test_the_checkpoints_of_a_killed_run_are_kept_as_long_as_the_run(store):
    roots.remember(store, RunContext(pipeline="toy", run_id="run"), "train", "a" * 24)
    for key in ("a" * 24, "b" * 24):
        store.workspace("train", key).mkdir(parents=True)
    assert done(store) == [(MARKED, f"{store.root}/train/{'b' * 24}")]


def test_the_inputs_of_a_stage_that_runs_are_kept_however_often_gc_passes(store, made):
    done(store)
    age(f"{made}/{UNREACHABLE}", 25)
    outcomes = []
    slow = Spec(stage="count", config={"pause_s": 1.0}, inputs={"documents": made})
    counting = threading.Thread(target=lambda: outcomes.append(run(slow, store)))
    counting.start()
    while not list(Path(str(store.root)).glob("count/*/*.alive")):
        time.sleep(0.01)
    assert [done(store) for _ in range(3)] == [[], [], []]
    counting.join()
    assert outcomes[0].result == {"num_documents": 3}
    assert (MARKED, made) in done(store)


def test_a_sweep_puts_back_what_was_used_at_the_last_moment(store, made):
    done(store)
    store.in_use(UPath(made))
    assert not store.sweep(UPath(made))
    assert altered(newest(store, UPath(made))) == []


def test_a_sweep_leaves_alone_what_somebody_works_on(store, made):
    done(store)
    with alone_in(Path(made)):
        assert not store.sweep(UPath(made))
    assert altered(newest(store, UPath(made))) == []


def test_a_sweep_that_was_killed_is_finished_by_the_next_of_the_same_artifact(store, made):
    done(store)
    aside = Path(str(store.root), ".gc", f"make-{Path(made).name}")
    Path(made).rename(aside)
    again = run(Spec(stage="make"), store)
    assert (again.cached, again.uri) == (False, made)
    done(store)
    age(f"{made}/{UNREACHABLE}", 25)
    assert done(store) == [(SWEPT, made)]
    assert not aside.exists()


def test_a_dry_run_says_how_much_and_changes_nothing(store, made):
    before = sorted(Path(made).rglob("*"))
    (found,) = collect(store, (), dry_run=True)
    assert (found.kind, found.size_bytes) == (MARKED, sum(path.stat().st_size for path in before if path.is_file()))
    assert sorted(Path(made).rglob("*")) == before


def test_a_store_that_is_given_as_a_uri_is_collected_too(tmp_path):
    store = open_store(f"file://{tmp_path}/store")
    made = Path(UPath(run(Spec(stage="make"), store).uri).path)
    assert [one.kind for one in collect(store, ())] == [MARKED]
    age(made / UNREACHABLE, 25)
    assert [one.kind for one in collect(store, ())] == [SWEPT]
    assert not made.exists()


def test_files_that_are_no_artifacts_are_not_touched(store, made):
    roots.pin(store, made)
    mine = Path(str(store.root), "notes", "todo")
    mine.mkdir(parents=True)
    age(mine, 1000)
    assert done(store) == []
    assert mine.is_dir()


def test_a_second_gc_at_the_same_time_is_told_to_wait(store):
    with the_only_one(store), pytest.raises(TryAgain, match="another gc is at work"):
        collect(store, ())


def test_without_an_answer_of_the_registry_no_artifact_is_marked_or_swept(store, made, monkeypatch, capsys):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{store.root}/nothing.db")
    dead = store.new_attempt("make", "0" * 24)
    age(dead, 25)
    assert command.main(["gc", "--store", str(store.root)]) == 4
    told = capsys.readouterr()
    assert "1 places removed, 0 bytes in 0 artifacts marked" in told.out
    assert "--no-registry" in told.err
    assert not dead.exists()
    assert not Path(made, UNREACHABLE).exists()


def test_the_command_keeps_what_it_is_told_to_keep(store, made, counted, capsys):
    arguments = ["gc", "--no-registry", "--store", str(store.root)]
    assert command.main([*arguments, "--dry-run"]) == 0
    assert "in 2 artifacts would be marked" in capsys.readouterr().out
    assert command.main([*arguments, "--keep", made]) == 0
    told = capsys.readouterr().out
    assert f"pins/make-{Path(made).name}.json" in told
    assert "in 1 artifacts marked" in told
    assert Path(counted, UNREACHABLE).exists()
