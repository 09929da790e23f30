"""``python -m tasks``: run stages and pipelines, see what would happen, and look at what was made.

python -m tasks plan dags/lifecycle.yaml --set dedup.threshold=0.7
python -m tasks run  dags/lifecycle.yaml --only dedup
python -m tasks list
python -m tasks show dags/lifecycle.yaml
python -m tasks check
python -m tasks gc --dry-run
python -m tasks copy URI /mnt/production/store
python -m tasks promote URI
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, get_args

from tasks import upkeep
from tasks.core import mlflow_runs, tracking_process
from tasks.core.artifact import find, newest
from tasks.core.config import plain, validated
from tasks.core.drift import OnDrift
from tasks.core.errors import ConfigError, HeadraceError, NothingNew
from tasks.core.estimate import Cost, cost_told, total_told
from tasks.core.mlflow_runs import RunContext
from tasks.core.pins import filled, pinned, resolve_pins
from tasks.core.pipeline import Pipeline, load, near
from tasks.core.plan import plan
from tasks.core.runner import Outcome, Spec, explain_failure, run, terminated_as_try_again
from tasks.core.stage import config_type_of, fingerprint, signature_of, stage_names
from tasks.core.store import REPOSITORY, VAR, open_store


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse, dispatch, and turn every error into its exit code."""
    options = parser().parse_args(arguments)
    os.environ.setdefault("MLFLOW_TRACKING_URI", mlflow_runs.tracking_uri())
    try:
        with terminated_as_try_again():
            return int(options.action(options))
    except Explained as error:
        return error.exit_code
    except HeadraceError as error:
        print(f"error: {error}", file=sys.stderr)
        if error.next_step:
            print(f"next step: {error.next_step}", file=sys.stderr)
        return error.exit_code


def parser() -> argparse.ArgumentParser:
    top = argparse.ArgumentParser(prog="python -m tasks", description="Stages of a language model's life.")
    verbs = top.add_subparsers(required=True, metavar="VERB")
    for name, action, text in (
        ("run", do_run, "run a pipeline here, or one stage from a spec"),
        ("plan", do_plan, "say what would run, and why, without running it"),
        ("show", do_show, "what a pipeline made, or one artifact"),
        ("list", do_list, "the stages there are, and what the store holds of each"),
        (
            "check",
            upkeep.check_store,
            "read again what the store vouches for, or prove that the store can be used",
        ),
        ("copy", upkeep.copy_artifact, "copy an artifact to another store, verified, and keep it there"),
        (
            "gc",
            upkeep.collect_garbage,
            "remove what nobody can read and, a day after marking it, what nobody needs",
        ),
        ("promote", upkeep.promote, "make a packaged model the champion"),
        ("pin", do_pin, "resolve what may change to digests and open the MLflow run (for DAGs)"),
        ("close", do_close, "close the MLflow run (for DAGs)"),
        ("replay", do_replay, "write to MLflow what it could not take before"),
    ):
        verb = verbs.add_parser(name, help=text, description=text)
        verb.set_defaults(action=action)
        verb.add_argument("--store", help="where artifacts live (default: HEADRACE_STORE, else var/store)")
        if name in ("run", "plan", "show"):
            verb.add_argument("target", help="a pipeline's YAML, a stage (run --spec), or an artifact's URI (show)")
            verb.add_argument("--set", action="append", default=[], metavar="STAGE.KNOB=VALUE", help="change a knob")
        if name in ("run", "plan"):
            verb.add_argument(
                "--force", action="append", default=[], metavar="STAGE", help="make it again; all for every stage"
            )
            verb.add_argument(
                "--on-drift",
                choices=get_args(OnDrift),
                default="warn",
                help="what to do with an artifact that was made before our source changed (default: warn)",
            )
        if name == "run":
            verb.add_argument("--only", metavar="STAGE", help="stop after this stage")
        if name in ("run", "pin", "close"):
            verb.add_argument("--spec", help="JSON file with the resolved request; - reads it from standard input")
    upkeep.add_arguments(verbs.choices)
    return top


