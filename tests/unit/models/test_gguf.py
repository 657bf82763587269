from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest

from hpcllm.errors import ModelError
from hpcllm.models.gguf import requantise

TEMPLATE = "{{ messages }} é"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A two-tensor model in Q4_1 and F32 with a tokenizer and a template."""
    path = tmp_path / "source.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("tiny")
    writer.add_context_length(64)
    writer.add_token_list(["a", "b", "é"])
    writer.add_token_types([1, 1, 3])
    writer.add_token_scores([0.5, -1.0, 2.0])
    writer.add_chat_template(TEMPLATE)
    writer.add_add_bos_token(True)
    writer.add_file_type(3)
    weights = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    kind = gguf.GGMLQuantizationType.Q4_1
    writer.add_tensor("blk.weight", gguf.quants.quantize(weights, kind), raw_dtype=kind)
    writer.add_tensor("norm.weight", np.arange(64, dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def tensors(path: Path) -> dict[str, tuple[str, np.ndarray]]:
    return {
        tensor.name: (
            tensor.tensor_type.name,
            gguf.quants.dequantize(tensor.data, tensor.tensor_type),
        )
        for tensor in gguf.GGUFReader(path).tensors
    }


def test_matrices_change_type_and_vectors_stay(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    requantise(source, target, "Q8_0")
    before, after = tensors(source), tensors(target)
    assert (after["blk.weight"][0], after["norm.weight"][0]) == ("Q8_0", "F32")
    np.testing.assert_array_equal(after["norm.weight"][1], np.arange(64, dtype=np.float32))
    # Q8_0 rounds to 1/127 of the largest value of a block of 32: at most half a step off.
    largest = np.abs(before["blk.weight"][1]).max()
    difference = np.abs(after["blk.weight"][1] - before["blk.weight"][1]).max()
    assert difference <= largest / 127 / 2 * 1.01


def test_metadata_comes_along(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target.gguf"
    requantise(source, target, "F16")
    before, after = gguf.GGUFReader(source).fields, gguf.GGUFReader(target).fields
    assert set(before) - set(after) == set()
    for name in before:
        if not name.startswith("GGUF.") and name != "general.file_type":
            assert after[name].contents() == before[name].contents(), name
            assert after[name].types == before[name].types, name
    assert after["general.file_type"].contents() == 1


def test_same_input_gives_same_bytes(source: Path, tmp_path: Path) -> None:
    for name in ("one.gguf", "two.gguf"):
        requantise(source, tmp_path / name, "Q8_0")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_progress_counts_tensors(source: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    requantise(source, tmp_path / "t.gguf", "Q8_0", progress=lambda *step: seen.append(step))
    assert seen == [(1, 2, "t.gguf"), (2, 2, "t.gguf")]


def test_unknown_type_lists_the_known_ones(source: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"'Q4_K': known types are F32, F16, Q4_0, Q4_1, Q8_0"):
        requantise(source, tmp_path / "t.gguf", "Q4_K")


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"PK\x03\x04 a zip, not a model", b"GGUF\x03\0\0\0"]
)
def test_a_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "bad.gguf"
    source.write_bytes(content)
    with pytest.raises(ModelError, match=r"no complete GGUF file .* fetch it again"):
        requantise(source, tmp_path / "t.gguf", "Q8_0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bad.gguf"]


def test_a_cut_file_is_refused_and_leaves_nothing(source: Path, tmp_path: Path) -> None:
    source.write_bytes(source.read_bytes()[:-64])
    with pytest.raises(ModelError, match="no complete GGUF file"):
        requantise(source, tmp_path / "t.gguf", "Q8_0")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source.gguf"]


def test_an_absent_source_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"gone\.gguf does not exist"):
        requantise(tmp_path / "gone.gguf", tmp_path / "t.gguf", "Q8_0")


def test_a_failure_leaves_the_old_target(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "t.gguf"
    target.write_bytes(b"old")
    with pytest.raises(ModelError):
        requantise(tmp_path / "gone.gguf", target, "Q8_0")
    assert target.read_bytes() == b"old"
