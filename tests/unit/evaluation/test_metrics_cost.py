from __future__ import annotations

from hpcllm.evaluation.metrics.cost import answer_words, peak_memory_mib, percentile


def test_words_leave_out_marks() -> None:
    assert answer_words("Use `squeue --me` [1][2].") == 4
    assert answer_words("") == 0


def test_percentiles_by_hand() -> None:
    assert percentile([10, 20, 30, 40, 50], 50) == 30
    assert percentile([10, 20, 30, 40, 50], 95) == 48
    assert percentile([], 50) is None


def test_peak_memory_grows_with_what_is_touched() -> None:
    before = peak_memory_mib()
    block = bytearray(b"x") * (64 << 20)
    after = peak_memory_mib()
    assert len(block) == 64 << 20
    assert before > 5 and after >= before
