"""Turn a trained adapter into what engines load, prove it, and name it in the catalog.

Role: behind ``hpcllm export``. Writes to ``<run>/export``: GGUF files of the merged model, the
adapter as GGUF, merged safetensors for vLLM, a Modelfile for Ollama, ``verification.json`` and
``catalog.toml``.
"""

from __future__ import annotations

import json
import logging
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError, import_extra
from hpcllm.models.adapters import CONFIG_FILE, WEIGHTS_FILE, read_adapter
from hpcllm.models.files import sha256_of
from hpcllm.models.torch_weights import quiet_libraries, torch_folder
from hpcllm.training.gguf_files import write_adapter, write_model
from hpcllm.training.recording import write_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from hpcllm.models.catalog import ModelEntry

    Progress = Callable[[int, int | None], None]

logger = logging.getLogger(__name__)

SMALL = 1_000_000_000
"""Parameters below which an adapted model's answer is followed by quoted lines."""
EXPORT_FOLDER = "export"
MERGED_FOLDER = "merged"
SHIPPED = (CONFIG_FILE, WEIGHTS_FILE, "README.md", "training.json", "loss.png", "overlap.md")
"""Files of an adapter that ship, where they are there."""


@dataclass(frozen=True, slots=True)
class ExportJob:
    """What to export.

    Attributes:
        adapter: the adapter's folder.
        entry: catalog entry of the base.
        base_gguf: GGUF file of the base, for metadata and tokenizer.
        models_dir: folder of models.
        target: folder to write.
        name: id of the adapted model.
        types: weight types to write.
    """

    adapter: Path
    entry: ModelEntry
    base_gguf: Path
    models_dir: Path
    target: Path
    name: str
    types: Sequence[str] = ("Q8_0",)

    def file(self, type_name: str) -> Path:
        """Return the path of the GGUF file of one type."""
        return self.target / f"{self.name}.{type_name}.gguf"


