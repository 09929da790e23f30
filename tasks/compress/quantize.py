"""INT8 by dynamic quantisation: weights are rounded once, activations at run time with a scale of their own.

Only products with a weight are quantised, and the embedding's lookup. optimum's default also takes products of two
activations: attention scores, and in rotary embeddings the product of frequency and position, whose rounding moves
every token.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnxruntime.quantization import QuantFormat, QuantizationMode, QuantType
from optimum.onnxruntime import ORTQuantizer
from optimum.onnxruntime.configuration import QuantizationConfig

from tasks.compress.export import quiet, save

PRODUCTS = ("MatMul", "Gemm")
INTEGER_PRODUCTS = ("MatMulInteger", "QLinearMatMul", "QGemm", "MatMulNBits", "DynamicQuantizeMatMul")
WEIGHT_TYPE = {"uint8": QuantType.QUInt8, "int8": QuantType.QInt8}


@dataclass(frozen=True)
class Weighted:
    """Names of the nodes of a graph that read a matrix of weights."""

    products: list[str]
    lookups: list[str]


def weighted_nodes(graph: onnx.GraphProto) -> Weighted:
    """Nodes that multiply by a constant matrix or look up its rows."""
    matrices = {one.name for one in graph.initializer if len(one.dims) == 2}
    return Weighted(
        products=[node.name for node in graph.node if node.op_type in PRODUCTS and node.input[1] in matrices],
        lookups=[node.name for node in graph.node if node.op_type == "Gather" and node.input[0] in matrices],
    )


def quantize(source: Path, target: Path, *, weights: str, per_channel: bool) -> None:
    """Write ``target/model.onnx``, the INT8 form of ``source/model.onnx``; ``target`` is a new folder."""
    nodes = weighted_nodes(onnx.load(source / "model.onnx", load_external_data=False).graph)
    config = QuantizationConfig(
        is_static=False,
        format=QuantFormat.QOperator,
        mode=QuantizationMode.IntegerOps,
        activations_dtype=QuantType.QUInt8,
        weights_dtype=WEIGHT_TYPE[weights],
        per_channel=per_channel,
        operators_to_quantize=[*PRODUCTS, "Gather"],
        nodes_to_quantize=[*nodes.products, *nodes.lookups],
    )
    target.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as name, quiet():
        quantizer = ORTQuantizer(source / "model.onnx", None)
        quantizer.quantize(save_dir=name, quantization_config=config, file_suffix="")
        graph = onnx.load(Path(name) / "model.onnx")
    save(graph, target / "model.onnx")


def count_integer_products(path: Path) -> int:
    """Integer multiplications by a weight in a quantised graph."""
    graph = onnx.load(path, load_external_data=False).graph
    weights = {one.name for one in graph.initializer if len(one.dims) == 2}
    return sum(node.op_type in INTEGER_PRODUCTS and any(one in weights for one in node.input) for node in graph.node)
