from __future__ import annotations

import pytest

from hpcllm.errors import ConfigError
from hpcllm.evaluation.gate import GateRules, check_gate
from tests.unit.evaluation.helpers import results, row

HALF = results("now", [row(n, right=n % 2 == 0) for n in range(40)])
MOST = results("before", [row(n, right=n % 10 != 0) for n in range(40)])


def test_means_are_compared_with_both_bounds() -> None:
    rules = GateRules({"facts_share": 0.5}, {"refused_wrong": 0.0})
    report = check_gate(HALF, rules)
    assert report.holds
    assert [c.name for c in report.checks] == ["failed questions", "facts_share", "refused_wrong"]
    assert not check_gate(HALF, GateRules({"facts_share": 0.51})).holds
    assert not check_gate(HALF, GateRules(maximum={"facts_share": 0.49})).holds


def test_a_minimum_that_nothing_measures_does_not_hold() -> None:
    report = check_gate(HALF, GateRules({"commands_share": 0.0}))
    assert not report.holds and report.checks[1].value is None


def test_failures_are_not_allowed_unless_they_are() -> None:
    made = results("s", [row(1, True), row(2, True, status="failed")])
    assert not check_gate(made, GateRules({"right": 0.1})).holds
    assert check_gate(made, GateRules({"right": 0.1}, allowed_failures=1)).holds


def test_surely_worse_than_accepted_does_not_hold() -> None:
    rules = GateRules({"right": 0.1})
    report = check_gate(HALF, rules, accepted=MOST)
    assert not report.holds
    assert [c.name for c in report.checks if not c.holds] == [
        "change of right", "change of facts_share",
    ]  # fmt: skip
    assert check_gate(MOST, rules, accepted=HALF).holds
    assert check_gate(MOST, rules, accepted=MOST).holds


def test_more_inventions_are_worse() -> None:
    clean = results("a", [row(n, True, scores={"has_invented": 0.0}) for n in range(20)])
    wild = results("b", [row(n, True, scores={"has_invented": 1.0}) for n in range(20)])
    rules = GateRules({"right": 0.1})
    assert not check_gate(wild, rules, accepted=clean).holds
    assert check_gate(clean, rules, accepted=wild).holds


def test_rules_must_exist_and_name_known_metrics() -> None:
    with pytest.raises(ConfigError, match=r"'facts_shar'; did you mean 'facts_share'"):
        GateRules({"facts_shar": 0.5})
    with pytest.raises(ConfigError, match=r"no threshold.*\[gate.minimum\]"):
        GateRules()


def test_json_says_all() -> None:
    data = check_gate(HALF, GateRules({"right": 0.6})).to_json()
    assert data["holds"] is False
    assert data["checks"][1] == {
        "name": "right",
        "value": 0.5,
        "bound": "at least 0.6",
        "holds": False,
    }