def export(
    job: ExportJob,
    rows: Sequence[Mapping[str, Any]],
    *,
    threads: int = 1,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Export an adapter in all forms and verify each GGUF file.

    Args:
        job: what to export.
        rows: examples to verify with; none skips the verification.
        threads: threads of llama.cpp.
        progress: called with answers compared since the last call, and all answers.

    Returns:
        Hash, size and verification by type, as written to ``verification.json``.

    Raises:
        TrainingError: the adapter does not fit, or the target cannot be written.
        ModelError: the base is not on this machine.
    """
    read_adapter(job.adapter)
    job.target.mkdir(parents=True, exist_ok=True)
    tokenizer, merged = merge_in_torch(job)
    weights = {name: tensor.float().numpy() for name, tensor in merged.state_dict().items()}
    rope = getattr(merged.config, "rope_parameters", None) or {}
    for type_name in job.types:
        write_model(
            weights,
            job.base_gguf,
            job.file(type_name),
            type_name,
            rope_type=str(rope.get("rope_type", "")),
        )
    write_adapter(job.adapter, job.base_gguf, job.target / f"{job.name}.lora.gguf")
    (job.target / "Modelfile").write_text(modelfile(job), encoding="utf-8")
    outcome = _verified(job, rows, merged, tokenizer, threads, progress)
    write_json(job.target / "verification.json", outcome)
    main = job.file(job.types[0])
    text = catalog_entry(job, size=main.stat().st_size, sha256=sha256_of(main))
    (job.target / "catalog.toml").write_text(text, encoding="utf-8")
    return outcome


def merge_in_torch(job: ExportJob) -> tuple[Any, Any]:
    """Merge in 32-bit floats and write the merged safetensors; return tokenizer and model."""
    torch = import_extra("torch", "train")
    transformers = import_extra("transformers", "train")
    peft = import_extra("peft", "train")
    folder = torch_folder(job.entry, job.models_dir)
    quiet_libraries()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    try:
        model = peft.PeftModel.from_pretrained(base, str(job.adapter))
    except (ValueError, RuntimeError) as exc:
        raise TrainingError(
            f"adapter {job.adapter} does not fit {job.entry.id}: {exc}. Name its base with --base"
        ) from exc
    merged = model.merge_and_unload(safe_merge=True).eval()
    _save_half(merged, tokenizer, job.target / MERGED_FOLDER)
    return tokenizer, merged


def _save_half(merged: Any, tokenizer: Any, target: Path) -> None:
    """Write a copy in bfloat16; the model itself keeps its 32 bits for verification."""
    import torch

    half = {name: tensor.to(torch.bfloat16) for name, tensor in merged.state_dict().items()}
    if merged.config.tie_word_embeddings:
        half.pop("lm_head.weight", None)
    merged.save_pretrained(target, state_dict=half)
    config = json.loads((target / "config.json").read_text(encoding="utf-8"))
    write_json(target / "config.json", {**config, "dtype": "bfloat16"})
    tokenizer.save_pretrained(target)


def _verified(
    job: ExportJob,
    rows: Sequence[Mapping[str, Any]],
    merged: Any,
    tokenizer: Any,
    threads: int,
    progress: Progress | None,
) -> dict[str, Any]:
    from hpcllm.training.verification import expected_of, verify_file

    answers = len(rows) * (1 + len(job.types))
    advance = (lambda count: progress(count, answers)) if progress else None
    outcome: dict[str, Any] = {}
    expected = expected_of(merged, tokenizer, rows, advance=advance) if rows else None
    for type_name in job.types:
        path = job.file(type_name)
        facts: dict[str, Any] = {"sha256": sha256_of(path), "size": path.stat().st_size}
        if expected:
            found = verify_file(
                path, merged, tokenizer, rows, expected, threads=threads, advance=advance
            )
            facts |= found.to_json()
        outcome[type_name] = facts
        logger.info("%s: %s", path.name, facts)
    return outcome


def modelfile(job: ExportJob) -> str:
    """Return what ``ollama create`` reads."""
    return (
        f"# ollama create {job.name} -f Modelfile\n"
        f"FROM ./{job.file(job.types[0]).name}\n"
        "PARAMETER temperature 0\n"
        f"PARAMETER repeat_penalty {job.entry.repeat_penalty:g}\n"
        f"PARAMETER num_ctx {job.entry.engine_context}\n"
        f"PARAMETER num_predict {job.entry.answer_tokens}\n"
    )


def catalog_entry(job: ExportJob, *, size: int, sha256: str) -> str:
    """Return the adapted model's entry for a catalog: made at pull time from base and adapter.

    Args:
        job: what was exported.
        size: bytes of the file of the first type.
        sha256: its hash.
    """
    entry = job.entry
    source = next((file for file in entry.files if file.name == job.base_gguf.name), None)
    lines = [
        "[[models]]",
        f'id = "{job.name}"',
        'kind = "generator"',
        f'family = "{entry.family}"',
        f'summary = "{entry.id}, adapted to answer from the passages and to cite them"',
        f"parameters = {entry.parameters}",
        f"context = {entry.context}",
        f"engine_context = {entry.engine_context}",
        f'licence = "{entry.licence}"',
        f"passages = {entry.passages}",
        f"prompt_tokens = {entry.prompt_tokens}",
        f"answer_tokens = {entry.answer_tokens}",
        "repeat_penalty = 1.0",
        f"speculation = {str(entry.speculation).lower()}",
        "adapted = true",
        f"quotes = {str(entry.parameters < SMALL).lower()}",
        *_architecture(entry),
        "",
        "[[models.files]]",
        f'name = "{job.file(job.types[0]).name}"',
        f"size = {size}",
        f'sha256 = "{sha256}"',
        f'derive = {{ kind = "merge", source = "{job.base_gguf.name}", '
        f'type = "{job.types[0]}", adapter = "{job.name}" }}',
        "",
    ]
    if source is not None:
        lines += [
            "[[models.files]]",
            f'name = "{source.name}"',
            'role = "source"',
            f"size = {source.size}",
            f'sha256 = "{source.sha256}"',
            f"places = [{', '.join(_inline(place.model_dump()) for place in source.places)}]",
            "",
        ]
    return "\n".join(lines)


def _architecture(entry: ModelEntry) -> list[str]:
    if entry.architecture is None:
        return []
    return [f"architecture = {_inline(entry.architecture.model_dump())}"]


def _inline(values: Mapping[str, Any]) -> str:
    return "{ " + ", ".join(f"{key} = {_toml(value)}" for key, value in values.items()) + " }"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def ship(adapter: Path, adapters_dir: Path, name: str, *, extra: Sequence[Path] = ()) -> Path:
    """Copy an adapter to where models are made from it.

    Args:
        adapter: the trained adapter's folder.
        adapters_dir: the workspace's ``training/adapters``.
        name: the adapted model's id.
        extra: further files to put beside it, such as the loss curve and the overlap report.

    Returns:
        Its new folder.

    Raises:
        TrainingError: it cannot be written.
    """
    target = adapters_dir / name
    try:
        target.mkdir(parents=True, exist_ok=True)
        for path in [*(adapter / file for file in SHIPPED), *extra]:
            if path.is_file():
                shutil.copyfile(path, target / path.name)
    except OSError as exc:
        raise TrainingError(f"{target} cannot be written: {exc.strerror or exc}") from exc
    return target
