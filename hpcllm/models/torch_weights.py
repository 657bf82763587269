"""The base model in the form that torch trains: GGUF weights dequantised once, and kept.

Role: between the catalog and what computes with torch: the trainer, the export and the back end
that tries adapters.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError, import_extra
from hpcllm.models.files import local_files, sha256_of

if TYPE_CHECKING:
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry

logger = logging.getLogger(__name__)

EXTRA = "train"
"""Extra that brings torch and what goes with it."""
TORCH_FOLDER = "torch"
ORIGIN_FILE = "origin.json"
"""Holds the hash of the file that the folder was made from; written last."""


def torch_folder(entry: ModelEntry, models_dir: Path) -> Path:
    """Return a folder with the model's weights and tokenizer as transformers reads them.

    Dequantises the GGUF file on the first call (32-bit floats: four bytes a parameter on disk).

    Raises:
        ModelError: the model's files are not on this machine, or cannot be turned.
        MissingExtraError: torch or transformers is not installed.
    """
    if any(file.name == "config.json" for file in entry.files):
        files = local_files(entry, models_dir)
        return next(iter(files.values())).parent
    source = gguf_file(entry, models_dir)
    folder = models_dir / entry.id / TORCH_FOLDER
    digest = sha256_of(source)
    if _origin(folder) == digest:
        return folder
    logger.info("dequantising %s", source)
    quiet_libraries()
    _dequantise(source, folder, digest)
    return folder


def quiet_libraries() -> None:
    """Silence the progress bars and notes of transformers and datasets."""
    transformers = import_extra("transformers", EXTRA)
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    import_extra("datasets", EXTRA).disable_progress_bars()


def nf4_settings(dtype: Any) -> Any:
    """Return the settings of a base in NF4 with double quantisation (QLoRA).

    Args:
        dtype: torch type in which the dequantised weights are multiplied.

    Raises:
        MissingExtraError: bitsandbytes is not installed.
    """
    from transformers import BitsAndBytesConfig

    import_extra("bitsandbytes", EXTRA)
    # The storage type lets FSDP shard the packed weights like any other parameter.
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=dtype,
        bnb_4bit_quant_storage=dtype,
    )


def gguf_file(entry: ModelEntry, models_dir: Path) -> Path:
    """Return the path of a GGUF file of the model: the one fetched, else the one derived.

    Raises:
        ModelError: none is on this machine.
    """
    names = [file.name for file in entry.files if file.name.endswith(".gguf")]
    sources = [f.name for f in entry.files if f.role == "source" and f.name in names]
    for name in [*sources, *names]:
        path = models_dir / entry.id / name
        if path.is_file():
            return path
    raise ModelError(
        f"model {entry.id} is not on this machine. Fetch it with: hpcllm models pull {entry.id}"
    )


def _origin(folder: Path) -> str:
    try:
        return str(json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, KeyError):
        return ""


def _dequantise(source: Path, folder: Path, digest: str) -> None:
    torch = import_extra("torch", EXTRA)
    transformers = import_extra("transformers", EXTRA)
    partial = folder.with_name(f".{folder.name}.{os.getpid()}.partial")
    try:
        model = transformers.AutoModelForCausalLM.from_pretrained(
            str(source.parent),
            gguf_file=source.name,
            quantization_config=transformers.GgufConfig(dequantize=True),
            dtype=torch.float32,
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(
            str(source.parent), gguf_file=source.name
        )
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)
        origin: dict[str, Any] = {"file": source.name, "sha256": digest}
        (partial / ORIGIN_FILE).write_text(json.dumps(origin), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        partial.rename(folder)
    except OSError as exc:
        raise ModelError(
            f"the weights of {source} cannot be written to {folder}: {exc.strerror or exc}. "
            "Make room there, or set HPCLLM_HOME to a larger disk"
        ) from exc
    finally:
        shutil.rmtree(partial, ignore_errors=True)
