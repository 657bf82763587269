"""``hpcllm slack`` as a process that is killed between acknowledgement and answer."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from hpcllm.server.store import Store
from tests.integration.slack.fake_slack import (
    BOT_TOKEN,
    SECRET,
    FakeSlack,
    Sender,
    command_body,
    event_body,
)
from tests.integration.slack.running_bot import wait_for
from tests.unit.server.helpers import QUESTION, build_site

pytestmark = pytest.mark.network


@pytest.fixture
def workspace(tmp_path: Path, slack: FakeSlack) -> Path:
    root = tmp_path / "site"
    (root / "ui").mkdir(parents=True)
    (root / "hpcllm.toml").write_text(
        '[index]\nembedder = "hashing"\n[model]\nid = "extractive"\n'
        "[retrieval]\nminimum_evidence = 0.0\n"
    )
    (root / "ui" / "slack.toml").write_text(f'api_url = "{slack.api_url}"\n')
    build_site(root / "index")
    return root


def start(workspace: Path, **environment: str) -> subprocess.Popen[str]:
    given = {"SLACK_BOT_TOKEN": BOT_TOKEN, "SLACK_SIGNING_SECRET": SECRET, **environment}
    return subprocess.Popen(
        [sys.executable, "-m", "hpcllm", "slack", "--port", "0", "-w", str(workspace)],
        env={**os.environ, **given, "HPCLLM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def process(workspace: Path) -> Iterator[tuple[Sender, subprocess.Popen[str]]]:
    running = start(workspace)
    assert running.stderr is not None
    try:
        line = running.stderr.readline()
        found = re.search(r":(\d+)", line)
        assert found, line  # to read on would wait for the end of a running bot
        base = f"http://127.0.0.1:{found.group(1)}"
        wait_for(lambda: _is_up(base), 60)
        yield Sender(f"{base}/slack/events"), running
    finally:
        if running.poll() is None:
            running.terminate()
        running.wait(30)
        running.stderr.close()


def _is_up(base: str) -> bool:
    try:
        return httpx.get(f"{base}/healthz", timeout=5, trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def state_of(message: dict[str, Any]) -> str:
    return str(message["metadata"]["event_payload"]["state"])


KILLED_AT = {
    "before anything is posted": ("chat.postMessage", "hang", 0),
    "while the first message is posted": ("chat.postMessage", "lost", 1),
    "before the answer is shown": ("chat.update", "hang", 1),
    "after the answer is shown": ("chat.update", "lost", 1),
}


@pytest.mark.parametrize("moment", KILLED_AT)
def test_a_bot_that_is_killed_answers_after_its_restart_once(
    workspace: Path, slack: FakeSlack, moment: str
) -> None:
    method, fault, posted = KILLED_AT[moment]
    message = slack.says(f"<@U0BOT> {QUESTION}")
    body = event_body(message)
    slack.fail[method] = [fault]
    with process(workspace) as (bot, running):
        assert bot.event(body).status_code == 200
        wait_for(lambda: slack.called(method))
        assert len(slack.own("C1", message["ts"])) == posted
        running.kill()
    with process(workspace) as (bot, running):
        wait_for(lambda: [state_of(m) for m in slack.own("C1", message["ts"])] == ["done"])
        assert bot.event(body, retry=1).status_code == 200
        other = slack.says(f"<@U0BOT> {QUESTION}")
        bot.event(event_body(other))
        wait_for(lambda: [state_of(m) for m in slack.own("C1", other["ts"])] == ["done"])
    assert len(slack.own("C1", message["ts"])) == 1
    with Store.open(workspace / "var" / "hpcllm.db") as store:
        assert store.unfinished("slack") == []


@pytest.mark.parametrize("fault", ["hang", "lost"])
def test_a_command_whose_bot_is_killed_is_answered_in_one_thread(
    workspace: Path, slack: FakeSlack, fault: str
) -> None:
    slack.fail["chat.postMessage"] = [fault]
    with process(workspace) as (bot, running):
        assert bot.form(command_body(QUESTION, slack)).status_code == 200
        wait_for(lambda: slack.called("chat.postMessage"))
        running.kill()
    with process(workspace):
        wait_for(lambda: "done" in [state_of(m) for m in slack.own("C1")])
    assert sorted(state_of(m) for m in slack.own("C1")) == ["asked", "done"]


def test_a_second_bot_of_the_same_workspace_is_refused(workspace: Path, slack: FakeSlack) -> None:
    with process(workspace):
        second = start(workspace)
        _, told = second.communicate(timeout=60)
    assert second.returncode == 2
    assert "another bot of this workspace is running" in told


def test_a_refused_token_ends_the_program_with_the_remedy(
    workspace: Path, slack: FakeSlack
) -> None:
    refused = start(workspace, SLACK_BOT_TOKEN="xoxb-of-somebody-else")
    _, told = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "Slack refused SLACK_BOT_TOKEN (invalid_auth): install the app again" in told
    assert "somebody-else" not in told


def test_missing_tokens_end_the_program_before_anything_is_loaded(workspace: Path) -> None:
    bare = start(workspace, SLACK_BOT_TOKEN="", SLACK_SIGNING_SECRET="")
    _, told = bare.communicate(timeout=60)
    assert bare.returncode == 2
    assert "SLACK_BOT_TOKEN is not set" in told
    assert "SLACK_APP_TOKEN is not set" in told
    assert not (workspace / "var").exists()
