"""The staff page in a real browser, behind its password."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable

import httpx
import pytest
from playwright.sync_api import BrowserContext, expect

from hpcllm.server.credentials import CREDENTIALS_FILE, Credentials, write_credentials
from hpcllm.workspace import Workspace
from tests.integration.ui.conftest import QUESTION, Chat, Site
from tests.integration.ui.test_looks import grave_findings

pytestmark = [pytest.mark.network, pytest.mark.slow]

STAFF, USER = "staff password 1", "user password 1"


def set_passwords(workspace: Workspace) -> None:
    credentials = Credentials.empty().with_password(USER, "user").with_password(STAFF, "staff")
    write_credentials(workspace.var_dir / CREDENTIALS_FILE, credentials)


@pytest.fixture(scope="module")
def closed(start_site: Callable[..., Site]) -> Site:
    return start_site(set_passwords)


def sign_in(context: BrowserContext, address: str, password: str) -> Chat:
    chat = Chat(context.new_page())
    chat.page.goto(address)
    chat.page.get_by_label("Password").fill(password)
    chat.page.get_by_role("button", name="Sign in").click()
    return chat


def test_users_sign_in_and_staff_pages_stay_closed_to_them(
    closed: Site, new_context: Callable[..., BrowserContext]
) -> None:
    chat = sign_in(new_context(), closed.url, USER)
    expect(chat.box).to_be_visible()
    chat.ask(QUESTION)
    chat.page.goto(f"{closed.url}/staff")
    expect(chat.page.get_by_label("Password")).to_be_visible()
    assert httpx.get(f"{closed.url}/staff").status_code in (401, 403)
    assert httpx.get(f"{closed.url}/staff/gaps.csv").status_code in (401, 403)
    assert httpx.get(f"{closed.url}/chat/en/config").status_code in (401, 403)


def test_staff_see_gaps_in_groups_and_settle_them(
    closed: Site, new_context: Callable[..., BrowserContext]
) -> None:
    chat = sign_in(new_context(), closed.url, STAFF)
    expect(chat.page.locator("body[data-prepared]")).to_have_count(1)
    for question in (
        "xqzzt frobnicate wibble quux?",
        "how to xqzzt frobnicate wibble quux",
        "zyzzyva <script>alert(1)</script> plugh",
    ):
        chat.open(f"{closed.url}/chat/en/").ask(question)
    chat.open(f"{closed.url}/chat/en/").ask(QUESTION)
    chat.last.get_by_role("button", name="Not helpful").click()
    expect(chat.last.locator(".hl-feedback-note")).not_to_be_empty()
    page = chat.page
    page.goto(f"{closed.url}/staff")
    assert grave_findings(page) == []
    groups = page.locator(".hl-group")
    expect(groups).to_have_count(3)
    expect(groups.first).to_contain_text("2 questions")
    expect(groups.first).to_contain_text("rising: 2 this week, 0 the week before")
    groups.first.locator("summary").first.click()
    groups.first.get_by_text("Write this page").click()
    stub = groups.first.get_by_label("Draft of a page").input_value()
    assert stub.startswith("# Answer: ") and stub.count("frobnicate wibble quux") == 3
    make = groups.first.get_by_role("button", name="Make it an evaluation question").first
    make.click()
    expect(page.get_by_role("status").first).to_have_text(
        "The question was added to questions.jsonl."
    )
    file = closed.workspace.var_dir / "proposals" / "questions.jsonl"
    (row,) = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert "frobnicate" in row["question"] and row["answerable"] is False
    expect(groups.filter(has_text="2 questions")).to_have_count(0)
    last = groups.filter(has_text="zyzzyva")
    last.locator("summary").first.click()
    last.get_by_role("button", name="Dismiss").click()
    expect(groups).to_have_count(2)
    with closed.store() as store:
        states = sorted(gap.state for gap in store.gaps(state=None))
    assert states == ["dismissed", "open", "open", "question_made"]


def test_staff_see_pages_and_take_the_lists_along(
    closed: Site, new_context: Callable[..., BrowserContext]
) -> None:
    chat = sign_in(new_context(), closed.url, STAFF)
    expect(chat.page.locator("body[data-prepared]")).to_have_count(1)
    chat.ask(QUESTION)
    page = chat.page
    page.goto(f"{closed.url}/staff")
    expect(page.locator(".hl-list", has_text="Most cited")).to_contain_text("meridian/")
    stale = page.locator(".hl-list", has_text="Out of date, and still in the index")
    stale.locator("summary").click()
    expect(stale).to_contain_text("limits-2023.md")
    with page.expect_download() as download:
        page.get_by_role("link", name="Pages as CSV").click()
    with download.value.path().open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {"cited", "never_cited", "outdated"} <= {row["list"] for row in rows}
    cited = {row["path"] for row in rows if row["list"] == "cited"}
    assert cited and cited.isdisjoint(row["path"] for row in rows if row["list"] == "never_cited")
