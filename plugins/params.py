"""The trigger form of a DAG, made from its stages' ``dial(...)`` knobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from airflow.sdk import Param

from tasks.core.config import Config, knobs_of, schema_of
from tasks.core.pipeline import resolve
from tasks.core.stage import config_type_of

OVERRIDES_HELP = (
    'Any other knob of any stage, as {"stage.knob": value}. '
    "The YAML beside the DAG and `python -m tasks list` say which there are."
)
FORCE_HELP = "Stages whose artifact is made again although there is one; `all` for every stage."
OTHER = "Everything else"
"""Heading of what is no dial."""


def params_of(pipeline: str) -> dict[str, Param]:
    """Parameters of the DAG file ``pipeline``: ``stage.knob`` for every dial, ``overrides`` and ``force``.

    Each has the type, the limits and the help of the knob, and the YAML's value as default.

    Raises:
        ConfigError: naming everything that is wrong with the YAML; Airflow shows it as an import error.
    """
    configs = resolve(Path(pipeline).resolve(), {})
    params: dict[str, Param] = {}
    for stage, values in configs.items():
        config_type = config_type_of(stage)
        schema = schema_of(config_type)
        params |= {f"{stage}.{knob}": dial_of(stage, knob, values[knob], schema) for knob in dials_of(config_type)}
    params["overrides"] = overrides_param()
    params["force"] = force_param(list(configs))
    return params


def dials_of(config_type: type[Config]) -> list[str]:
    return list(knobs_of(config_type, "dial"))


def dial_of(stage: str, knob: str, value: Any, schema: dict[str, Any]) -> Param:
    """One field of the form, under its stage's heading."""
    rules = dict(schema["properties"][knob])
    description = rules.pop("description", None)
    for name in ("default", "title"):
        rules.pop(name, None)
    if "$defs" in schema and "$ref" in str(rules):
        rules["$defs"] = schema["$defs"]
    return Param(value, description=description, section=stage, **with_plain_type(rules))


def with_plain_type(rules: dict[str, Any]) -> dict[str, Any]:
    """``anyOf: [{type: integer, …}, {type: null}]`` as ``type: [integer, null]``: the form draws only those."""
    options = rules.get("anyOf", [])
    if not options or not all(isinstance(option.get("type"), str) for option in options):
        return rules
    merged = {key: value for option in options for key, value in option.items() if key != "type"}
    rest = {key: value for key, value in rules.items() if key != "anyOf"}
    return {**rest, **merged, "type": [option["type"] for option in options]}


def overrides_param() -> Param:
    """Any object. Pin checks it, before anything runs: it names every wrong knob and the likely one, which the form's
    own validation cannot."""
    return Param({}, description=OVERRIDES_HELP, section=OTHER, type="object")


def force_param(stages: list[str]) -> Param:
    choices = ["all", *stages]
    return Param(
        [],
        description=FORCE_HELP,
        section=OTHER,
        type="array",
        items={"type": "string", "enum": choices},
        examples=choices,
    )
