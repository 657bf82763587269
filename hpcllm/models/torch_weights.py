"""The base model in the form that torch trains: GGUF weights dequantised once, and kept.

Role: between the catalog and the trainer.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
from typing import TYPE_CHECKING, Any

from hpcllm.errors import ModelError, import_extra
from hpcllm.models.files import local_files, sha256_of
from hpcllm.training.opening import gguf_file

if TYPE_CHECKING:
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry

logger = logging.getLogger(__name__)

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
    import datasets
    import transformers

    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()


def _origin(folder: Path) -> str:
    try:
        return str(json.loads((folder / ORIGIN_FILE).read_text(encoding="utf-8"))["sha256"])
    except (OSError, ValueError, KeyError):
        return ""


def _dequantise(source: Path, folder: Path, digest: str) -> None:
    torch = import_extra("torch", "train")
    transformers = import_extra("transformers", "train")
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
