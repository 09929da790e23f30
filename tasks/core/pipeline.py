"""A pipeline is a DAG file and the YAML of the same stem beside it: the wiring, and the knobs.

The wiring is read from the DAG file's own text, so there is one place that says it and ``plan`` answers without
importing Airflow. For that, a DAG file writes each step as one assignment with literal names::

    clean = step(stage="clean", inputs={"documents": raw.output})

or, for what the model in service was made from, ``champion["<stage>"]``.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tasks.core.config import Config, plain, validated
from tasks.core.errors import ConfigError
from tasks.core.stage import config_type_of, stage_names

Wiring = dict[str, dict[str, str]]
"""For each stage, in the order of the file: input name to the stage that makes it, or to ``champion/<stage>``."""
CHAMPION = "champion"
INPUTS = 'inputs must be a literal {"name": variable.output} or {"name": champion["stage"]}'


@dataclass(frozen=True)
class Pipeline:
    """The stages of one DAG with their validated configurations, in an order that can run."""

    name: str
    path: Path
    wiring: Wiring
    configs: dict[str, Config]


def load(path: Path, settings: Iterable[str] = ()) -> Pipeline:
    """Read a pipeline by its YAML or its DAG file; ``settings`` are ``stage.knob=value`` as on the command line.

    Raises:
        ConfigError: naming everything that is wrong, in the file and in the settings.
    """
    overrides = parse_settings(settings)
    knobs_file = path.with_suffix(".yaml")
    wiring = read_wiring(knobs_file.with_suffix(".py"))
    configs = configure(knobs_file, list(wiring), overrides)
    return Pipeline(knobs_file.stem, knobs_file, wiring, configs)


def resolve(path: Path, overrides: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """All knobs of every stage as JSON values; ``overrides`` maps ``stage.knob`` to a value.

    Raises:
        ConfigError: naming everything that is wrong.
    """
    knobs_file = path.with_suffix(".yaml")
    stages = list(read_wiring(knobs_file.with_suffix(".py")))
    return {stage: plain(config) for stage, config in configure(knobs_file, stages, overrides).items()}


def configure(knobs_file: Path, stages: list[str], overrides: Mapping[str, Any]) -> dict[str, Config]:
    """Validate the YAML and the overrides together, so that all problems are said at once."""
    knobs = read_knobs(knobs_file)
    problems = [f"{name}: no such stage in this pipeline{near(name, stages)}" for name in knobs if name not in stages]
    for name, value in overrides.items():
        stage, _, knob = name.partition(".")
        if stage not in stages or not knob:
            problems.append(f"{name}: no such stage in this pipeline{near(stage, stages)}")
            continue
        place_value(knobs.setdefault(stage, {}), knob.split("."), value)
    configs = {}
    for stage in stages:
        try:
            configs[stage] = validated(config_type_of(stage), knobs.get(stage, {}), stage=stage)
        except ConfigError as error:
            problems += error.problems or [str(error)]
    if problems:
        raise ConfigError(f"{knobs_file} is not valid", problems)
    return configs


def place_value(knobs: dict[str, Any], path: list[str], value: Any) -> None:
    """Set a value below nested mappings: ``["split", "test"]``."""
    *parents, last = path
    for parent in parents:
        inner = knobs.get(parent)
        knobs[parent] = knobs = dict(inner) if isinstance(inner, dict) else {}
    knobs[last] = value


def near(name: str, known: Iterable[str]) -> str:
    """A suggestion for a misspelled name, or the names there are."""
    names = list(known)
    found = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean {found[0]}?" if found else f"; known: {', '.join(names)}"


def read_knobs(path: Path) -> dict[str, dict[str, Any]]:
    """A pipeline's YAML: a mapping of stage to knobs. Keys that start with a dot are for anchors and ignored.

    Raises:
        ConfigError: when the file is missing, is no YAML, names a key twice, or is not such a mapping.
    """
    try:
        values = yaml.load(path.read_text("utf-8"), Loader=UniqueKeyLoader) or {}  # noqa: S506 (a SafeLoader)
    except FileNotFoundError:
        raise ConfigError(f"there is no pipeline file {path}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read as YAML: {error}") from None
    if not isinstance(values, dict):
        raise ConfigError(f"{path} must be a mapping of stage to knobs")
    stages = {str(key): value or {} for key, value in values.items() if not str(key).startswith(".")}
    wrong = [f"{stage}: must be a mapping of knobs" for stage, knobs in stages.items() if not isinstance(knobs, dict)]
    if wrong:
        raise ConfigError(f"{path} is not valid", wrong)
    return stages


class UniqueKeyLoader(yaml.SafeLoader):
    """A safe loader that refuses a key written twice; YAML would silently take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode) and key.value != "<<"]
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise yaml.YAMLError(f"written twice: {', '.join(sorted(twice))} ({node.start_mark})")
        return super().construct_mapping(node, deep)


