"""The sentence encoder in torch: texts to unit vectors, with gradients where wanted.

Role: between the catalog's weights and the trainer. The architecture is that of all-MiniLM-L6-v2;
its vectors are those of the ONNX file that the index uses.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from hpcllm.errors import ModelError, import_extra
from hpcllm.index.embedders.base import length_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from hpcllm.index.embedders.base import Vectors

WEIGHTS_FILE = "model.safetensors"
TOKENIZER_FILE = "tokenizer.json"

ARCHITECTURE = {
    "vocab_size": 30522,
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "layer_norm_eps": 1e-12,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
}
"""Of all-MiniLM-L6-v2, as published with it."""

ADAPTED_LAYERS = ("query", "key", "value", "dense")
"""Layers of each block that get a low-rank increment: all that multiply by a matrix."""


class SentenceEncoder:
    """Mean-pooled unit vectors of a BERT-like encoder in torch.

    Args:
        folder: holds ``model.safetensors`` and ``tokenizer.json``.
        model: the torch model; None loads it from the folder.
        window_tokens: longest text read, special tokens included; the rest is cut.
        bf16: compute in bfloat16.

    Attributes:
        model: the torch model.

    Raises:
        ModelError: a file is missing.
        MissingExtraError: torch or transformers is not installed.
    """

    def __init__(
        self, folder: Path, *, model: Any = None, window_tokens: int = 256, bf16: bool = True
    ) -> None:
        from tokenizers import Tokenizer

        self.model = model or load_weights(folder)
        self._bf16 = bf16
        self._tokenizer = Tokenizer.from_file(str(folder / TOKENIZER_FILE))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(window_tokens)

    def forward(self, texts: Sequence[str]) -> Any:
        """Return ``(len(texts), dimension)`` float32 unit rows as a tensor with gradients."""
        torch = import_extra("torch", "train")
        encodings = [e.ids for e in self._tokenizer.encode_batch(list(texts))]
        width = max(map(len, encodings))
        ids = torch.zeros((len(encodings), width), dtype=torch.long)
        mask = torch.zeros((len(encodings), width), dtype=torch.long)
        for row, tokens in enumerate(encodings):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
        with torch.autocast("cpu", torch.bfloat16) if self._bf16 else contextlib.nullcontext():
            hidden = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
        weights = mask[:, :, None].float()
        mean = (hidden.float() * weights).sum(1) / weights.sum(1)
        return torch.nn.functional.normalize(mean, dim=1)

    def embed(
        self,
        texts: Sequence[str],
        *,
        batch: int = 16,
        progress: Callable[[int], None] | None = None,
    ) -> Vectors:
        """Return ``(len(texts), dimension)`` float32 unit rows, in the order given."""
        torch = import_extra("torch", "train")
        vectors = np.zeros((len(texts), int(self.model.config.hidden_size)), dtype=np.float32)
        order = length_order([len(text) for text in texts])
        self.model.eval()
        with torch.no_grad():
            for start in range(0, len(order), batch):
                rows = order[start : start + batch]
                vectors[rows] = self.forward([texts[row] for row in rows]).numpy()
                if progress:
                    progress(len(rows))
        return vectors


def load_weights(folder: Path) -> Any:
    """Return the encoder as a torch model in evaluation mode.

    Raises:
        ModelError: the weights are missing or are of another architecture.
        MissingExtraError: torch or transformers is not installed.
    """
    transformers = import_extra("transformers", "train")
    safetensors = import_extra("safetensors.torch", "train")
    path = folder / WEIGHTS_FILE
    if not path.is_file():
        raise ModelError(
            f"{path} does not exist; fetch the weights with: "
            f"hpcllm models pull {folder.name} --file {WEIGHTS_FILE}"
        )
    model = transformers.BertModel(transformers.BertConfig(**ARCHITECTURE), add_pooling_layer=False)
    found = model.load_state_dict(safetensors.load_file(str(path)), strict=False)
    missing = [name for name in found.missing_keys if "position_ids" not in name]
    if missing:
        raise ModelError(
            f"{path} lacks {len(missing)} tensor(s), such as {missing[0]}; expected the weights of "
            "all-MiniLM-L6-v2"
        )
    return model.eval()


def with_adapter(model: Any, *, rank: int, alpha: int, dropout: float) -> Any:
    """Return ``model`` with trainable low-rank increments; all else is fixed."""
    peft = import_extra("peft", "train")
    config = peft.LoraConfig(
        r=rank,
        lora_alpha=alpha,
        lora_dropout=dropout,
        target_modules=list(ADAPTED_LAYERS),
        bias="none",
    )
    with warnings.catch_warnings():
        # peft 0.21 asks transformers 5 for a property by its old name.
        warnings.filterwarnings("ignore", ".*is_gradient_checkpointing", FutureWarning)
        return peft.get_peft_model(model, config)
