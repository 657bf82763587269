"""The loss curve: written while a run goes, as JSON, and as a picture at its end."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOSS_FILE = "loss.json"
PICTURE_FILE = "loss.png"
KEPT = (
    "loss",
    "eval_loss",
    "learning_rate",
    "grad_norm",
    "mean_token_accuracy",
    "num_input_tokens_seen",
)


def write_json(path: Path, data: Any) -> None:
    """Write ``data`` as JSON, complete or not at all."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    partial.write_text(json.dumps(data, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    partial.replace(path)


class LossRecord:
    """Collects what a run logs; an earlier part of the same run is kept.

    Args:
        folder: the run's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOSS_FILE
        self._picture = folder / PICTURE_FILE
        self._entries: list[dict[str, Any]] = self._earlier()
        self._started = time.perf_counter()

    def _earlier(self) -> list[dict[str, Any]]:
        try:
            return list(json.loads(self._path.read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return []

    def entries(self) -> list[dict[str, Any]]:
        """Return what was logged, by step."""
        return list(self._entries)

    def add(self, step: int, values: dict[str, Any]) -> None:
        """Add what was logged at a step; what an earlier try logged from there on is dropped."""
        entry: dict[str, Any] = {"step": step, "seconds": self._seconds()}
        entry |= {name: values[name] for name in KEPT if name in values}
        if len(entry) == 2:
            return
        kept = [e for e in self._entries if e["step"] < step or _is_other(e, entry)]
        self._entries = [e for e in kept if e["step"] <= step] + [entry]
        write_json(self._path, self._entries)

    def _seconds(self) -> float:
        return round(time.perf_counter() - self._started, 1)

    def callback(self) -> Any:
        """Return the trainer's callback that feeds this record."""
        from transformers import TrainerCallback

        record = self

        class Feed(TrainerCallback):  # type: ignore[misc]
            def on_log(
                self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any
            ) -> None:
                if state.is_world_process_zero:
                    record.add(state.global_step, dict(logs or {}))

        return Feed()

    def draw(self) -> None:
        """Write the picture."""
        from hpcllm.errors import import_extra

        import_extra("matplotlib", "train")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(7, 4), layout="constrained")
        FigureCanvasAgg(figure)
        axes = figure.add_subplot()
        for name, label in (("loss", "training"), ("eval_loss", "evaluation")):
            points = [(e["step"], e[name]) for e in self._entries if name in e]
            if points:
                axes.plot(*zip(*points, strict=True), label=label, marker="o", markersize=2)
        axes.set_xlabel("step")
        axes.set_ylabel("loss (nats a token of the answer)")
        axes.grid(alpha=0.3)
        axes.legend()
        figure.savefig(self._picture, dpi=120)


def step_callback(progress: Callable[[int, int | None], None]) -> Any:
    """Return a trainer's callback that reports steps as ``progress(advance, total)``."""
    from transformers import TrainerCallback

    class Steps(TrainerCallback):  # type: ignore[misc]
        seen = 0

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                progress(state.global_step - self.seen, state.max_steps)
                self.seen = state.global_step

    return Steps()


def _is_other(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Whether two entries of one step log different things: training and evaluation."""
    return first["step"] == second["step"] and ("eval_loss" in first) != ("eval_loss" in second)
