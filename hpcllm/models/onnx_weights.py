"""Merge a LoRA adapter into the int8 weights of an ONNX encoder with numpy alone.

Role: makes the encoder that reads questions from the one that reads passages and the adapter that
ships. Only the bytes of the adapted matrices and of their scales change, so the file keeps its
length, its graph and its speed, and neither torch nor the ``onnx`` package is needed.

An int8 file of the catalog stores a matrix as int8 values and one float32 scale a column, and the
graph multiplies the two: ``Cast(values) * scale``. Which matrix belongs to which layer is read off
the graph: it is the factor of the product to which the layer's bias is added. The format of the
file: https://onnx.ai/onnx/repo-docs/IR.html and, for its bytes,
https://protobuf.dev/programming-guides/encoding/.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float64]
    Span = tuple[int, int]
    Pairs = Mapping[str, tuple[Values, Values]]

TYPE_NAME = "int8"
"""The one type of weights that is written."""
LARGEST = 127
"""Magnitude of the largest int8 value that is used."""

VARINT, LENGTH_DELIMITED, FIXED_BYTES = 0, 2, {1: 8, 5: 4}
"""Wire types of protobuf; the fixed ones with their length."""
MODEL_GRAPH, GRAPH_NODE, GRAPH_INITIALIZER = 7, 1, 5
NODE_INPUT, NODE_OUTPUT, NODE_OPERATOR = 1, 2, 4
TENSOR_DIMENSION, TENSOR_NAME, TENSOR_DATA = 1, 8, 9
"""Numbers of fields in ``onnx.proto``."""

_NAME = re.compile(r"(encoder\.layer\.\d+\.[a-z_.]+)\.lora_([AB])(?:\.default)?\.weight$")


@dataclass(frozen=True, slots=True)
class Matrix:
    """Where a quantised matrix lies in the file.

    Attributes:
        shape: inputs and outputs of the layer, in the order stored.
        values: start and end of its int8 values, row by row.
        scales: start and end of its float32 scales, one a column.
    """

    shape: tuple[int, int]
    values: Span
    scales: Span


@dataclass(frozen=True, slots=True)
class _Node:
    operator: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(slots=True)
class _Graph:
    """What is needed of a graph: nodes, and initialisers as shape and place of their bytes."""

    nodes: list[_Node] = field(default_factory=list)
    tensors: dict[str, tuple[tuple[int, ...], Span]] = field(default_factory=dict)


def merge_into_onnx(
    source: Path,
    folder: Path,
    target: Path,
    type_name: str,
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write ``source`` with an adapter merged in to ``target``.

    The result is the same to the byte on every machine: sums are taken in float64 and only what is
    stored is rounded.

    Args:
        source: ONNX file of the base, with int8 weights.
        folder: the adapter's folder, in the form that ``peft`` saves.
        target: the file to write; it appears complete or not at all.
        type_name: ``int8``.
        progress: called with matrices done, matrices in all, and the target's name.

    Raises:
        ModelError: the adapter cannot be read or does not fit the base, the base is damaged, or
            ``target`` cannot be written.
    """
    if type_name != TYPE_NAME:
        raise ModelError(
            f"cannot write ONNX weights of type {type_name!r}: the known type is {TYPE_NAME}"
        )
    pairs, scale = _read_pairs(folder)
    content = bytearray(_read(source))
    matrices = quantised_matrices(bytes(content), source)
    for number, (name, (a, b)) in enumerate(sorted(pairs.items()), 1):
        expected = (a.shape[1], b.shape[0])
        matrix = matrices.get(name)
        if matrix is None or matrix.shape != expected:
            raise ModelError(
                f"adapter {folder} does not fit {source}: {name} is "
                f"{matrix.shape if matrix else 'no int8 matrix'} there, the adapter was trained on "
                f"{expected}. It belongs to another model"
            )
        _add(content, matrix, scale * (b @ a).T)
        if progress:
            progress(number, len(pairs), target.name)
    _write(target, content)


def _read_pairs(folder: Path) -> tuple[Pairs, float]:
    """Return A (rank, inputs) and B (outputs, rank) by layer, and the factor of B A."""
    import numpy as np

    from hpcllm.models.adapters import read_config, read_tensors

    config = read_config(folder)
    halves: dict[str, dict[str, Values]] = {}
    for name, values in read_tensors(folder).items():
        match = _NAME.search(name)
        if not match:
            raise ModelError(f"{folder} adapts {name}, which is no layer of an encoder")
        halves.setdefault(match[1], {})[match[2]] = values.astype(np.float64)
    incomplete = [name for name, pair in halves.items() if len(pair) < 2]
    if incomplete or not halves:
        raise ModelError(f"{folder} is incomplete: A or B is missing for {incomplete or 'all'}")
    pairs = {name: (pair["A"], pair["B"]) for name, pair in halves.items()}
    return pairs, float(config["lora_alpha"]) / int(config["r"])


def _add(content: bytearray, matrix: Matrix, increment: Values) -> None:
    """Add to a matrix (inputs, outputs) in place and give each column the scale it then needs."""
    import numpy as np

    stored = np.frombuffer(content, np.int8, matrix.shape[0] * matrix.shape[1], matrix.values[0])
    scales = np.frombuffer(content, "<f4", matrix.shape[1], matrix.scales[0])
    changed = stored.reshape(matrix.shape) * scales.astype(np.float64) + increment
    largest = np.abs(changed).max(axis=0)  # (outputs,)
    new_scales = np.where(largest > 0, largest / LARGEST, 1).astype("<f4")
    rounded = np.rint(changed / new_scales.astype(np.float64)).clip(-LARGEST, LARGEST)
    del stored, scales  # views, during whose life the buffer may not be resized
    content[slice(*matrix.values)] = rounded.astype(np.int8).tobytes()
    content[slice(*matrix.scales)] = new_scales.tobytes()


