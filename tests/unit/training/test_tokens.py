from __future__ import annotations

from pathlib import Path

import gguf
import pytest

from hpcllm.errors import TrainingError
from hpcllm.training.tokens import token_counter


def tokenizer_file(path: Path, *, pre: str = "smollm", model: str = "gpt2") -> Path:
    """A byte-level tokenizer that knows letters, digits, space and three merges."""
    letters = [*"abcdefghijklmnopqrstuvwxyz0123456789-.", "Ġ"]
    merges = ["a b", "Ġ ab", "1 2"]
    tokens = ["<|im_start|>", *letters, "ab", "Ġab", "12"]
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_tokenizer_model(model)
    writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types([3, *[1] * (len(tokens) - 1)])
    writer.add_token_merges(merges)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.mark.parametrize(
    ("pre", "text", "count"),
    [
        ("smollm", "ab ab", 2),
        ("smollm", "ab12", 3),
        ("llama-bpe", "ab12", 2),
        ("qwen2", "ab12", 3),
        ("smollm", "<|im_start|>ab", 2),
        ("smollm", "", 0),
    ],
)
def test_texts_are_counted_as_the_model_does(
    tmp_path: Path, pre: str, text: str, count: int
) -> None:
    assert token_counter(tokenizer_file(tmp_path / "t.gguf", pre=pre))(text) == count


def test_other_tokenizers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrainingError, match=r"tokenizer of kind 'llama', expected gpt2"):
        token_counter(tokenizer_file(tmp_path / "t.gguf", model="llama"))


def test_no_gguf_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "t.gguf"
    path.write_bytes(b"nonsense")
    with pytest.raises(TrainingError, match=r"t\.gguf holds no byte-level BPE tokenizer"):
        token_counter(path)
