"""How far the gradient reaches into a prompt: ``training.gradient_tokens``.

Role: for the trainer of a run. A prompt is mostly passages, and most of a step's time goes into
their gradients. With a limited reach, all of the prompt but its last tokens is computed once,
without gradients, into a key-value cache; the last tokens and the answer are computed on top of it.
The loss is the same; the gradient leaves out what the passages' own positions would add. On a CPU
the part without gradients is read with the adapter merged into the base, in two thirds of the time.
"""

from __future__ import annotations

import inspect
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

IGNORED = -100
"""Label of a token that is not learned."""


class MergedWeights:
    """A second copy of a model's adapted weights, base and adapter in one.

    A layer with LoRA multiplies three times and changes the type of what it reads twice; a merged
    one multiplies once. The copy takes as much memory as the base.

    Args:
        model: of peft.
        layers: its layers with LoRA.
    """

    def __init__(self, model: Any, layers: list[Any]) -> None:
        import torch

        self._model = model
        self._layers = [(layer, torch.empty_like(layer.base_layer.weight)) for layer in layers]

    @classmethod
    def of(cls, model: Any) -> MergedWeights | None:
        """Return the copy; None on a GPU, and where layers are quantised or of another kind."""
        from peft.tuners.lora import Linear, LoraLayer

        layers = [module for module in model.modules() if isinstance(module, LoraLayer)]
        plain = all(
            type(layer) is Linear
            and layer.base_layer.weight.is_floating_point()
            and layer.base_layer.weight.device.type == "cpu"
            for layer in layers
        )
        return cls(model, layers) if layers and plain else None

    def refresh(self) -> None:
        """Merge the adapter as it is now."""
        import torch

        with torch.no_grad(), torch.autocast("cpu", enabled=False):
            for layer, merged in self._layers:
                base = layer.base_layer.weight
                (name,) = layer.active_adapters
                down, up = layer.lora_A[name].weight, layer.lora_B[name].weight
                parts = base, up.to(base.dtype), down.to(base.dtype)
                torch.addmm(*parts, alpha=layer.scaling[name], out=merged)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Compute with the merged weights instead of base and adapter."""
        bases = [layer.base_layer.weight.data for layer, _ in self._layers]
        try:
            for layer, merged in self._layers:
                layer.base_layer.weight.data = merged
            with self._model.disable_adapter():
                yield
        finally:
            for (layer, _), base in zip(self._layers, bases, strict=True):
                layer.base_layer.weight.data = base


def within_reach(
    model: Any,
    inputs: dict[str, Any],
    gradient_tokens: int,
    *,
    merged: MergedWeights | None = None,
) -> dict[str, Any]:
    """Compute what lies beyond the reach, and return the rest of the batch with its cache.

    Args:
        model: causal language model, with or without an adapter of peft.
        inputs: a batch of one example: ``input_ids``, ``labels`` and ``attention_mask``, (1, n).
        gradient_tokens: prompt tokens before the answer that carry gradient.
        merged: its weights with the adapter merged, up to date; None reads with the adapter beside.

    Returns:
        The same batch where nothing lies beyond the reach; else ``input_ids`` and ``labels`` from
        there on, (1, n - beyond), the whole ``attention_mask`` and the filled cache.
    """
    import torch
    from transformers import DynamicCache

    beyond = _beyond(inputs["labels"], gradient_tokens)
    if beyond <= 0:
        return inputs
    causal = causal_model(model)
    held = {_cache_name(causal): DynamicCache(config=causal.config)}
    reading: AbstractContextManager[None] = merged.in_place() if merged else nullcontext()
    with torch.no_grad(), reading:
        causal.base_model(input_ids=inputs["input_ids"][:, :beyond], use_cache=True, **held)
    rest = {name: inputs[name][:, beyond:] for name in ("input_ids", "labels")}
    return {**inputs, **rest, **held}


def causal_model(model: Any) -> Any:
    """Return the causal language model below an adapter of peft, or the model itself."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


def _cache_name(causal: Any) -> str:
    """Return the argument that takes the cache: transformers renamed it within its version 5."""
    known = inspect.signature(type(causal).forward).parameters
    return "cache" if "cache" in known else "past_key_values"


def _beyond(labels: Any, gradient_tokens: int) -> int:
    """Return the number of tokens that lie beyond the reach, in a batch of one example."""
    learned = (labels[0] != IGNORED).nonzero()  # (answer tokens, 1)
    return int(learned[0, 0]) - gradient_tokens if len(learned) else 0