def do_run(options: argparse.Namespace) -> int:
    if options.spec:
        request = read_json(options.spec)
        spec = spec_of(request)
        if spec.stage != options.target:
            raise ConfigError(f"the spec is for stage {spec.stage}, the command for {options.target}")
        write_outcome(request, outcome_of(spec, options.store))
        return 0
    pipeline = load(Path(options.target), options.set)
    check_names([*options.force, *filter(None, [options.only])], pipeline)
    run_pipeline(pipeline, options)
    return 0


def outcome_of(spec: Spec, root: str | None) -> dict[str, Any]:
    """What came of a spec; that there is nothing to do is an outcome too, where a pipeline asked."""
    try:
        return asdict(run_explained(spec, root))
    except Explained as error:
        if isinstance(error.__cause__, NothingNew) and spec.run.pipeline:
            return {"nothing_new": str(error.__cause__)}
        raise


def run_pipeline(pipeline: Pipeline, options: argparse.Namespace) -> None:
    """Every stage in order in this process, tracked as one run; what Airflow does with a process per stage."""
    run_id = f"cli__{datetime.now(UTC).isoformat(timespec='seconds')}"
    pipeline, pins = pinned(pipeline, open_store(options.store))
    parent = opened_run(pipeline.name, run_id)
    context = RunContext(pipeline=pipeline.name, run_id=run_id, mlflow_run_id=parent["mlflow_run_id"])
    forced = forced_stages(options.force, pipeline)
    outcomes: dict[str, Outcome] = {}
    status = "FAILED"
    try:
        for name, wiring in pipeline.wiring.items():
            inputs = {
                one: pins[source].uri if source in pins else outcomes[source].uri for one, source in wiring.items()
            }
            config = plain(pipeline.configs[name])
            spec = Spec(
                stage=name,
                config=config,
                inputs=inputs,
                force=name in forced,
                on_drift=options.on_drift,
                run=context,
            )
            outcomes[name] = run_explained(spec, options.store)
            if name == options.only:
                break
        status = "FINISHED"
    finally:
        mlflow_runs.close(context, status, [asdict(one) for one in outcomes.values() if one.cached])


def run_explained(spec: Spec, root: str | None) -> Outcome:
    """Run a stage; when it fails, the last five lines say what, why, on what, what next, and how to see it again."""
    try:
        return run(spec, open_store(root))
    except Exception as error:
        if not isinstance(error, HeadraceError):
            traceback.print_exc()
        print("\n".join(explain_failure(error, spec, command_for(spec))), file=sys.stderr, flush=True)
        raise Explained(error) from error


