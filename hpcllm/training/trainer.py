"""The trainer of a run: trl's, with what pays on a processor.

Role: between trl and :mod:`~hpcllm.training.run`. Outside Triton's devices trl 1.x scores every
token of an example against the whole vocabulary, tile by tile, the prompt's too. Of a grounded
example one token in thirty is learned, and scoring the others takes a third of a step; here the
learned ones alone are scored, at once.
"""

from __future__ import annotations

from typing import Any

from hpcllm.training.reach import IGNORED, MergedWeights, causal_model, within_reach


def trainer_class(gradient_tokens: int) -> Any:
    """Return trl's trainer as it suits the machine, with a limited reach where one is asked for.

    Args:
        gradient_tokens: prompt tokens before the answer that carry gradient; 0 takes all of them.
    """
    from trl import SFTTrainer

    class AnswerTrainer(SFTTrainer):  # type: ignore[misc]
        """Trains with a limited reach; evaluates the whole example at once."""

        merged: MergedWeights | None = None
        merged_at = -1
        """Optimiser step whose adapter is merged."""

        def compute_loss(
            self,
            model: Any,
            inputs: dict[str, Any],
            return_outputs: bool = False,
            num_items_in_batch: Any = None,
        ) -> Any:
            plain = self.accelerator.unwrap_model(model)
            if model.training and gradient_tokens:
                with self.accelerator.autocast():
                    inputs = within_reach(
                        plain, inputs, gradient_tokens, merged=self._up_to_date(plain)
                    )
            on_cpu = inputs["input_ids"].device.type == "cpu"
            if return_outputs or not on_cpu or self.accelerator.num_processes > 1:
                return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
            with self.accelerator.autocast():
                total, learned, right = answer_loss(plain, inputs)
            metrics = self._metrics["train" if model.training else "eval"]
            metrics["mean_token_accuracy"].append((right / learned).item())
            return total / (learned if num_items_in_batch is None else num_items_in_batch)

        def _up_to_date(self, model: Any) -> MergedWeights | None:
            if self.merged_at != self.state.global_step:
                self.merged = self.merged or MergedWeights.of(model)
                self.merged_at = self.state.global_step
                if self.merged:
                    self.merged.refresh()
            return self.merged

    return AnswerTrainer


def answer_loss(model: Any, inputs: dict[str, Any]) -> tuple[Any, Any, Any]:
    """Return the summed loss of the learned tokens, their number, and how many come out first.

    Args:
        model: causal language model, with or without an adapter of peft.
        inputs: ``input_ids`` and ``labels``, (batch, n), the ``attention_mask``, (batch, n) or
            longer by what a cache among them holds.

    Returns:
        Three scalars as tensors; the first has a gradient. The number is at least 1.
    """
    import torch

    causal = causal_model(model)
    given = {name: value for name, value in inputs.items() if name != "labels"}
    states = causal.base_model(**given).last_hidden_state  # (batch, n, dimension)
    labels = inputs["labels"][:, 1:]
    learned = labels != IGNORED
    wanted = labels[learned]  # (learned,)
    logits = causal.get_output_embeddings()(states[:, :-1][learned])  # (learned, vocabulary)
    total = torch.nn.functional.cross_entropy(logits.float(), wanted, reduction="sum")
    return total, learned.sum().clamp(min=1), (logits.argmax(-1) == wanted).sum()
