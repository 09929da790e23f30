"""Typed configuration: what a stage's knobs are, what they mean, and what a wrong one is told.

A stage's configuration is a frozen dataclass that derives from :class:`Config`. Four kinds of knob:

* a plain field is part of the artifact's identity;
* ``runtime(default)`` changes only how a stage runs: recorded, but outside the identity;
* ``dial(default)`` is part of the identity and appears on Airflow's trigger form;
* ``pinned(default)`` says where in a changing world to look; the first task of a run fills it in for all of them. It is
  outside the identity, which what is found there enters.

A plain knob that came later is ``later(default, neutral=…)``: at the neutral value, which is how the stage behaved
before the knob existed, it is left out of the identity, so the artifacts made until then keep their keys.

The string below an attribute is its help, on the form, on the command line and in the docs.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from typing import Any, ClassVar, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from tasks.core.errors import ConfigError

KIND = "headrace.kind"
"""Key of a dataclass field's metadata that holds ``runtime``, ``dial`` or ``pinned``."""
OUTSIDE = ("runtime", "pinned")
"""Kinds of knob that are no part of the identity."""
NEUTRAL = "headrace.neutral"
"""Key of a dataclass field's metadata that holds the value a later knob is neutral at."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """Base of all stage configurations: unknown knobs are refused, attribute docstrings are the help."""

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(
        extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False
    )


C = TypeVar("C", bound=Config)


def runtime(default: Any) -> Any:
    """A knob of how the stage runs (workers, devices); it never changes what the stage makes."""
    return field(default=default, metadata={KIND: "runtime"})


def dial(default: Any) -> Any:
    """A knob that the trigger form shows; it is part of the artifact's identity."""
    return field(default=default, metadata={KIND: "dial"})


def pinned(default: Any) -> Any:
    """A knob that a run's first task fills in by its name, from what it resolves (see tasks/core/pins.py)."""
    return field(default=default, metadata={KIND: "pinned"})


def later(default: Any, *, neutral: Any) -> Any:
    """A knob that a released stage did not have; ``neutral`` is the JSON value that stands for its absence."""
    return field(default=default, metadata={NEUTRAL: neutral})


def knobs_of(config_type: type[Config], kind: str) -> Iterator[str]:
    """Names of the knobs of one kind (``runtime``, ``dial`` or ``pinned``), in the order they are written."""
    return (f.name for f in fields(config_type) if f.metadata.get(KIND) == kind)


_adapters: dict[Any, TypeAdapter[Any]] = {}


def adapter_of(config_type: Any) -> TypeAdapter[Any]:
    """Pydantic's reader and writer of a configuration; building one takes milliseconds, a DAG uses it thrice."""
    if config_type not in _adapters:
        _adapters[config_type] = TypeAdapter(config_type)
    return _adapters[config_type]


def schema_of(config_type: type[Config]) -> dict[str, Any]:
    """JSON schema of a configuration; descriptions are the attribute docstrings."""
    return adapter_of(config_type).json_schema()


def validated(config_type: type[C], values: Mapping[str, Any], *, stage: str) -> C:
    """Build a configuration from plain values.

    Raises:
        ConfigError: naming every wrong or unknown knob of the stage, not only the first.
    """
    try:
        config: C = adapter_of(config_type).validate_python(dict(values))
    except ValidationError as error:
        raise ConfigError(f"stage {stage} is not valid", problems_of(error, config_type, stage)) from None
    return config


def problems_of(error: ValidationError, config_type: type[Config], stage: str) -> list[str]:
    """One line per problem: the knob, what is wrong, what was given and, for a misspelling, the likely knob."""
    known = [f.name for f in fields(config_type)]
    lines = []
    for problem in error.errors(include_url=False):
        name = ".".join(str(part) for part in (stage, *problem["loc"]))
        if problem["type"] in ("unexpected_keyword_argument", "extra_forbidden"):
            near = difflib.get_close_matches(str(problem["loc"][-1]), known, n=1)
            hint = f"; did you mean {stage}.{near[0]}?" if near else f"; known: {', '.join(known)}"
            lines.append(f"{name}: no such knob{hint}")
        else:
            message = problem["msg"].removeprefix("Value error, ").replace("Input should be", "must be")
            lines.append(f"{name}: {message} (got {shortened(problem['input'])})")
    return lines


def shortened(value: Any, limit: int = 80) -> str:
    """A value as a person recognises it in one line of at most ``limit`` characters."""
    text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def plain(config: Config) -> dict[str, Any]:
    """All knobs as JSON values (tuples become lists, enums their values)."""
    values: dict[str, Any] = adapter_of(type(config)).dump_python(config, mode="json")
    return values


def identity_of(config: Config) -> dict[str, Any]:
    """The knobs that decide what the stage makes, as JSON values: no runtime or pinned knob and no later one that is
    neutral, nested ones too."""
    identity: dict[str, Any] = _deciding(config, plain(config))
    return identity


def _deciding(config: Any, values: Any) -> Any:
    if is_dataclass(config):
        return {
            f.name: _deciding(getattr(config, f.name), values[f.name])
            for f in fields(config)
            if f.metadata.get(KIND) not in OUTSIDE and not _is_neutral(f.metadata, values[f.name])
        }
    if isinstance(config, tuple | list):
        return [_deciding(one, value) for one, value in zip(config, values, strict=True)]
    return values


def _is_neutral(metadata: Mapping[Any, Any], value: Any) -> bool:
    return NEUTRAL in metadata and canonical_json(value) == canonical_json(metadata[NEUTRAL])


def canonical_json(value: Any) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN; what keys and digests are made of."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def numbers_of(result: Any) -> dict[str, Any]:
    """A result dataclass as JSON values."""
    values: dict[str, Any] = asdict(result)
    return values
