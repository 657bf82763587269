from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hpcllm.errors import ModelError
from hpcllm.models.adapters import merge_adapter
from hpcllm.models.catalog import load_catalog
from hpcllm.models.download import pull
from hpcllm.models.onnx_weights import quantised_matrices
from tests.unit.index.tiny_encoder import (
    ALPHA,
    INPUTS,
    LAYER,
    OUTPUTS,
    RANK,
    adapter_arrays,
    encoder_bytes,
    stored_matrix,
    write_adapter,
    write_encoder,
)


def weights(path: Path) -> np.ndarray:
    """The layer's matrix (inputs, outputs) as the graph computes it."""
    content = path.read_bytes()
    matrix = quantised_matrices(content, path)[LAYER]
    values = np.frombuffer(content[slice(*matrix.values)], np.int8).reshape(matrix.shape)
    return values * np.frombuffer(content[slice(*matrix.scales)], "<f4")


def expected_weights() -> np.ndarray:
    """Base plus alpha / rank times B A, element by element."""
    a, b = adapter_arrays()
    values, scales = stored_matrix()
    result = values * scales.astype(np.float64)
    for i in range(INPUTS):
        for o in range(OUTPUTS):
            for r in range(RANK):
                result[i, o] += float(b[o, r]) * float(a[r, i]) * ALPHA / RANK
    return result


@pytest.fixture
def merged(tmp_path: Path) -> Path:
    target = tmp_path / "merged.onnx"
    merge_adapter(write_encoder(tmp_path), write_adapter(tmp_path / "a"), target, "int8")
    return target


def test_matrices_are_found_by_the_bias_of_their_layer(tmp_path: Path) -> None:
    values, scales = stored_matrix()
    np.testing.assert_allclose(weights(write_encoder(tmp_path)), values * scales, rtol=1e-6)


def test_the_matrix_gains_the_scaled_product_up_to_half_a_step(merged: Path) -> None:
    expected = expected_weights()
    step = np.abs(expected).max(axis=0) / 127
    assert np.all(np.abs(weights(merged) - expected) <= step / 2 + 1e-6)
    assert np.abs(expected - stored_matrix()[0] * 0.01).max() > 1  # the adapter does something


def test_only_the_matrix_and_its_scales_change(merged: Path, tmp_path: Path) -> None:
    before, after = (tmp_path / "model.onnx").read_bytes(), merged.read_bytes()
    assert len(before) == len(after)
    matrix = quantised_matrices(before, merged)[LAYER]
    places = {*range(*matrix.values), *range(*matrix.scales)}
    changed = {i for i, (x, y) in enumerate(zip(before, after, strict=True)) if x != y}
    assert changed
    assert changed <= places


def test_merging_again_gives_the_same_bytes(merged: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.onnx"
    merge_adapter(tmp_path / "model.onnx", tmp_path / "a", again, "int8")
    assert again.read_bytes() == merged.read_bytes()


def test_progress_counts_matrices(tmp_path: Path) -> None:
    seen: list[tuple[int, int, str]] = []
    merge_adapter(
        write_encoder(tmp_path),
        write_adapter(tmp_path / "a"),
        tmp_path / "b.onnx",
        "int8",
        progress=lambda *call: seen.append(call),
    )
    assert seen == [(1, 1, "b.onnx")]


@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ("encoder.layer.7.output.dense", r"does not fit .*no int8 matrix.*trained on \(5, 4\)"),
        ("decoder.block", "decoder.block.lora_A.weight, which is no layer of an encoder"),
    ],
)
def test_an_adapter_of_another_model_is_refused(tmp_path: Path, layer: str, message: str) -> None:
    source, folder = write_encoder(tmp_path), write_adapter(tmp_path / "a", layer=layer)
    with pytest.raises(ModelError, match=message):
        merge_adapter(source, folder, tmp_path / "b.onnx", "int8")
    assert not (tmp_path / "b.onnx").exists()


def test_a_matrix_of_another_shape_is_refused(tmp_path: Path) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(encoder_bytes(outputs=3))
    with pytest.raises(ModelError, match=r"is \(5, 3\) there, .* trained on \(5, 4\)"):
        merge_adapter(source, write_adapter(tmp_path / "a"), tmp_path / "b.onnx", "int8")


def test_half_an_adapter_is_refused(tmp_path: Path) -> None:
    source, folder = write_encoder(tmp_path), write_adapter(tmp_path / "a", halves="A")
    with pytest.raises(ModelError, match=r"incomplete: A or B is missing for \['encoder\.layer"):
        merge_adapter(source, folder, tmp_path / "b.onnx", "int8")


@pytest.mark.parametrize("kept", [0, 7, 200, -1])
def test_a_torn_file_is_named_with_the_remedy(tmp_path: Path, kept: int) -> None:
    source = tmp_path / "model.onnx"
    source.write_bytes(encoder_bytes()[:kept])
    with pytest.raises(ModelError, match=r"model.onnx is no complete ONNX file .*fetch it again"):
        merge_adapter(source, write_adapter(tmp_path / "a"), tmp_path / "b.onnx", "int8")


def test_another_type_of_weights_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="type 'Q8_0': the known type is int8"):
        merge_adapter(tmp_path / "model.onnx", tmp_path, tmp_path / "b.onnx", "Q8_0")


def test_a_missing_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.onnx does not exist"):
        merge_adapter(
            tmp_path / "model.onnx", write_adapter(tmp_path / "a"), tmp_path / "b.onnx", "int8"
        )


@pytest.mark.models
def test_the_shipped_adapter_gives_the_hash_of_the_catalog(
    real_home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "all-minilm-l6-v2"
    folder.mkdir()
    for name in ("model.onnx", "tokenizer.json"):
        (folder / name).symlink_to(real_home / "models" / folder.name / name)
    pull(load_catalog().get(folder.name), tmp_path, places=[])
    assert (folder / "model.hpc-minilm-question.onnx").is_file()
    assert "write it differently" not in caplog.text
