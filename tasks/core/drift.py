"""Which first-party source makes a stage's artifact, and whether it has changed since.

``VERSION`` is what a person promises; drift is the witness. The source of a stage is its ``stage.py``, ``config.py``
and ``fingerprint.py`` and every module of ours that these import, directly or not, at the top or inside a function; a
text like ``"tasks.train.worker:pretrain"`` counts as an import, because a launcher will make it one. All of it is read
from the files, so nothing is imported to know it.

Comments, docstrings and formatting decide nothing: what is digested is the syntax tree without them.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import tasks

OnDrift = Literal["warn", "rerun", "fail"]
OWN_MODULES = ("stage", "config", "fingerprint")
DIGEST_CHARS = 16
MAX_TOLD = 4
"""Files named in one line; a new release may well change dozens."""
_MODULE = re.compile(r"(tasks(?:\.\w+)+)(?::\w+)?")


def source_of(stage: str) -> dict[str, str]:
    """Digest of every module that makes a stage's artifact, by the module's name."""
    front = [name for own in OWN_MODULES if file_of(name := f"tasks.{stage}.{own}") is not None]
    found: dict[str, str] = {}
    while front:
        name = front.pop()
        if name not in found:
            found[name], imported = _read(name)
            front += imported
    return dict(sorted(found.items()))


def drift(stage: str, recorded: Mapping[str, str]) -> list[str]:
    """The files whose code is not what made an artifact: changed, new or gone since; empty when nothing drifted."""
    now = source_of(stage)
    return [path_of(name) for name in sorted({*recorded, *now}) if recorded.get(name) != now.get(name)]


def told(files: Sequence[str]) -> str:
    """The first few of the files that drifted, and how many more there are."""
    return ", ".join(files[:MAX_TOLD]) + (f" and {len(files) - MAX_TOLD} more files" if len(files) > MAX_TOLD else "")


def path_of(module: str) -> str:
    """A module's file as people name it: ``tasks/dedup/minhash.py``."""
    return module.replace(".", "/") + ".py"


def file_of(module: str) -> Path | None:
    """The file of a module of ours; None when there is no such module, or it is a package without code of its own."""
    parts = module.split(".")[1:]
    for root in map(Path, tasks.__path__):
        for path in (root.joinpath(*parts).with_suffix(".py"), root.joinpath(*parts, "__init__.py")):
            if path.is_file():
                return path
    return None


@cache
def _read(module: str) -> tuple[str, tuple[str, ...]]:
    """Digest of a module's code, and the modules of ours that it imports."""
    path = file_of(module)
    assert path is not None
    tree = ast.parse(path.read_text("utf-8"), str(path))
    imported = tuple(sorted({name for name in _imports(tree) if file_of(name) is not None}))
    digest = hashlib.sha256(ast.dump(_without_docstrings(tree)).encode()).hexdigest()[:DIGEST_CHARS]
    return digest, imported


def _imports(tree: ast.AST) -> Iterator[str]:
    """Names that may be modules of ours: a name imported from a package may be one, or something inside it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.startswith("tasks."))
        elif isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "tasks":
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Constant) and (told := _MODULE.fullmatch(str(node.value))):
            yield told[1]


def _without_docstrings(tree: ast.Module) -> ast.Module:
    """The tree without the texts that stand alone as statements: docstrings, and the help below an attribute."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not _is_text(one)]
    return tree


def _is_text(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )
