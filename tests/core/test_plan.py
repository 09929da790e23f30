from tasks.core.config import plain
from tasks.core.pipeline import load
from tasks.core.plan import plan
from tasks.core.runner import Spec, run


def run_all(pipeline, store):
    outcomes = {}
    for name, wiring in pipeline.wiring.items():
        inputs = {one: outcomes[source].uri for one, source in wiring.items()}
        outcomes[name] = run(Spec(stage=name, config=plain(pipeline.configs[name]), inputs=inputs), store)
    return outcomes


def fates(pipeline, store, force=()):
    return [(step.stage, step.fate, step.reason) for step in plan(pipeline, store, force=force)]


def test_in_an_empty_store_everything_runs_or_waits(toy_pipeline, store):
    assert fates(load(toy_pipeline), store) == [
        ("make", "will run", "because it was never made in this store"),
        ("count", "waits for", "make"),
        ("check", "waits for", "count"),
    ]


def test_after_a_run_everything_but_the_check_is_cached(toy_pipeline, store):
    run_all(load(toy_pipeline), store)
    assert [fate for _, fate, _ in fates(load(toy_pipeline), store)] == ["cached", "cached", "will run"]


def test_a_changed_knob_is_named_with_both_values(toy_pipeline, store):
    run_all(load(toy_pipeline), store)
    found = fates(load(toy_pipeline, ["make.num_documents=5"]), store)
    assert found[0] == ("make", "will run", "because make.num_documents changed from 4 to 5")
    assert found[1] == ("count", "waits for", "make")
    assert fates(load(toy_pipeline, ["count.unit=pages"]), store)[:2] == [
        ("make", "cached", found[0][2] and fates(load(toy_pipeline), store)[0][2]),
        ("count", "will run", "because count.unit changed from 'documents' to 'pages'"),
    ]


def test_what_the_plan_says_is_what_the_run_does(toy_pipeline, store):
    run_all(load(toy_pipeline), store)
    changed = load(toy_pipeline, ["count.unit=pages"])
    foretold = [fate == "cached" for _, fate, _ in fates(changed, store)]
    assert [one.cached for one in run_all(changed, store).values()] == foretold


def test_a_forced_stage_is_foretold(toy_pipeline, store):
    run_all(load(toy_pipeline), store)
    assert fates(load(toy_pipeline), store, ["make"])[0] == ("make", "will run", "because it is forced")