class Explained(Exception):  # noqa: N818 (not an error of its own: it carries one that was already told)
    """A failure whose five lines are on the screen already."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.exit_code = error.exit_code if isinstance(error, HeadraceError) else 1


def command_for(spec: Spec) -> str:
    """Save a spec under its digest and give the command that runs exactly it."""
    text = json.dumps(asdict(spec), ensure_ascii=False)
    path = VAR / "specs" / f"{spec.stage}-{sha256(text.encode()).hexdigest()[:12]}.json"
    command = f"{REPOSITORY}/bin/with-env python -m tasks run {spec.stage} --spec"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    except OSError:  # the disk may be what failed
        return f"printf %s {shlex.quote(text)} | {command} -"
    return f"{command} {shlex.quote(str(path))}"


def do_plan(options: argparse.Namespace) -> int:
    pipeline = load(Path(options.target), options.set)
    check_names(options.force, pipeline)
    forced = forced_stages(options.force, pipeline)
    costs: list[Cost] = []
    for step in plan(pipeline, open_store(options.store), force=forced, on_drift=options.on_drift):
        cost = f"  ({cost_told(step.cost)})" if step.cost else ""
        print(f"{step.stage:<12} {step.fate:<9} {step.reason}{cost}")
        if step.cost:
            costs.append(step.cost)
    if costs:
        print(f"to run: {total_told(costs)}")
    return 0


def forced_stages(names: Sequence[str], pipeline: Pipeline) -> list[str]:
    """The stages that ``--force`` names; ``all`` stands for every one."""
    return list(pipeline.wiring) if "all" in names else list(names)


def do_show(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    if options.target.endswith((".yaml", ".py")):
        from tasks import summary

        summary.show(load(Path(options.target), options.set), store)
        return 0
    found = find(store, options.target)
    print(found.record.to_json().decode())
    return 0


def do_list(options: argparse.Namespace) -> int:
    store = open_store(options.store)
    for name in stage_names():
        signature = signature_of(name)
        artifacts = [found for path in store.artifacts(name) if (found := newest(store, path))]
        print(f"{name:<12} reads {signature.inputs_told or '-':<28} {len(artifacts)} artifacts in {store.root}")
        for one in sorted(artifacts, key=lambda one: one.record.made["at"]):
            print(f"  {one.record.made['at']}  {one.uri}")
    return 0


def do_pin(options: argparse.Namespace) -> int:
    request = read_json(options.spec or "-")
    configs = {name: validated(config_type_of(name), one, stage=name) for name, one in request["configs"].items()}
    pins = resolve_pins(configs, request.get("champion", []), open_store(options.store), request.get("partition", ""))
    try:
        fingerprints = {name: fingerprint(name, config) for name, config in filled(configs, pins).items()}
    except NothingNew as error:
        write_outcome(request, {"nothing_new": str(error)})
        return 0
    parent = opened_run(request["pipeline"], request["run_id"])
    seen = {name: one for name, one in fingerprints.items() if one is not None}
    write_outcome(request, {"fingerprints": seen, **asdict(pins), **parent})
    return 0


def opened_run(pipeline: str, run_id: str) -> dict[str, str]:
    """Open the pipeline's run in MLflow and, since it is there, write to it what an earlier outage left behind."""
    parent = mlflow_runs.open_parent(pipeline, run_id)
    if parent["mlflow_run_id"]:
        try:
            tracking_process.replay()
        except HeadraceError as error:
            mlflow_runs.warn(str(error))
    return parent


def do_close(options: argparse.Namespace) -> int:
    request = read_json(options.spec or "-")
    cached = [one for one in request.get("outcomes", []) if one.get("cached")]
    mlflow_runs.close(RunContext(**request["run"]), request["status"], cached)
    return 0


def do_replay(_options: argparse.Namespace) -> int:
    print(f"{tracking_process.replay()} runs written to {mlflow_runs.tracking_uri()}")
    return 0


def check_names(names: Sequence[str], pipeline: Pipeline) -> None:
    """Refuse a stage that the pipeline does not have."""
    known = [*pipeline.wiring, "all"]
    wrong = [f"{name}: no such stage in this pipeline{near(name, known)}" for name in names if name not in known]
    if wrong:
        raise ConfigError("the command names stages that are not there", wrong)


def spec_of(request: dict[str, Any]) -> Spec:
    """The spec in a request; where its outcome goes is between the caller and the command line.

    Raises:
        ConfigError: when a field is missing or unknown.
    """
    values = {name: value for name, value in request.items() if name != "outcome"}
    try:
        return Spec(**{**values, "run": RunContext(**request.get("run", {}))})
    except TypeError as error:
        raise ConfigError(f"the spec cannot be understood: {error}") from None


def read_json(source: str) -> dict[str, Any]:
    """A JSON object from a file or, for ``-``, from standard input."""
    try:
        text = sys.stdin.read() if source == "-" else Path(source).read_text("utf-8")
        value = json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the spec {source} cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ConfigError(f"the spec {source} must be a JSON object")
    return value


def write_outcome(request: dict[str, Any], outcome: dict[str, Any]) -> None:
    """Where the caller asked for it, else on standard output."""
    text = json.dumps(outcome, ensure_ascii=False)
    if "outcome" not in request:
        print(text)
        return
    path = Path(request["outcome"])
    private = path.with_suffix(".part")
    private.write_text(text, "utf-8")
    private.replace(path)


if __name__ == "__main__":
    sys.exit(main())
