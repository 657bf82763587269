"""Merge a LoRA adapter into a model file with numpy alone: GGUF here, ONNX in ``onnx_weights``.

Role: makes the model that is served from the base that was fetched and the adapter that ships, so
that neither torch nor a second download is needed. Hu et al. 2021, https://arxiv.org/abs/2106.09685,
section 4.1: the merged weight is W + (alpha / r) B A.

GGUF files of the ``llama`` architecture store the rows of the query and key projections in another
order than PyTorch checkpoints do; the increment is put into that order before it is added.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError
from hpcllm.models.gguf import dequantised, open_gguf, write_gguf

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    Values = NDArray[np.float32]

CONFIG_FILE = "adapter_config.json"
WEIGHTS_FILE = "adapter_model.safetensors"
ONNX_SUFFIX = ".onnx"
STORED_TYPES = {"F16": "<f2", "F32": "<f4"}
"""Types of an adapter's arrays, and numpy's names of them."""

PROJECTIONS = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
"""Projections of a layer in PyTorch checkpoints, and in GGUF files."""
PERMUTED = {"attn_q": "head_count", "attn_k": "head_count_kv"}
"""Projections whose rows are in another order, and the field that holds their number of heads."""

_NAME = re.compile(r"layers\.(\d+)\.([a-z_]+\.[a-z_]+)\.lora_([AB])(?:\.default)?\.weight$")


@dataclass(frozen=True, slots=True)
class Adapter:
    """A LoRA adapter as read from its folder.

    Attributes:
        pairs: by GGUF tensor name A (rank, inputs) and B (outputs, rank), float32, PyTorch order.
        scale: factor of B A.
        rank: rank of the increments.
    """

    pairs: Mapping[str, tuple[Values, Values]]
    scale: float
    rank: int


def read_adapter(folder: Path) -> Adapter:
    """Read an adapter in the form that ``peft`` saves.

    Args:
        folder: holds ``adapter_config.json`` and ``adapter_model.safetensors``.

    Raises:
        ModelError: files are absent or damaged, or the adapter is of a kind that cannot be merged
            here (rank-stabilised, weight-decomposed, further trained modules).
    """
    config = read_config(folder)
    rank = int(config["r"])
    pairs = _pairs(read_tensors(folder), folder)
    return Adapter(pairs, float(config["lora_alpha"]) / rank, rank)


def read_tensors(folder: Path, name: str = WEIGHTS_FILE) -> dict[str, Any]:
    """Return an adapter's arrays by name, as they are stored.

    Read here and not with the ``safetensors`` package, which is an extra: the file is the length
    of a JSON header in eight bytes, the header, and the arrays
    (https://github.com/huggingface/safetensors#format).

    Raises:
        ModelError: the file is absent, damaged, or of other types than float16 and float32.
    """
    path = folder / name
    try:
        content = path.read_bytes()
        start = 8 + int.from_bytes(content[:8], "little")
        header = json.loads(content[8:start])
        header.pop("__metadata__", None)
        return {name: _array(content, start, described) for name, described in header.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as exc:
        raise ModelError(f"{path} cannot be read ({exc}): put the adapter there again") from exc


def _array(content: bytes, start: int, described: Mapping[str, Any]) -> Any:
    import numpy as np

    kind, shape = described["dtype"], tuple(described["shape"])
    begin, end = described["data_offsets"]
    if kind not in STORED_TYPES:
        raise ValueError(f"arrays of type {kind}, expected {' or '.join(STORED_TYPES)}")
    stored = np.dtype(STORED_TYPES[kind])
    if end - begin != stored.itemsize * math.prod(shape) or start + end > len(content):
        raise ValueError(f"an array of shape {shape} is incomplete")
    return np.frombuffer(content, stored, math.prod(shape), start + begin).reshape(shape)


def read_config(folder: Path) -> dict[str, Any]:
    """Return an adapter's settings, among them ``r`` and ``lora_alpha``.

    Raises:
        ModelError: the file is absent or damaged, or the adapter is of a kind that cannot be
            merged here.
    """
    path = folder / CONFIG_FILE
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ModelError(f"{path} cannot be read ({exc}): expected an adapter's folder") from exc
    refused = [name for name in ("use_rslora", "use_dora", "modules_to_save") if config.get(name)]
    if refused or config.get("peft_type") != "LORA" or config.get("bias", "none") != "none":
        raise ModelError(
            f"{path.parent} is no plain LoRA adapter ({', '.join(refused) or 'type or bias'}): "
            "only r, lora_alpha and linear layers can be merged"
        )
    return dict(config)


def _pairs(tensors: Mapping[str, Any], folder: Path) -> dict[str, tuple[Values, Values]]:
    import numpy as np

    halves: dict[str, dict[str, Values]] = {}
    for name, values in tensors.items():
        match = _NAME.search(name)
        if not match or match.group(2) not in PROJECTIONS:
            raise ModelError(f"{folder} adapts {name}, which is no projection of a layer")
        target = f"blk.{match.group(1)}.{PROJECTIONS[match.group(2)]}.weight"
        halves.setdefault(target, {})[match.group(3)] = values.astype(np.float32)
    incomplete = [name for name, pair in halves.items() if len(pair) < 2]
    if incomplete or not halves:
        raise ModelError(f"{folder} is incomplete: A or B is missing for {incomplete or 'all'}")
    return {name: (pair["A"], pair["B"]) for name, pair in halves.items()}


def merge_adapter(
    source: Path,
    folder: Path,
    target: Path,
    type_name: str,
    *,
    progress: Callable[[int, int, str], None] | None = None,
) -> None:
    """Write ``source`` with an adapter merged in to ``target``.

    Args:
        source: GGUF file of the base, or ONNX file of an encoder.
        folder: the adapter's folder.
        target: the file to write; it appears complete or not at all.
        type_name: type of the weight matrices, as for :func:`~hpcllm.models.gguf.requantise`;
            ``int8`` for ONNX.
        progress: called with tensors done, tensors in all, and the target's name.

    Raises:
        ModelError: the adapter cannot be read or does not fit the base, or as ``requantise``.
    """
    if source.suffix == ONNX_SUFFIX:
        from hpcllm.models.onnx_weights import merge_into_onnx

        merge_into_onnx(source, folder, target, type_name, progress=progress)
        return
    adapter = read_adapter(folder)
    reader = open_gguf(source)
    increments = increments_for(adapter, reader, folder)

    def change(tensor: Any) -> Any:
        increment = increments.get(tensor.name)
        return None if increment is None else dequantised(tensor) + increment()

    write_gguf(reader, target, type_name, change=change, progress=progress)


def increments_for(adapter: Adapter, reader: Any, folder: Path) -> dict[str, Callable[[], Values]]:
    """Return by tensor name a function that computes what is added to it, in GGUF order.

    Raises:
        ModelError: the base lacks a tensor that the adapter has, or its shape differs.
    """
    shapes = {t.name: tuple(int(n) for n in reversed(t.shape)) for t in reader.tensors}
    heads = heads_of(reader)
    for name, (a, b) in adapter.pairs.items():
        expected = (b.shape[0], a.shape[1])
        if shapes.get(name) != expected:
            raise ModelError(
                f"adapter {folder} does not fit the base: {name} is {shapes.get(name)} there, the "
                f"adapter was trained on {expected}. It belongs to another model"
            )
    return {
        name: _increment(name, pair, adapter.scale, heads) for name, pair in adapter.pairs.items()
    }


def _increment(
    name: str, pair: tuple[Values, Values], scale: float, heads: Mapping[str, int]
) -> Callable[[], Values]:
    def compute() -> Values:
        a, b = pair
        kind = name.split(".")[2]
        rows = permute_rows(b, heads[kind]) if kind in heads else b  # (outputs, rank)
        return scale * (rows @ a)  # (outputs, inputs)

    return compute


def heads_of(reader: Any) -> dict[str, int]:
    """Return the heads of the projections whose rows a GGUF file stores in another order."""
    architecture = reader.get_field("general.architecture").contents()
    if architecture != "llama":
        return {}
    return {
        kind: int(reader.get_field(f"llama.attention.{field}").contents())
        for kind, field in PERMUTED.items()
    }


def permute_rows(values: Values, heads: int) -> Values:
    """Return rows of a query or key projection in the order of GGUF files.

    Args:
        values: (rows, columns) in PyTorch order; within a head the halves of the rotated pairs
            stand one after the other.
        heads: number of heads.

    Returns:
        (rows, columns) with the pairs side by side.
    """
    rows, columns = values.shape
    split = values.reshape(heads, 2, rows // heads // 2, columns)
    result: Values = split.swapaxes(1, 2).reshape(rows, columns)
    return result
