"""Source that changed without its VERSION is told by name."""

import shutil

import pytest

import tasks
from tasks.core import drift as drifting
from tasks.core.drift import drift, file_of, source_of
from tasks.core.errors import DataError
from tasks.core.pipeline import load
from tasks.core.plan import plan
from tasks.core.runner import Spec, run

RULE = 'text = f"{config.prefix} {number}"'
SPEC = Spec(stage="make")


@pytest.fixture
def source(toy_pipeline, tmp_path, monkeypatch):
    """The source of the toy stage ``make``, in a copy that a test may edit."""
    shutil.copytree(toy_pipeline.parent, tmp_path / "toy")
    monkeypatch.setattr(tasks, "__path__", [*tasks.__path__[:-1], str(tmp_path / "toy")])
    return tmp_path / "toy" / "make" / "stage.py"


def edit(source, old, new):
    text = source.read_text()
    assert old in text
    source.write_text(text.replace(old, new))
    drifting._read.cache_clear()


def fate(toy_pipeline, store, on_drift):
    return plan(load(toy_pipeline, ["make.num_documents=3"]), store, on_drift=on_drift)[0]


def test_a_rule_edited_without_a_new_version_is_drift_by_the_files_name(source, toy_pipeline, store, capfd):
    first = run(SPEC, store)
    edit(source, RULE, RULE.replace("}", "}!"))
    assert fate(toy_pipeline, store, "warn").fate == "cached"
    assert fate(toy_pipeline, store, "warn").reason.endswith(", before tasks/make/stage.py changed")
    assert run(SPEC, store).uri == first.uri
    assert "changed since: tasks/make/stage.py" in capfd.readouterr().err


def test_drift_can_make_the_artifact_again_once(source, toy_pipeline, store):
    run(SPEC, store)
    edit(source, RULE, RULE.replace("}", "}!"))
    spec = Spec(stage="make", on_drift="rerun")
    assert fate(toy_pipeline, store, "rerun").reason == "because of drift: tasks/make/stage.py changed"
    assert [run(spec, store).cached for _ in range(2)] == [False, True]


def test_drift_can_be_refused(source, toy_pipeline, store):
    run(SPEC, store)
    edit(source, RULE, RULE.replace("}", "}!"))
    assert fate(toy_pipeline, store, "fail").fate == "refused"
    with pytest.raises(DataError, match=r"changed since: tasks/make/stage\.py") as caught:
        run(Spec(stage="make", on_drift="fail"), store)
    assert "raise VERSION in tasks/make/stage.py" in caught.value.next_step


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"""Makes documents, slowly or wrongly if asked to."""', '"""Makes documents."""'),
        (RULE, f"# why not\n        {RULE}"),
        (RULE, RULE.replace(" = ", "   =   ")),
        ('    """How many were made."""', '    """How many were really made."""'),
    ],
)
def test_words_and_spaces_are_no_drift(source, toy_pipeline, store, old, new):
    run(SPEC, store)
    edit(source, old, new)
    assert fate(toy_pipeline, store, "fail").fate == "cached"


def test_the_source_of_a_stage_is_all_it_imports_and_nothing_else():
    found = source_of("train")
    assert {"tasks.train.stage", "tasks.train.worker", "tasks.training.loop", "tasks.training.optimizer"} <= set(found)
    assert not any(name.startswith(("tasks.dedup", "tasks.evaluate")) for name in found)
    assert "tasks.core.plan" not in found
    assert all(file_of(name) for name in found)


def test_a_module_that_came_or_went_is_drift():
    now = source_of("dedup")
    without = {name: digest for name, digest in now.items() if name != "tasks.dedup.minhash"}
    assert drift("dedup", now) == []
    assert drift("dedup", without) == ["tasks/dedup/minhash.py"]
    assert drift("dedup", {**now, "tasks.dedup.gone": "0"}) == ["tasks/dedup/gone.py"]


def test_a_records_source_is_that_of_its_stage_whatever_else_ran_in_the_process(store):
    run(SPEC, store)
    run(Spec(stage="count", inputs={"documents": run(SPEC, store).uri}), store)
    (record,) = (store.read_record(path, 1) for path in store.artifacts("count"))
    assert "tasks.count.stage" in record["made"]["source"]
    assert "tasks.make.stage" not in record["made"]["source"]
