"""Count tokens as a model counts them, from the tokenizer inside its GGUF file.

Role: prompts of the data set must have the budget that they have when the product answers. Needs
neither torch nor a loaded model.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CACHE_TEXTS = 200_000
"""Texts whose length is remembered; prompts repeat most of them."""

SPLITS = {
    "gpt-2": r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
        r"|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    "llama-bpe": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+"
        r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
}
"""How text is cut into words before merging, by the name that a GGUF file gives it."""
DIGITS_APART = frozenset({"smollm"})
"""Names whose digits stand alone and whose words are cut as GPT-2 does."""


def token_counter(gguf_path: Path) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text.

    Args:
        gguf_path: model file with a byte-level BPE tokenizer.

    Raises:
        TrainingError: the file has another kind of tokenizer, or is no GGUF file.
    """
    tokenizer = load_tokenizer(gguf_path)

    @lru_cache(maxsize=CACHE_TEXTS)
    def count(text: str) -> int:
        return len(tokenizer.encode(text, add_special_tokens=False).ids)

    return count


def load_tokenizer(gguf_path: Path) -> Any:
    """Return the ``tokenizers.Tokenizer`` of a GGUF file; see :func:`token_counter`."""
    import gguf
    from tokenizers import Tokenizer, decoders, models

    try:
        reader = gguf.GGUFReader(gguf_path)
        model = reader.get_field("tokenizer.ggml.model").contents()
        name = reader.get_field("tokenizer.ggml.pre").contents()
        tokens = reader.get_field("tokenizer.ggml.tokens").contents()
        merges = reader.get_field("tokenizer.ggml.merges").contents()
        kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    except (OSError, ValueError, AttributeError) as exc:
        raise TrainingError(
            f"{gguf_path} holds no byte-level BPE tokenizer ({exc}): expected a complete GGUF file "
            "of a Llama 3, Qwen2 or SmolLM2 model"
        ) from exc
    if model != "gpt2":
        raise TrainingError(f"{gguf_path} has a tokenizer of kind {model!r}, expected gpt2")
    pairs = [tuple(merge.split(" ", 1)) for merge in merges]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=False))
    tokenizer.pre_tokenizer = _cutter(str(name))
    tokenizer.decoder = decoders.ByteLevel()
    special = [token for token, kind in zip(tokens, kinds, strict=True) if kind == 3]
    tokenizer.add_special_tokens(special)
    return tokenizer


def _cutter(name: str) -> Any:
    from tokenizers import Regex, pre_tokenizers

    if name in DIGITS_APART:
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True),
            ]
        )
    pattern = Regex(SPLITS.get(name, SPLITS["gpt-2"]))
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(pattern, behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
