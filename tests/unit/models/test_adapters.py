from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from hpcllm.errors import ModelError
from hpcllm.models.adapters import merge_adapter, permute_rows, read_adapter

HEADS, KV_HEADS, WIDTH, RANK, ALPHA = 4, 2, 64, 4, 8
SHAPES = {
    "self_attn.q_proj": ("attn_q", (64, 64)),
    "self_attn.k_proj": ("attn_k", (32, 64)),
    "mlp.down_proj": ("ffn_down", (64, 96)),
}


def model_file(path: Path, architecture: str = "llama") -> Path:
    rng = np.random.default_rng(1)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    for name, shape in SHAPES.values():
        weights = rng.standard_normal(shape).astype(np.float32)
        writer.add_tensor(f"blk.0.{name}.weight", weights)
    writer.add_tensor("output_norm.weight", np.ones(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def adapter_folder(folder: Path, *, inputs: int = 0, **config: object) -> Path:
    rng = np.random.default_rng(2)
    folder.mkdir(exist_ok=True)
    tensors = {}
    for name, (_, (rows, columns)) in SHAPES.items():
        prefix = f"base_model.model.model.layers.0.{name}"
        a = rng.standard_normal((RANK, inputs or columns)).astype(np.float16)
        tensors[f"{prefix}.lora_A.weight"] = a
        tensors[f"{prefix}.lora_B.weight"] = rng.standard_normal((rows, RANK)).astype(np.float16)
    save_file(tensors, folder / "adapter_model.safetensors")
    values = {"peft_type": "LORA", "r": RANK, "lora_alpha": ALPHA, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(values), encoding="utf-8")
    return folder


def values(path: Path) -> dict[str, np.ndarray]:
    return {t.name: np.array(t.data) for t in gguf.GGUFReader(path).tensors}


def increment(folder: Path, name: str) -> np.ndarray:
    """B A alpha / r, element by element."""
    a, b = read_adapter(folder).pairs[f"blk.0.{name}.weight"]
    result = np.zeros((b.shape[0], a.shape[1]))
    for row in range(b.shape[0]):
        for k in range(RANK):
            result[row] += b[row, k] * a[k].astype(np.float64)
    return result * ALPHA / RANK


def test_projections_gain_the_scaled_product(tmp_path: Path) -> None:
    source, folder = model_file(tmp_path / "a.gguf"), adapter_folder(tmp_path / "adapter")
    merge_adapter(source, folder, tmp_path / "b.gguf", "F32")
    before, after = values(source), values(tmp_path / "b.gguf")
    change = after["blk.0.ffn_down.weight"] - before["blk.0.ffn_down.weight"]
    np.testing.assert_allclose(change, increment(folder, "ffn_down"), atol=2e-5)
    np.testing.assert_array_equal(after["output_norm.weight"], before["output_norm.weight"])


@pytest.mark.parametrize(("name", "heads"), [("attn_q", HEADS), ("attn_k", KV_HEADS)])
def test_query_and_key_rows_are_put_in_the_order_of_the_file(
    tmp_path: Path, name: str, heads: int
) -> None:
    source, folder = model_file(tmp_path / "a.gguf"), adapter_folder(tmp_path / "adapter")
    merge_adapter(source, folder, tmp_path / "b.gguf", "F32")
    change = values(tmp_path / "b.gguf")[f"blk.0.{name}.weight"]
    change = change - values(source)[f"blk.0.{name}.weight"]
    expected = increment(folder, name)
    width = len(expected) // heads
    for head in range(heads):
        for pair in range(width // 2):
            for half in (0, 1):
                in_file = head * width + 2 * pair + half
                in_torch = head * width + half * width // 2 + pair
                np.testing.assert_allclose(change[in_file], expected[in_torch], atol=2e-5)


def test_qwen_files_keep_the_order_of_rows(tmp_path: Path) -> None:
    source = model_file(tmp_path / "a.gguf", "qwen2")
    folder = adapter_folder(tmp_path / "adapter")
    merge_adapter(source, folder, tmp_path / "b.gguf", "F32")
    change = values(tmp_path / "b.gguf")["blk.0.attn_q.weight"]
    change = change - values(source)["blk.0.attn_q.weight"]
    np.testing.assert_allclose(change, increment(folder, "attn_q"), atol=2e-5)


def test_rows_of_one_head_of_four() -> None:
    rows = np.arange(4, dtype=np.float32).reshape(4, 1)
    assert permute_rows(rows, 1).ravel().tolist() == [0, 2, 1, 3]


def test_an_adapter_of_another_model_is_refused(tmp_path: Path) -> None:
    source = model_file(tmp_path / "a.gguf")
    folder = adapter_folder(tmp_path / "adapter", inputs=48)
    with pytest.raises(ModelError, match=r"does not fit the base.*trained on \(64, 48\)"):
        merge_adapter(source, folder, tmp_path / "b.gguf", "Q8_0")
    assert not (tmp_path / "b.gguf").exists()


@pytest.mark.parametrize(
    "config", [{"use_dora": True}, {"use_rslora": True}, {"modules_to_save": ["lm_head"]}]
)
def test_adapters_of_other_kinds_are_refused(tmp_path: Path, config: dict[str, object]) -> None:
    with pytest.raises(ModelError, match=f"no plain LoRA adapter .{next(iter(config))}"):
        read_adapter(adapter_folder(tmp_path / "adapter", **config))


def test_a_damaged_adapter_is_named(tmp_path: Path) -> None:
    folder = adapter_folder(tmp_path / "adapter")
    (folder / "adapter_model.safetensors").write_bytes(b"\x08")
    with pytest.raises(ModelError, match=r"adapter_model.safetensors cannot be read"):
        read_adapter(folder)


def test_a_folder_without_an_adapter_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"adapter_config.json cannot be read .*adapter's folder"):
        read_adapter(tmp_path)
