"""What a run takes from a changing world, resolved once at its beginning: which partition it is for, and the champion.

A stage asks for such a value by a ``pinned`` knob of one of these names:

``partition``
    the partition the run is for: a scheduled run is told it, another may be by that knob;
``since``
    the newest partition the champion has learned from, or what the pipeline says if that is later;
``champion``
    the version of the registered model that is the champion.

A step that takes an input from the champion, ``champion["dedup"]`` in the DAG file, gets the nearest artifact of that
stage among what the champion was made from.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tasks.core.artifact import Artifact, find, published
from tasks.core.champion import ancestor, needed_champion
from tasks.core.config import Config, knobs_of
from tasks.core.errors import ConfigError
from tasks.core.pipeline import CHAMPION, Pipeline, from_champion
from tasks.core.store import Store


@dataclass(frozen=True)
class Pins:
    """The world as one run sees it."""

    knobs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Values of the pinned knobs, by stage."""
    champion: dict[str, str] = field(default_factory=dict)
    """URI of each artifact that is taken from the champion, by stage."""


def resolve_pins(configs: Mapping[str, Config], stages: Iterable[str], store: Store, partition: str = "") -> Pins:
    """Resolve what the stages' pinned knobs ask for and, for ``stages``, the champion's artifacts.

    Raises:
        ConfigError: there is no champion, or nothing names its model; or two partitions are told.
        DataError: an artifact that the champion was made from is gone.
        ServiceError: the model registry does not answer.
    """
    asked = {name: list(knobs_of(type(config), "pinned")) for name, config in configs.items()}
    partition = told_partition(configs, asked, partition)
    values: dict[str, Any] = {"partition": partition}
    wanted = list(stages)
    if wanted or any(CHAMPION in knobs for knobs in asked.values()):
        champion = needed_champion(model_of(configs))
        values |= {CHAMPION: champion.version, "since": champion.partition}
        uris = {stage: find(store, ancestor(store, champion.uri, stage).uri).uri for stage in wanted}
    else:
        uris = {}
    knobs = {
        name: {knob: later_of(getattr(configs[name], knob), values[knob], knob) for knob in knobs if knob in values}
        for name, knobs in asked.items()
        if knobs
    }
    return Pins(knobs, uris)


def told_partition(configs: Mapping[str, Config], asked: Mapping[str, list[str]], partition: str) -> str:
    """The one partition that the run and its knobs tell; empty when none does."""
    told = {f"{name}.partition": str(configs[name].partition) for name in asked if "partition" in asked[name]}  # type: ignore[attr-defined]
    told["the run"] = partition
    given = {name: value for name, value in told.items() if value}
    if len(set(given.values())) > 1:
        raise ConfigError("a run is for one partition", [f"{name}: {value}" for name, value in given.items()])
    return next(iter(given.values()), "")


def later_of(configured: Any, value: Any, knob: str) -> Any:
    """The value of a pinned knob; of two ``since`` the later one."""
    return max(configured, value) if knob == "since" else value


def model_of(configs: Mapping[str, Config]) -> str:
    """Name of the registered model that a pipeline makes.

    Raises:
        ConfigError: no stage of it names one.
    """
    for config in configs.values():
        if hasattr(config, "model_name"):
            return str(config.model_name)
    raise ConfigError(
        "the pipeline takes something from the champion, and no stage says which registered model that is",
        next_step="give the pipeline a stage with a knob model_name, such as package",
    )


def filled(configs: Mapping[str, Config], pins: Pins) -> dict[str, Config]:
    """The configurations with their pinned knobs."""
    return {name: replace(config, **pins.knobs.get(name, {})) for name, config in configs.items()}


def pinned(pipeline: Pipeline, store: Store) -> tuple[Pipeline, dict[str, Artifact]]:
    """A pipeline as it would run now, and the champion's artifacts by the name they have in its wiring."""
    stages = from_champion(pipeline.wiring)
    pins = resolve_pins(pipeline.configs, stages, store)
    artifacts = {f"{CHAMPION}/{stage}": published(store, uri) for stage, uri in pins.champion.items()}
    return replace(pipeline, configs=filled(pipeline.configs, pins)), artifacts
