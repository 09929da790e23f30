"""The ONNX graph of a model, with inputs and outputs for the key-value cache."""

from __future__ import annotations

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import onnx
from optimum.exporters.onnx import main_export

TASK = "text-generation-with-past"


def export(model: Path, target: Path) -> None:
    """Write ``target/model.onnx`` (fp32), where ``target`` is a new folder.

    The exporter's own validation is left out: the contracts of this stage compare far more. A doc string can hold the
    line of source that made a node, with the machine's path; all are removed, so that equal models give equal bytes.
    """
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name, quiet():
        main_export(str(model), name, task=TASK, local_files_only=True, do_validation=False, dtype="fp32", device="cpu")
        graph = onnx.load(Path(name) / "model.onnx")
    for described in (graph, graph.graph, *graph.graph.node):
        described.ClearField("doc_string")
    save(graph, target / "model.onnx")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep the libraries' warnings off the log: tracing warns of every Python branch on a tensor, and whether one
    mattered is what the parity contract shows."""
    loggers = [logging.getLogger(name) for name in ("transformers", "optimum")]
    levels = [one.level for one in loggers]
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels, strict=True):
            one.setLevel(level)


def save(graph: onnx.ModelProto, path: Path) -> None:
    """Write a graph; weights go to a file beside it when both together pass protobuf's 2 GB."""
    large = graph.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF - (1 << 20)
    onnx.save(graph, path, save_as_external_data=large, location=f"{path.name}_data" if large else None)


def weight_bytes(folder: Path) -> int:
    """Bytes of a variant on disk: the graph and, where there is one, the file of weights beside it."""
    return sum(one.stat().st_size for one in folder.iterdir())
