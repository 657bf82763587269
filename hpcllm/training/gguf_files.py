"""Write GGUF files from trained weights: a whole model, or an adapter for loading at run time.

Role: export. Metadata, tokenizer and chat template come from the base's GGUF file, and so do
tensors that PyTorch checkpoints do not have, such as the frequency factors of Llama 3.1.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError
from hpcllm.models.adapters import PROJECTIONS, heads_of, permute_rows, read_adapter
from hpcllm.models.gguf import open_gguf, write_gguf

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

FREQUENCY_TENSOR = "rope_freqs.weight"
"""Without it a Llama 3.1 file answers wrongly after some hundred tokens."""

_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_NORMS = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
}
_INNER = {short: long for long, short in PROJECTIONS.items()} | _NORMS
_BLOCK = re.compile(r"^blk\.(\d+)\.([a-z_]+)\.(weight|bias)$")


def checkpoint_name(tensor: str) -> str | None:
    """Return the name in PyTorch checkpoints of a tensor of a GGUF file; None where it has none."""
    if tensor in _OUTER:
        return _OUTER[tensor]
    match = _BLOCK.match(tensor)
    if not match or match.group(2) not in _INNER:
        return None
    return f"model.layers.{match.group(1)}.{_INNER[match.group(2)]}.{match.group(3)}"


def write_model(
    weights: Mapping[str, Any], base: Path, target: Path, type_name: str, *, rope_type: str = ""
) -> None:
    """Write a whole model.

    Args:
        weights: arrays by their name in PyTorch checkpoints, anything numpy reads as float32.
        base: GGUF file of the base.
        target: file to write; it appears complete or not at all.
        type_name: type of the weight matrices.
        rope_type: ``llama3`` demands the base's frequency factors.

    Raises:
        TrainingError: the base lacks the frequency factors, or weights that it has are missing or
            of another shape.
        ModelError: as :func:`~hpcllm.models.gguf.requantise`.
    """
    import numpy as np

    reader = open_gguf(base)
    heads = heads_of(reader)
    names = {tensor.name for tensor in reader.tensors}
    if rope_type == "llama3" and FREQUENCY_TENSOR not in names:
        raise TrainingError(
            f"{base} has no tensor {FREQUENCY_TENSOR}, which a Llama 3.1 model needs past some "
            "hundred tokens: use a GGUF file of the same base that has it"
        )
    tied = "lm_head.weight" not in weights

    def replacement(tensor: Any) -> Any:
        name = checkpoint_name(tensor.name)
        if tensor.name == "output.weight" and tied:
            name = _OUTER["token_embd.weight"]
        if name is None:
            return None
        if name not in weights:
            raise TrainingError(f"the trained model has no {name}, which {base.name} has")
        values = np.asarray(weights[name], dtype=np.float32)
        shape = tuple(int(n) for n in reversed(tensor.shape))
        if values.shape != shape:
            raise TrainingError(
                f"{name} has shape {values.shape}, {base.name} has {shape}: another base"
            )
        kind = tensor.name.split(".")[2] if tensor.name.startswith("blk.") else ""
        if kind in heads:
            columns = values.reshape(len(values), -1)
            values = permute_rows(columns, heads[kind]).reshape(shape)
        return values

    write_gguf(reader, target, type_name, change=replacement)


def write_adapter(folder: Path, base: Path, target: Path) -> None:
    """Write an adapter for loading at run time beside any GGUF file of its base.

    Args:
        folder: the adapter's folder.
        base: GGUF file of the base: names the architecture and the order of rows.
        target: file to write.

    Raises:
        ModelError: the adapter cannot be read or is no plain LoRA.
    """
    import gguf
    import numpy as np

    adapter = read_adapter(folder)
    reader = open_gguf(base)
    heads = heads_of(reader)
    writer = gguf.GGUFWriter(target, reader.get_field("general.architecture").contents())
    try:
        writer.add_string("general.type", "adapter")
        writer.add_string("adapter.type", "lora")
        writer.add_float32("adapter.lora.alpha", adapter.scale * adapter.rank)
        writer.add_file_type(1)
        for name, (a, b) in adapter.pairs.items():
            kind = name.split(".")[2]
            rows = permute_rows(b, heads[kind]) if kind in heads else b
            writer.add_tensor(f"{name}.lora_a", np.ascontiguousarray(a, dtype=np.float16))
            writer.add_tensor(f"{name}.lora_b", np.ascontiguousarray(rows, dtype=np.float16))
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()