def quantised_matrices(content: bytes, source: Path) -> dict[str, Matrix]:
    """Return by layer, such as ``encoder.layer.0.intermediate.dense``, where its matrix lies.

    Args:
        content: an ONNX file.
        source: named in errors.

    Raises:
        ModelError: it is damaged or no ONNX file.
    """
    try:
        graph = _read_graph(content)
    except (IndexError, ValueError, UnicodeDecodeError) as exc:
        raise ModelError(f"{source} is no complete ONNX file ({exc}): fetch it again") from exc
    maker = {output: node for node in graph.nodes for output in node.outputs}
    found = {}
    for node in graph.nodes:
        bias = next((name for name in node.inputs if name.endswith(".bias")), "")
        layer = re.search(r"encoder\.layer\.\d+\..*(?=\.bias$)", bias)
        if node.operator == "Add" and layer:
            product = next((maker[n] for n in node.inputs if n != bias and n in maker), None)
            matrix = _matrix_of(product, maker, graph) if product else None
            if matrix:
                found[layer[0]] = matrix
    return found


def _matrix_of(product: _Node, maker: Mapping[str, _Node], graph: _Graph) -> Matrix | None:
    """Follow ``MatMul(x, Mul(Cast(values), scales))`` back to the values and the scales."""
    scaled = maker.get(product.inputs[-1]) if product.operator == "MatMul" else None
    if scaled is None or scaled.operator != "Mul":
        return None
    cast = maker.get(scaled.inputs[0])
    if cast is None or cast.operator != "Cast":
        return None
    shape, values = graph.tensors.get(cast.inputs[0], ((), (0, 0)))
    _, scales = graph.tensors.get(scaled.inputs[1], ((), (0, 0)))
    if len(shape) != 2 or values[1] - values[0] != shape[0] * shape[1]:
        return None
    if scales[1] - scales[0] != 4 * shape[1]:
        return None
    return Matrix((shape[0], shape[1]), values, scales)


# Bytes -------------------------------------------------------------------------------------------


def _read_graph(content: bytes) -> _Graph:
    graph = _Graph()
    whole = (0, len(content))
    place = dict(_fields(content, whole)).get(MODEL_GRAPH)  # reads to the end: nothing may lack
    if not isinstance(place, tuple):
        raise ValueError("it has no graph")
    for number, value in _fields(content, place):
        if number == GRAPH_NODE and isinstance(value, tuple):
            graph.nodes.append(_read_node(content, value))
        elif number == GRAPH_INITIALIZER and isinstance(value, tuple):
            name, shape, data = _read_tensor(content, value)
            graph.tensors[name] = (shape, data)
    return graph


def _read_node(content: bytes, place: Span) -> _Node:
    texts: dict[int, list[str]] = {NODE_INPUT: [], NODE_OUTPUT: [], NODE_OPERATOR: []}
    for number, value in _fields(content, place):
        if number in texts and isinstance(value, tuple):
            texts[number].append(content[slice(*value)].decode())
    operator = "".join(texts[NODE_OPERATOR])
    return _Node(operator, tuple(texts[NODE_INPUT]), tuple(texts[NODE_OUTPUT]))


def _read_tensor(content: bytes, place: Span) -> tuple[str, tuple[int, ...], Span]:
    shape: list[int] = []
    name, data = "", (0, 0)
    for number, value in _fields(content, place):
        if number == TENSOR_DIMENSION:
            shape += _numbers(content, value)
        elif number == TENSOR_NAME and isinstance(value, tuple):
            name = content[slice(*value)].decode()
        elif number == TENSOR_DATA and isinstance(value, tuple):
            data = value
    return name, tuple(shape), data


def _numbers(content: bytes, value: int | Span) -> Iterator[int]:
    """Yield one number, or several that stand packed together."""
    if isinstance(value, int):
        yield value
        return
    at = value[0]
    while at < value[1]:
        number, at = _varint(content, at)
        yield number


def _fields(content: bytes, place: Span) -> Iterator[tuple[int, int | Span]]:
    """Yield number and value of each field: an integer, or the place of its bytes."""
    at, end = place
    while at < end:
        tag, at = _varint(content, at)
        number, wire = tag >> 3, tag & 7
        if wire == VARINT:
            value, at = _varint(content, at)
            yield number, value
            continue
        if wire == LENGTH_DELIMITED:
            size, at = _varint(content, at)
        elif wire in FIXED_BYTES:
            size = FIXED_BYTES[wire]
        else:
            raise ValueError(f"byte {at} is of no known type")
        if at + size > end:
            raise ValueError(f"it ends within a field of {size} bytes at byte {at}")
        yield number, (at, at + size)
        at += size


def _varint(content: bytes, at: int) -> tuple[int, int]:
    """Return the integer of variable length at a place, and the place after it."""
    number = shift = 0
    while True:
        byte = content[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as exc:
        raise ModelError(f"{path} does not exist") from exc


def _write(target: Path, content: Any) -> None:
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        os.replace(partial, target)
    except OSError as exc:
        raise ModelError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        partial.unlink(missing_ok=True)
