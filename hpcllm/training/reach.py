"""How far the gradient reaches into a prompt: ``training.gradient_tokens``.

Role: the trainer of a run. A prompt is mostly passages, and most of a step's time goes into their
gradients. With a limited reach, all of the prompt but its last tokens is computed once, without
gradients, into a key-value cache; the last tokens and the answer are computed on top of it. The
loss is the same; the gradient leaves out what the passages' own positions would add.
"""

from __future__ import annotations

import inspect
from typing import Any

IGNORED = -100
"""Label of a token that is not learned."""


def trainer_class(gradient_tokens: int) -> Any:
    """Return trl's trainer, with a limited reach where one is asked for.

    Args:
        gradient_tokens: prompt tokens before the answer that carry gradient; 0 takes all of them.
    """
    from trl import SFTTrainer

    if not gradient_tokens:
        return SFTTrainer

    class ReachTrainer(SFTTrainer):  # type: ignore[misc]
        """Trains with a limited reach; evaluates the whole example at once."""

        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            if model.training:
                inputs = within_reach(self.accelerator.unwrap_model(model), inputs, gradient_tokens)
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)

    return ReachTrainer


def within_reach(model: Any, inputs: dict[str, Any], gradient_tokens: int) -> dict[str, Any]:
    """Compute what lies beyond the reach, and return the rest of the batch with its cache.

    Args:
        model: causal language model, with or without an adapter of peft.
        inputs: a batch of one example: ``input_ids``, ``labels`` and ``attention_mask``, (1, n).
        gradient_tokens: prompt tokens before the answer that carry gradient.

    Returns:
        The same batch where nothing lies beyond the reach; else ``input_ids`` and ``labels`` from
        there on, (1, n - beyond), the whole ``attention_mask`` and the filled cache.
    """
    import torch
    from transformers import DynamicCache

    beyond = _beyond(inputs["labels"], gradient_tokens)
    if beyond <= 0:
        return inputs
    causal = model.get_base_model() if hasattr(model, "get_base_model") else model
    held = {_cache_name(causal): DynamicCache(config=causal.config)}
    with torch.no_grad():
        causal.base_model(input_ids=inputs["input_ids"][:, :beyond], use_cache=True, **held)
    rest = {name: inputs[name][:, beyond:] for name in ("input_ids", "labels")}
    return {**inputs, **rest, **held}


def _cache_name(causal: Any) -> str:
    """Return the argument that takes the cache: transformers renamed it within its version 5."""
    known = inspect.signature(type(causal).forward).parameters
    return "cache" if "cache" in known else "past_key_values"


def _beyond(labels: Any, gradient_tokens: int) -> int:
    """Return the number of tokens that lie beyond the reach, in a batch of one example."""
    learned = (labels[0] != IGNORED).nonzero()  # (answer tokens, 1)
    return int(learned[0, 0]) - gradient_tokens if len(learned) else 0
