"""Rewrite GGUF model files with another weight type.

Role: makes the file that is served from the one that was fetched. Metadata, tokenizer and chat
template are copied as they are.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Change = Callable[[Any], Any]
    Progress = Callable[[int, int, str], None]

logger = logging.getLogger(__name__)

TARGET_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7}
"""Weight types that :func:`requantise` writes, with their ``general.file_type`` number."""

FOUR_BIT = frozenset({"Q4_0", "Q4_1"})
EIGHT_BIT_TENSORS = frozenset({"token_embd.weight", "output.weight"})
"""Tensors that keep eight bits in a four-bit file."""

_OWN_FIELDS = ("GGUF.", "general.architecture", "general.file_type", "general.quantization_version")
"""Metadata that the writer sets itself."""


def requantise(
    source: Path,
    target: Path,
    type_name: str,
    *,
    progress: Progress | None = None,
) -> None:
    """Write ``source`` to ``target`` with all weight matrices as ``type_name``.

    Vectors (norms, biases) stay 32-bit floats. The result depends on the content of ``source``
    alone: the same input gives the same bytes.

    Args:
        source: a GGUF file.
        target: the file to write; it appears complete or not at all.
        type_name: one of :data:`TARGET_TYPES`.
        progress: called with tensors done, tensors in all, and the target's name.

    Raises:
        ModelError: the type is not known, the source is no GGUF file or has a shape that the type
            cannot hold, or the target cannot be written.
    """
    _check_type(type_name)
    write_gguf(open_gguf(source), target, type_name, progress=progress)


def write_gguf(
    reader: Any,
    target: Path,
    type_name: str,
    *,
    change: Change | None = None,
    progress: Progress | None = None,
) -> None:
    """Write an open GGUF file anew, with other weights where ``change`` gives them.

    Args:
        reader: from :func:`open_gguf`.
        target: the file to write; it appears complete or not at all.
        type_name: type of the weight matrices, one of :data:`TARGET_TYPES`.
        change: called with each tensor; returns its new values, float32 in its own shape (rows
            first), or None to keep them.
        progress: called with tensors done, tensors in all, and the target's name.

    Raises:
        ModelError: as :func:`requantise`.
    """
    _check_type(type_name)
    partial = target.with_name(f".{target.name}.{os.getpid()}.partial")
    try:
        _write(reader, partial, type_name, change or (lambda tensor: None), progress, target.name)
        os.replace(partial, target)
    except OSError as exc:
        raise ModelError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    finally:
        partial.unlink(missing_ok=True)


def _check_type(type_name: str) -> None:
    if type_name not in TARGET_TYPES:
        raise ModelError(
            f"cannot write weights of type {type_name!r}: known types are {', '.join(TARGET_TYPES)}"
        )


def open_gguf(source: Path) -> Any:
    """Open a GGUF file for reading.

    Returns:
        A ``gguf.GGUFReader``.

    Raises:
        ModelError: it does not exist or is no complete GGUF file.
    """
    import gguf

    try:
        return gguf.GGUFReader(source)
    except FileNotFoundError as exc:
        raise ModelError(f"{source} does not exist") from exc
    except (ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError) as exc:
        raise ModelError(f"{source} is no complete GGUF file ({exc}): fetch it again") from exc


def _write(
    reader: Any,
    target: Path,
    type_name: str,
    change: Change,
    progress: Progress | None,
    shown_name: str,
) -> None:
    import gguf

    architecture = reader.get_field("general.architecture").contents()
    writer = gguf.GGUFWriter(target, architecture)
    try:
        _copy_metadata(reader, writer)
        writer.add_file_type(TARGET_TYPES[type_name])
        writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
        for number, tensor in enumerate(reader.tensors, 1):
            data, kind = _convert(tensor, type_name, change(tensor))
            writer.add_tensor(tensor.name, data, raw_dtype=kind)
            if progress:
                progress(number, len(reader.tensors), shown_name)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
    finally:
        writer.close()


def _copy_metadata(reader: Any, writer: Any) -> None:
    for field in reader.fields.values():
        if field.name.startswith(_OWN_FIELDS):
            continue
        inner = field.types[-1] if len(field.types) > 1 else None
        writer.add_key_value(field.name, field.contents(), field.types[0], sub_type=inner)


def _convert(tensor: Any, type_name: str, values: Any = None) -> tuple[Any, Any]:
    """Return a tensor's data in its new type, and that type; one-dimensional ones become F32.

    The embedding table is not made smaller than 8 bits: every answer is read off it.
    """
    import gguf
    import numpy as np

    if type_name in FOUR_BIT and tensor.name in EIGHT_BIT_TENSORS:
        type_name = "Q8_0"
    wanted = gguf.GGMLQuantizationType[type_name if len(tensor.shape) > 1 else "F32"]
    if tensor.tensor_type == wanted and values is None:
        return np.ascontiguousarray(tensor.data), wanted
    try:
        values = dequantised(tensor) if values is None else values
        return gguf.quants.quantize(values, wanted), wanted
    except (gguf.quants.QuantError, NotImplementedError) as exc:
        raise ModelError(
            f"tensor {tensor.name} cannot be turned from {tensor.tensor_type.name} "
            f"into {wanted.name}: {exc}"
        ) from exc


def dequantised(tensor: Any) -> Any:
    """Return the values of a tensor of a GGUF file: float32, rows first."""
    import gguf

    return gguf.quants.dequantize(tensor.data, tensor.tensor_type)
