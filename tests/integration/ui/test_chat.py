"""The chat page in a real browser against a real server with a scripted model."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from hpcllm.index.update import update_workspace
from hpcllm.workspace import Workspace
from tests.integration.ui.conftest import LONG_QUESTION, QUESTION, ROOT, Chat, Site

pytestmark = [pytest.mark.network, pytest.mark.slow]


def words_of(text: str) -> str:
    return " ".join(re.findall(r"\w+", text.lower()))


def receipt_of(chat: Chat) -> str:
    return chat.last.get_attribute("data-receipt") or ""


def test_words_arrive_one_after_another_and_end_in_a_checked_answer(chat: Chat) -> None:
    chat.begin(LONG_QUESTION)
    expect(chat.live.locator(".hl-status-text")).to_have_text("Writing")
    first = chat.live.locator(".hl-text").inner_text()
    expect(chat.page.get_by_role("button", name="Stop")).to_be_visible()
    expect(chat.live.locator(".hl-text")).not_to_have_text(first)
    expect(chat.turns).to_have_count(1)
    chat.until_idle()
    assert len(chat.last.locator(".hl-answer > .hl-text").inner_text()) > len(first)
    expect(chat.last.locator(".hl-passed")).to_contain_text("Checked against the sources")
    expect(chat.last.locator(".hl-details summary")).to_contain_text(re.compile(r"\d s"))


def test_a_citation_opens_the_lines_that_stand_in_the_source_file(chat: Chat) -> None:
    chat.ask(QUESTION)
    mark = chat.last.locator("a.hl-cite").first
    expect(mark).to_have_accessible_name("Source 1")
    source = chat.last.locator(".hl-source").first
    expect(source.locator("blockquote")).to_be_hidden()
    mark.click()
    expect(source.locator("blockquote")).to_be_visible()
    expect(source.locator("summary")).to_be_focused()
    here = source.get_by_role("link", name="Read it here").get_attribute("href") or ""
    path = re.search(r"/pages/meridian/([^#]+)", here)
    assert path is not None
    file = (ROOT / "corpus" / "meridian" / path.group(1)).read_text(encoding="utf-8")
    for line in source.locator("blockquote").inner_text().splitlines():
        assert words_of(line) in words_of(file)
    original = source.get_by_role("link", name="Open this section").get_attribute("href")
    assert original is not None and original.startswith("https://docs.meridian.example/")


def test_a_page_of_the_index_is_shown_with_its_sections(chat: Chat) -> None:
    chat.ask(QUESTION)
    chat.last.locator("a.hl-cite").first.click()
    link = chat.last.locator(".hl-source").first.get_by_role("link", name="Read it here")
    with chat.page.expect_popup() as popup:
        link.click()
    page = popup.value
    anchor = page.url.partition("#")[2]
    expect(page.locator(f"[id='{anchor}']")).to_have_count(1)
    expect(page.locator("article.hl-document h1")).to_be_visible()


def test_votes_with_reason_and_comment_are_on_record(chat: Chat, site: Site) -> None:
    chat.ask(QUESTION)
    receipt = receipt_of(chat)
    chat.last.get_by_role("button", name="Helpful", exact=True).click()
    expect(chat.last.locator(".hl-feedback-note")).to_have_text("Thank you. This was recorded.")
    with site.store() as store:
        assert [vote.rating for vote in store.feedback(receipt)] == ["up"]
    down = chat.last.get_by_role("button", name="Not helpful")
    down.click()
    expect(down).to_have_attribute("aria-pressed", "true")
    chat.last.get_by_label("Outdated").check()
    chat.last.get_by_label("Anything to add?").fill("renamed in May, mail me: ada@example.org")
    chat.last.get_by_role("button", name="Send feedback").click()
    expect(chat.last.locator(".hl-feedback")).to_be_hidden()
    with site.store() as store:
        (vote,) = store.feedback(receipt)
    assert (vote.rating, vote.reason) == ("down", "outdated")
    assert "renamed in May" in vote.comment and "ada@example.org" not in vote.comment
    chat.page.reload()
    pressed = chat.last.get_by_role("button", name="Not helpful")
    expect(pressed).to_have_attribute("aria-pressed", "true")


def test_a_follow_up_and_a_reload_keep_the_conversation(chat: Chat, site: Site) -> None:
    chat.ask(QUESTION)
    chat.ask("And what about project space?")
    assert "?c=" in chat.page.url
    chat.page.reload()
    expect(chat.turns).to_have_count(2)
    expect(chat.turns.first.locator(".hl-question-text")).to_have_text(QUESTION)
    chat.ask("And home?")
    expect(chat.turns).to_have_count(3)
    chat.page.get_by_role("link", name="New chat").click()
    expect(chat.page.locator(".hl-start")).to_be_visible()
    chat.page.locator(".hl-menu summary").click()
    chat.page.locator(".hl-menu").get_by_role("link", name=QUESTION).first.click()
    expect(chat.turns).to_have_count(3)
    conversation = chat.page.url.partition("?c=")[2]
    with site.store() as store:
        roles = [message.role for message in store.messages(conversation)]
    assert roles == ["user", "assistant"] * 3


def test_stop_keeps_what_was_written_and_the_page_usable(chat: Chat) -> None:
    chat.begin(LONG_QUESTION)
    expect(chat.live.locator(".hl-text")).not_to_be_empty()
    chat.page.get_by_role("button", name="Stop").click()
    expect(chat.turns).to_have_count(1)
    chat.until_idle()
    expect(chat.last.locator(".hl-answer > .hl-text")).not_to_be_empty()
    chat.ask("What is the quota of my home folder?")
    expect(chat.turns).to_have_count(2)


def test_editing_replaces_a_question_and_what_followed_it(chat: Chat) -> None:
    chat.ask(QUESTION)
    chat.ask("What is the quota of my home folder?")
    chat.turns.first.get_by_role("button", name="Edit this question").click()
    expect(chat.page.locator(".hl-editing")).to_be_visible()
    expect(chat.box).to_have_value(QUESTION)
    chat.page.keyboard.press("Escape")
    expect(chat.page.locator(".hl-editing")).to_be_hidden()
    expect(chat.box).to_have_value("")
    chat.turns.first.get_by_role("button", name="Edit this question").click()
    chat.begin("Which partitions have GPUs?")
    expect(chat.turns.first.locator(".hl-question-text")).to_have_text(
        "Which partitions have GPUs?"
    )
    chat.until_idle()
    expect(chat.turns).to_have_count(1)


def test_trying_again_gives_another_answer_to_the_same_question(chat: Chat) -> None:
    chat.ask(QUESTION)
    first = receipt_of(chat)
    chat.last.get_by_role("button", name="Try again").click()
    expect(chat.page.locator(f"[data-receipt='{first}']")).to_have_count(0)
    chat.until_idle()
    expect(chat.turns).to_have_count(1)
    expect(chat.last.locator(".hl-question-text")).to_have_text(QUESTION)


def test_a_starter_question_asks_itself(chat: Chat) -> None:
    chat.page.get_by_role("button", name="How do I request two A100 GPUs").click()
    expect(chat.turns).to_have_count(1)
    expect(chat.last.locator(".hl-question-text")).to_contain_text("two A100 GPUs")


def drop(page: Page, name: str, content: str, *, is_binary: bool = False) -> None:
    """Drop a file on the page as a person does."""
    page.evaluate(
        """([name, content, isBinary]) => {
            const parts = isBinary ? [new Uint8Array([0x7f, 0x45, 0x4c, 0x46, 0, 255])] : [content];
            const transfer = new DataTransfer();
            transfer.items.add(new File(parts, name));
            const target = document.querySelector("#hl-question");
            for (const kind of ["dragenter", "dragover", "drop"]) {
              target.dispatchEvent(new DragEvent(kind,
                { bubbles: true, cancelable: true, dataTransfer: transfer }));
            }
        }""",
        [name, content, is_binary],
    )


def test_a_dropped_log_goes_into_the_question(chat: Chat) -> None:
    log = "slurmstepd: error: Detected 1 oom_kill event in StepId=4711.0\n"
    chat.box.fill("Why did it die?")
    drop(chat.page, "slurm-4711.out", log)
    expect(chat.page.locator(".hl-file-note")).to_have_text(
        "slurm-4711.out was added to the question."
    )
    expect(chat.box).to_have_value(f"Why did it die?\n\nslurm-4711.out:\n```\n{log}```\n")
    chat.box.press("Enter")
    expect(chat.turns).to_have_count(1)
    expect(chat.last.locator(".hl-question-text")).to_contain_text(
        "oom_kill event in StepId=4711.0"
    )


def test_files_that_are_binary_or_large_are_refused_and_long_ones_cut(chat: Chat) -> None:
    note = chat.page.locator(".hl-file-note")
    drop(chat.page, "a.out", "", is_binary=True)
    expect(note).to_contain_text("a.out is not a text file")
    drop(chat.page, "huge.log", "x" * 300_000)
    expect(note).to_contain_text("huge.log has more than 256 kB. Paste the lines around")
    expect(chat.box).to_have_value("")
    drop(chat.page, "long.log", "".join(f"line {n}\n" for n in range(4000)))
    expect(note).to_contain_text("its beginning and its end were added")
    value = chat.box.input_value()
    assert value.startswith("long.log:\n```\nline 0\n") and "line 3999\n```" in value
    assert len(value) < 13_000


def test_files_can_be_chosen_too(chat: Chat, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/bash\n#SBATCH --time=1\n")
    with chat.page.expect_file_chooser() as chooser:
        chat.page.get_by_role("button", name="Add a text file").click()
    chooser.value.set_files(script)
    expect(chat.box).to_have_value("job.sh:\n```\n#!/bin/bash\n#SBATCH --time=1\n```\n")


def test_what_is_not_documented_says_so_and_drafts_a_ticket(chat: Chat) -> None:
    chat.ask("xqzzt frobnicate wibble quux? I am ada@example.org, password=Hunter2Horse9")
    expect(chat.last.locator(".hl-abstained")).to_contain_text("Not documented")
    expect(chat.last.locator(".hl-sources h3")).to_have_text("Nearest pages")
    chat.last.locator(".hl-ticket summary").click()
    draft = chat.last.get_by_label("Ticket draft").input_value()
    assert "xqzzt frobnicate wibble quux" in draft
    assert "Nearest pages (none answered it):\n- " in draft
    assert receipt_of(chat) in draft
    assert "ada@example.org" not in draft and "Hunter2Horse9" not in draft
    link = chat.last.get_by_role("link", name="Open in mail program").get_attribute("href") or ""
    assert link.startswith("mailto:support@meridian.example?subject=Question")
    assert "Hunter2Horse9" not in link and "ada%40" not in link


def test_an_answer_is_shared_by_its_receipt(
    chat: Chat, site: Site, new_context: Callable[..., BrowserContext]
) -> None:
    chat.ask(QUESTION)
    address = f"{site.url}/answers/{receipt_of(chat)}"
    chat.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    chat.last.get_by_role("button", name="Copy link").click()
    expect(chat.last.get_by_role("button", name="Copied")).to_be_visible()
    assert chat.page.evaluate("navigator.clipboard.readText()") == address
    other = new_context().new_page()
    other.goto(address)
    expect(other.locator(".hl-question-text")).to_have_text(QUESTION)
    expect(other.locator("blockquote").first).to_be_visible()
    assert other.goto(f"{site.url}/answers/0123456789abcdef").status == 404  # type: ignore[union-attr]
    expect(other.locator("main")).to_contain_text("There is no answer under this address")


def test_a_conversation_belongs_to_one_browser(
    chat: Chat, new_context: Callable[..., BrowserContext]
) -> None:
    chat.ask(QUESTION)
    other = Chat(new_context().new_page()).open(chat.page.url)
    expect(other.page.locator(".hl-start")).to_be_visible()
    other.ask("And who pays for it?")
    expect(other.turns).to_have_count(1)
    chat.page.reload()
    expect(chat.turns).to_have_count(1)


def test_hostile_text_does_nothing(chat: Chat) -> None:
    chat.ask("xyzzy scratch purge <img src=x onerror='window.PWNED=20'> <b>bold</b> # title")
    for part in (chat.last, chat.page.locator(".hl-turns")):
        bad = part.locator("script, iframe, form[action], svg, img, style, base, meta, [style]")
        expect(bad).to_have_count(0)
    targets = chat.last.locator(".hl-answer > .hl-text a[href]").evaluate_all(
        "links => links.map(link => link.href)"
    )
    hosts = {re.sub(r"^https?://([^/]*).*", r"\1", target) for target in targets}
    assert hosts <= {"docs.meridian.example", chat.page.url.split("/")[2]}
    assert chat.page.evaluate("window.PWNED") is None
    expect(chat.last.locator(".hl-question-text")).to_contain_text("<b>bold</b> # title")


def add_tickets(workspace: Workspace) -> None:
    """Let the index hold a ticket."""
    row = {
        "id": 7,
        "date": "2026-03-01",
        "question": "Can the whale project have more scratch?",
        "answer": "The scratch quota of the whale project was raised to 90 TB.",
    }
    (workspace.corpus_dir / "desk.jsonl").write_text(json.dumps(row) + "\n", encoding="utf-8")
    with workspace.sources_file.open("a", encoding="utf-8") as sources:
        sources.write('[[source]]\nname = "desk"\nkind = "tickets"\npath = "corpus/desk.jsonl"\n')
    update_workspace(workspace)


def test_tickets_are_searched_where_ticked_and_marked_as_such(
    start_site: Callable[..., Site], chat: Chat, new_context: Callable[..., BrowserContext]
) -> None:
    expect(chat.page.get_by_role("checkbox")).to_have_count(0)  # this index holds none
    asking = Chat(new_context().new_page()).open(start_site(add_tickets).url)
    asking.ask("What was the scratch quota of the whale project raised to?")
    expect(asking.last.locator(".hl-origin")).to_have_count(0)
    asking.page.get_by_role("checkbox", name="Search tickets too").check()
    asking.ask("What was the quota of the whale project raised to?")
    expect(asking.last.locator(".hl-origin").first).to_have_text("From a ticket, 2026-03-01")
    expect(asking.last.locator(".hl-answer > .hl-text")).to_contain_text("90 TB")


def test_a_made_up_history_has_nowhere_to_go(chat: Chat, site: Site) -> None:
    """A raw call, with the place of every state filled in, is answered as a first question."""
    chat.ask("Where do I find the acknowledgement text for papers?")
    victim = chat.page.url.partition("?c=")[2]
    base = f"{site.url}/chat/en/gradio_api"
    with httpx.Client(timeout=30) as client:
        client.get(f"{site.url}/chat/en/")
        config = client.get(f"{site.url}/chat/en/config").json()
        calls = [d for d in config["dependencies"] if len(d["inputs"]) == 5]
        assert len(calls) == 1
        forged = {"conversation_id": victim, "history": [{"role": "user", "content": "forged"}]}
        for state in (victim, forged):
            body = {
                "data": ["What is the quota of home?", "0", "", "", state],
                "fn_index": calls[0]["id"],
                "session_hash": "forger0001",
            }
            assert client.post(f"{base}/queue/join", json=body).status_code == 200
            with client.stream(
                "GET", f"{base}/queue/data", params={"session_hash": "forger0001"}
            ) as stream:
                lines = [line for line in stream.iter_lines() if line]
            assert any("process_completed" in line for line in lines)
            assert not any("acknowledgement" in line.lower() for line in lines)
    with site.store() as store:
        kept = [message.text for message in store.messages(victim)]
        latest = store.answers(limit=2)
    assert len(kept) == 2 and "quota of home" not in " ".join(kept)
    assert {answer.question for answer in latest} == {"What is the quota of home?"}
    assert victim not in {answer.conversation_id for answer in latest}


def test_nothing_can_be_uploaded_to_the_server(site: Site) -> None:
    files = {"files": ("a.txt", b"some text")}
    response = httpx.post(f"{site.url}/chat/en/gradio_api/upload", files=files)
    assert response.status_code >= 400


def test_when_many_ask_the_page_says_when_to_come_back(
    start_site: Callable[..., Site], new_context: Callable[..., BrowserContext]
) -> None:
    busy = start_site(delay_s=0.4, waiting=0)
    first, second = (Chat(new_context().new_page()).open(busy.url) for _ in range(2))
    first.begin(QUESTION)
    expect(first.live.locator(".hl-text")).not_to_be_empty()
    second.begin("How do I use a container?")
    error = second.page.get_by_role("alert")
    expect(error).to_contain_text(re.compile(r"Try again in \d+ seconds"))
    expect(second.box).to_have_value("How do I use a container?")
    expect(second.page.get_by_role("button", name="Send", exact=True)).to_be_visible()


def test_a_page_at_rest_draws_next_to_nothing(page: Page, site: Site) -> None:
    """Gradio's loading screen leaves a timer that asks for every frame, for ever."""
    page.add_init_script(
        "window.frames_asked = 0; const ask = requestAnimationFrame;"
        "window.requestAnimationFrame = (f) => { frames_asked += 1; return ask(f); };"
    )
    chat = Chat(page).open(site.url)
    chat.ask(QUESTION)
    page.wait_for_timeout(500)
    before = page.evaluate("frames_asked")
    page.wait_for_timeout(2000)
    assert page.evaluate("frames_asked") - before < 20