def parse_settings(settings: Iterable[str]) -> dict[str, Any]:
    """``stage.knob=value`` with the value read as YAML, so numbers, booleans and lists come out typed.

    Raises:
        ConfigError: naming every setting that has not that form.
    """
    parsed, problems = {}, []
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals or "." not in name:
            problems.append(f"{setting!r}: must be stage.knob=value")
            continue
        try:
            parsed[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            problems.append(f"{setting!r}: {error}")
    if problems:
        raise ConfigError("a setting cannot be read", problems)
    return parsed


def read_wiring(dag_file: Path) -> Wiring:
    """The stages of a DAG file and where their inputs come from.

    Raises:
        ConfigError: when the file is missing or a step is not written so that it can be read.
    """
    try:
        tree = ast.parse(dag_file.read_text("utf-8"), str(dag_file))
    except FileNotFoundError:
        raise ConfigError(f"there is no DAG file {dag_file}") from None
    except SyntaxError as error:
        raise ConfigError(f"{dag_file} is not valid Python: {error}") from None
    wiring: Wiring = {}
    stage_of: dict[str, str] = {}
    problems = []
    for variable, call in steps_of(tree):
        try:
            stage, inputs = read_step(call, stage_of)
        except ValueError as error:
            problems.append(f"line {call.lineno}: {error}")
            continue
        wiring[stage] = inputs
        stage_of[variable] = stage
    if problems or not wiring:
        raise ConfigError(f"the steps of {dag_file} cannot be read", problems or ["it has no step(stage=…)"])
    return wiring


def from_champion(wiring: Wiring) -> list[str]:
    """The stages whose artifacts are taken from the champion, each once."""
    sources = [source for inputs in wiring.values() for source in inputs.values()]
    stages = [source.removeprefix(f"{CHAMPION}/") for source in sources if source.startswith(f"{CHAMPION}/")]
    return list(dict.fromkeys(stages))


def steps_of(tree: ast.AST) -> list[tuple[str, ast.Call]]:
    """Every ``step(…)`` call with the variable it is assigned to (empty when to none), in the order of the file."""
    named = {
        id(node.value): node.targets[0].id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    calls = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "step"
    ]
    return [(named.get(id(call), ""), call) for call in sorted(calls, key=lambda call: call.lineno)]


def read_step(call: ast.Call, stage_of: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Stage and inputs of one ``step(stage="…", inputs={"name": variable.output})``."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    stage = given.get("stage")
    if not isinstance(stage, ast.Constant) or not isinstance(stage.value, str):
        raise ValueError('step() needs a literal stage="…"')
    if stage.value not in stage_names():
        raise ValueError(f"no such stage: {stage.value}{near(stage.value, stage_names())}")
    inputs = given.get("inputs", ast.Dict(keys=[], values=[]))
    if not isinstance(inputs, ast.Dict) or not all(isinstance(name, ast.Constant) for name in inputs.keys):
        raise ValueError(INPUTS)
    names = [name.value for name in inputs.keys if isinstance(name, ast.Constant)]
    return stage.value, {str(name): source_of(one, stage_of) for name, one in zip(names, inputs.values, strict=True)}


def source_of(value: ast.expr, stage_of: Mapping[str, str]) -> str:
    """Where one input comes from: the stage of ``variable.output``, or ``champion/<stage>``."""
    match value:
        case ast.Attribute(value=ast.Name(id=variable), attr="output") if variable in stage_of:
            return stage_of[variable]
        case ast.Subscript(value=ast.Name(id="champion"), slice=ast.Constant(value=str(stage))):
            if stage not in stage_names():
                raise ValueError(f"no such stage: {stage}{near(stage, stage_names())}")
            return f"{CHAMPION}/{stage}"
        case ast.Attribute():
            raise ValueError(f"{ast.unparse(value)} is not the output of an earlier step")
    raise ValueError(INPUTS)
