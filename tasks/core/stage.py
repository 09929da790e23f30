"""The stage contract, and how a stage is found by name.

A stage is a folder ``tasks/<stage>/`` with two modules, or three:

``config.py``
    One subclass of :class:`~tasks.core.config.Config`. Light imports only: Airflow reads it while parsing DAGs.
``stage.py``
    ``VERSION: int``, raised when the same configuration would now make something else, and ``run(config,
    <inputs>, *, out) -> Result``: the parameters between ``config`` and ``out`` are the stage's inputs, each the
    path of an artifact, or None for one that a pipeline may leave out (``known: UPath | None = None``); ``out`` is an
    empty folder; the result is a frozen dataclass of numbers and short texts.
    Optionally ``CACHED = False`` for a check that must run each time.
``fingerprint.py``
    Only for a stage that looks at the world outside the store: ``fingerprint(config) -> dict``, what it sees there.
    Light imports, because it is asked of cached stages too. Optionally ``size_bytes(config) -> int``, how much it is.
"""

from __future__ import annotations

import ast
import importlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import tasks
from tasks.core.config import Config
from tasks.core.errors import ConfigError


@dataclass(frozen=True)
class Signature:
    """What can be known of a stage from its text alone, without importing what it works with."""

    name: str
    version: int
    inputs: tuple[str, ...]
    """Names of the artifacts it reads."""
    optional: tuple[str, ...]
    """Those of them that a pipeline may leave out; then they are no part of the identity either."""
    has_fingerprint: bool
    """Whether it looks at the world outside the store."""
    cached: bool
    """False for a check that must run each time."""

    @property
    def inputs_told(self) -> str:
        """The inputs as a person reads them."""
        return ", ".join(f"{name} (optional)" if name in self.optional else name for name in self.inputs)


def stage_files() -> dict[str, Path]:
    """The ``stage.py`` of every stage there is, by name: a folder of the package ``tasks`` that has one."""
    folders = [Path(path) for path in tasks.__path__]
    files = [file for folder in folders for file in sorted(folder.glob("*/stage.py"))]
    return {file.parent.name: file for file in files if file.parent.name != "core"}


def stage_names() -> list[str]:
    """Names of all stages there are."""
    return sorted(stage_files())


@cache
def config_type_of(name: str) -> type[Config]:
    """The configuration class of a stage, without importing what the stage works with.

    Raises:
        ConfigError: when there is no such stage.
    """
    if name not in stage_names():
        raise ConfigError(f"no such stage: {name!r}", [f"known: {', '.join(stage_names())}"])
    module = importlib.import_module(f"tasks.{name}.config")
    found = [one for one in vars(module).values() if _is_config_of(one, module)]
    if len(found) != 1:
        raise ConfigError(f"tasks/{name}/config.py must define exactly one Config named …Config, has {len(found)}")
    config_type: type[Config] = found[0]
    return config_type


def _is_config_of(value: Any, module: ModuleType) -> bool:
    return (
        isinstance(value, type)
        and issubclass(value, Config)
        and value.__module__ == module.__name__
        and value.__name__.endswith("Config")
    )


@cache
def signature_of(name: str) -> Signature:
    """Read a stage's signature from its text: some stages take seconds to import, and a cached one is never run.

    Raises:
        ConfigError: when there is no such stage or its module does not keep the contract.
    """
    config_type_of(name)
    path = stage_files()[name]
    tree = ast.parse(path.read_text("utf-8"), str(path))
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    constants = {
        node.targets[0].id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and isinstance(node.value, ast.Constant)
    }
    run, version = functions.get("run"), constants.get("VERSION")
    positional = [one.arg for one in run.args.args] if run else []
    if run is None or positional[:1] != ["config"] or [one.arg for one in run.args.kwonlyargs] != ["out"]:
        raise ConfigError(f"{path} must define run(config, <inputs>, *, out)")
    defaults = [ast.unparse(one) for one in run.args.defaults]
    if set(defaults) - {"None"}:
        raise ConfigError(f"{path}: an input that may be left out has the default None (got {', '.join(defaults)})")
    if not isinstance(version, int):
        raise ConfigError(f"{path} must define VERSION = <whole number>")
    return Signature(
        name=name,
        version=version,
        inputs=tuple(positional[1:]),
        optional=tuple(positional[len(positional) - len(defaults) :]),
        has_fingerprint=path.with_name("fingerprint.py").is_file(),
        cached=constants.get("CACHED", True) is not False,
    )


def fingerprint(name: str, config: Config) -> dict[str, Any] | None:
    """What a stage sees outside the store; None for a stage that does not look there."""
    if not signature_of(name).has_fingerprint:
        return None
    seen: dict[str, Any] = importlib.import_module(f"tasks.{name}.fingerprint").fingerprint(config)
    return seen


def outside_bytes(name: str, config: Config) -> int:
    """How much a stage reads outside the store, by ``size_bytes(config)`` of its ``fingerprint.py``; 0 without one."""
    if not signature_of(name).has_fingerprint:
        return 0
    size_bytes = getattr(importlib.import_module(f"tasks.{name}.fingerprint"), "size_bytes", None)
    return int(size_bytes(config)) if size_bytes else 0


def load(name: str) -> ModuleType:
    """Import a stage's module, with its ``run``.

    Raises:
        ConfigError: when there is no such stage.
    """
    config_type_of(name)
    return importlib.import_module(f"tasks.{name}.stage")
