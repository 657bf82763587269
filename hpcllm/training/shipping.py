"""The form in which an adapter ships: half precision, no local paths, no pickles."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

from hpcllm.errors import TrainingError
from hpcllm.models.adapters import CONFIG_FILE, WEIGHTS_FILE, read_adapter

if TYPE_CHECKING:
    from pathlib import Path


def save_adapter(trained: Path, target: Path, *, base_id: str) -> None:
    """Write a trained adapter for shipping.

    Args:
        trained: folder that ``peft`` wrote; it is removed.
        target: folder to write; what it held is replaced.
        base_id: catalog id of the base, written instead of the local path.

    Raises:
        TrainingError: the adapter cannot be read or written.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file, save_file

    try:
        weights = load_file(trained / WEIGHTS_FILE)
        config = json.loads((trained / CONFIG_FILE).read_text(encoding="utf-8"))
        config["base_model_name_or_path"] = base_id
        config["target_modules"] = sorted(config.get("target_modules") or ())
        target.mkdir(parents=True, exist_ok=True)
        halved = {name: tensor.half().contiguous() for name, tensor in sorted(weights.items())}
        save_file(halved, target / WEIGHTS_FILE, metadata={"format": "pt"})
        text = json.dumps(config, indent=1, sort_keys=True)
        (target / CONFIG_FILE).write_text(f"{text}\n", encoding="utf-8")
    except (OSError, ValueError, SafetensorError) as exc:
        raise TrainingError(f"adapter {trained} cannot be written to {target}: {exc}") from exc
    read_adapter(target)
    shutil.rmtree(trained, ignore_errors=True)
