"""Scoring functions of the exported lm-eval task.

Role: copied into the exported folder behind the text of :mod:`hpcllm.evaluation.facts`, so that
the harness runs without this package. Imports nothing but what that module defines.
"""

from __future__ import annotations

import re
from typing import Any

from hpcllm.evaluation.facts import holds_fact

REFUSAL = re.compile(
    r"(documentation|passages?)\b.{0,40}\b(do(es)? not|don't|doesn't) (say|answer|mention|contain)"
    r"|documentação não|não (sei|há informação)|i (do not|don't) know|cannot answer",
    re.IGNORECASE,
)
MARK = re.compile(r"\[\d{1,3}(?:\s*,\s*\d{1,3})*\]")


def process_results(doc: dict[str, Any], results: list[str]) -> dict[str, float]:
    """Score one answer.

    Args:
        doc: the question with its facts.
        results: the model's text, one element.

    Returns:
        ``right``, ``facts_share`` and ``facts_all``, each 0 to 1; a question without an answer in
        the documentation is right when the model refuses and holds no facts to score.
    """
    text = MARK.sub(" ", results[0])
    refused = bool(REFUSAL.search(text)) and len(text.split()) <= 40
    if not doc["answerable"]:
        return {"right": float(refused), "facts_share": float(refused), "facts_all": float(refused)}
    held = [
        fact for fact in doc["gold_facts"] if holds_fact(text, fact["fact"], fact["alternatives"])
    ]
    share = 0.0 if refused else len(held) / len(doc["gold_facts"])
    return {"right": float(share == 1.0), "facts_share": share, "facts_all": float(share == 1.0)}
