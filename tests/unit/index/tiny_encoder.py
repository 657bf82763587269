"""A tiny ONNX encoder with int8 weights, written byte by byte: small enough for a unit test.

Its graph is that of the catalog's int8 files, cut down to one layer: rows of an embedding table,
times a matrix, plus a bias.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

LAYER = "encoder.layer.0.attention.self.query"
WORDS = ("[UNK]", "disk", "quota", "queue", "job", "home", "the", "is")
INPUTS, OUTPUTS, RANK, ALPHA = 5, 4, 2, 6
"""More inputs than outputs, so that a transposed matrix cannot pass."""
FLOAT, INT8, INT64 = 1, 3, 7


def varint(number: int) -> bytes:
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def number_field(field: int, number: int) -> bytes:
    return varint(field << 3) + varint(number)


def bytes_field(field: int, *contents: bytes | str) -> bytes:
    joined = b"".join(c.encode() if isinstance(c, str) else c for c in contents)
    return varint(field << 3 | 2) + varint(len(joined)) + joined


def tensor(name: str, values: np.ndarray) -> bytes:
    kind = {np.dtype("f4"): FLOAT, np.dtype("i1"): INT8}[values.dtype]
    dimensions = b"".join(number_field(1, size) for size in values.shape)
    return (
        dimensions + number_field(2, kind) + bytes_field(8, name) + bytes_field(9, values.tobytes())
    )


def node(operator: str, inputs: Sequence[str], output: str, attribute: bytes = b"") -> bytes:
    names = b"".join(bytes_field(1, name) for name in inputs)
    more = bytes_field(5, attribute) if attribute else b""
    return bytes_field(1, names, bytes_field(2, output), bytes_field(4, operator), more)


def value(field: int, name: str, kind: int, *dimensions: str | int) -> bytes:
    shape = b"".join(
        bytes_field(1, bytes_field(2, d) if isinstance(d, str) else number_field(1, d))
        for d in dimensions
    )
    typed = bytes_field(1, number_field(1, kind), bytes_field(2, shape))
    return bytes_field(field, bytes_field(1, name), bytes_field(2, typed))


def unpacked(name: str) -> bytes:
    """Nodes that turn int8 values and scales into ``name``."""
    to_float = bytes_field(1, "to") + number_field(3, FLOAT) + number_field(20, 2)
    cast = node("Cast", [f"{name}_q"], f"{name}_f", to_float)
    return cast + node("Mul", [f"{name}_f", f"{name}_scale"], name)


def stored_matrix() -> tuple[np.ndarray, np.ndarray]:
    """Return the int8 values (inputs, outputs) and scales (1, outputs) of the layer."""
    random = np.random.default_rng(3)
    values = random.integers(-127, 128, (INPUTS, OUTPUTS)).astype(np.int8)
    return values, np.full((1, OUTPUTS), 0.01, dtype=np.float32)


def encoder_bytes(*, layer: str = LAYER, outputs: int = OUTPUTS) -> bytes:
    """Return the file; ``outputs`` other than the default makes one of another dimension."""
    random = np.random.default_rng(4)
    table = random.integers(-127, 128, (len(WORDS), INPUTS)).astype(np.int8)
    values, scales = stored_matrix()
    bias = f"inner.{layer}.bias"
    tensors = {
        "table_q": table,
        "table_scale": np.full((len(WORDS), 1), 0.01, dtype=np.float32),
        "w_q": values[:, :outputs].copy(),
        "w_scale": scales[:, :outputs].copy(),
        bias: np.zeros(outputs, dtype=np.float32),
    }
    nodes = unpacked("table") + unpacked("w") + node("Gather", ["table", "input_ids"], "rows")
    nodes += node("MatMul", ["rows", "w"], "product") + node("Add", ["product", bias], "hidden")
    graph = nodes + bytes_field(2, "tiny")
    graph += b"".join(bytes_field(5, tensor(name, array)) for name, array in tensors.items())
    for name in ("input_ids", "attention_mask"):
        graph += value(11, name, INT64, "batch", "tokens")
    graph += value(12, "hidden", FLOAT, "batch", "tokens", outputs)
    return number_field(1, 8) + bytes_field(7, graph) + bytes_field(8, number_field(2, 13))


def write_encoder(folder: Path, *, name: str = "model.onnx") -> Path:
    """Write the encoder and a tokenizer of whole words; return the encoder's path."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token=WORDS[0]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / name).write_bytes(encoder_bytes())
    return folder / name


def adapter_arrays() -> tuple[np.ndarray, np.ndarray]:
    """Return A (rank, inputs) and B (outputs, rank)."""
    random = np.random.default_rng(5)
    a = random.standard_normal((RANK, INPUTS)).astype(np.float16)
    return a, random.standard_normal((OUTPUTS, RANK)).astype(np.float16)


def write_adapter(folder: Path, *, layer: str = LAYER, halves: str = "AB") -> Path:
    """Write an adapter of the layer in the form that peft saves; return its folder."""
    arrays = dict(zip("AB", adapter_arrays(), strict=True))
    header, content = {}, b""
    for half in halves:
        start, content = len(content), content + arrays[half].tobytes()
        header[f"base_model.model.{layer}.lora_{half}.weight"] = {
            "dtype": "F16",
            "shape": arrays[half].shape,
            "data_offsets": [start, len(content)],
        }
    text = json.dumps(header).encode()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "adapter_model.safetensors").write_bytes(
        len(text).to_bytes(8, "little") + text + content
    )
    settings = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none"}
    (folder / "adapter_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder
