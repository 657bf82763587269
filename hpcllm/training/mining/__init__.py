"""Miners: each finds questions with their answers in the sections of any page, by rules.

A miner takes a section and a random generator and yields :class:`~hpcllm.training.records.Seed`.
Its questions are worded by templates; noise is added later. What a miner yields is checked again
against the passages shown, so it may be generous.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpcllm.training.mining.commands import mine_commands
from hpcllm.training.mining.entries import mine_entries
from hpcllm.training.mining.messages import mine_messages
from hpcllm.training.mining.sentences import mine_sentences
from hpcllm.training.mining.tables import mine_tables

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator, Mapping

    from hpcllm.training.records import Section, Seed

    Miner = Callable[[Section, random.Random], Iterator[Seed]]

MINERS: Mapping[str, Miner] = {
    "entries": mine_entries,
    "tables": mine_tables,
    "commands": mine_commands,
    "sentences": mine_sentences,
    "messages": mine_messages,
}
"""All miners of sections, in the order in which they run."""

__all__ = ["MINERS"]
