"""How the pages work for everybody: languages, widths, colours, keyboard, screen readers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Page, expect

from tests.integration.ui.conftest import LONG_QUESTION, QUESTION, Chat, Site

pytestmark = [pytest.mark.network, pytest.mark.slow]

PHONE: dict[str, Any] = {"viewport": {"width": 360, "height": 740}, "has_touch": True}


def grave_findings(page: Page) -> list[str]:
    """Return what axe finds serious or critical."""
    found = Axe().run(page).response["violations"]
    return [
        f"{item['id']}: {node['html'][:200]}"
        for item in found
        if item["impact"] in ("serious", "critical")
        for node in item["nodes"]
    ]


def hidden_to_the_right(page: Page) -> int:
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def test_portuguese_browsers_get_portuguese(
    site: Site, new_context: Callable[..., BrowserContext]
) -> None:
    chat = Chat(new_context(locale="pt-BR").new_page()).open(site.url)
    assert "/chat/pt/" in chat.page.url
    expect(chat.page.locator("html")).to_have_attribute("lang", "pt-BR")
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("O que você precisa fazer?")
    chat.box.fill("Por quanto tempo os arquivos ficam no scratch?")
    chat.page.get_by_role("button", name="Enviar", exact=True).click()
    expect(chat.turns).to_have_count(1)
    expect(chat.last.get_by_role("button", name="Não ajudou")).to_be_visible()
    chat.page.get_by_role("link", name="English").click()
    expect(chat.page.get_by_role("heading", level=1)).to_have_text("What do you need to get done?")
    chat.page.goto(site.url)  # the choice is remembered
    assert "/chat/en/" in chat.page.url


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_axe_finds_nothing_serious(
    site: Site, new_context: Callable[..., BrowserContext], colours: Any
) -> None:
    chat = Chat(new_context(color_scheme=colours).new_page()).open(site.url)
    assert grave_findings(chat.page) == []
    chat.ask(QUESTION)
    chat.last.locator(".hl-source summary").first.click()
    chat.last.get_by_role("button", name="Not helpful").click()
    expect(chat.last.get_by_role("button", name="Send feedback")).to_be_visible()
    assert grave_findings(chat.page) == []
    chat.ask("xqzzt frobnicate wibble quux?")
    chat.last.locator(".hl-ticket summary").click()
    assert grave_findings(chat.page) == []
    receipt = chat.last.get_attribute("data-receipt")
    for path in (f"answers/{receipt}", "pages/meridian/partitions.md"):
        chat.page.goto(f"{site.url}/{path}")
        assert grave_findings(chat.page) == []


def test_the_colours_can_be_switched_and_stay(chat: Chat) -> None:
    def background() -> str:
        return str(chat.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light = background()
    chat.page.get_by_role("button", name="Light or dark").click()
    dark = background()
    assert light != dark
    chat.page.reload()
    expect(chat.page.locator("body[data-prepared]")).to_have_count(1)
    assert background() == dark


def test_everything_fits_a_phone(site: Site, new_context: Callable[..., BrowserContext]) -> None:
    chat = Chat(new_context(**PHONE).new_page()).open(site.url)
    assert hidden_to_the_right(chat.page) <= 0
    chat.ask("How do I request two A100 GPUs for 12 hours? " + "x" * 300)
    chat.last.locator(".hl-source summary").first.click()
    assert hidden_to_the_right(chat.page) <= 0
    expect(chat.page.get_by_role("button", name="Send", exact=True)).to_be_in_viewport()
    chat.page.locator(".hl-menu summary").click()
    expect(chat.page.locator(".hl-earlier a").first).to_be_in_viewport()
    chat.page.goto(f"{site.url}/pages/meridian/partitions.md")
    assert hidden_to_the_right(chat.page) <= 0


def focused(page: Page) -> str:
    """Return the name of what has the focus; nothing when it is the page itself."""
    return str(
        page.evaluate(
            "document.activeElement === document.body ? '' :"
            " (document.activeElement.getAttribute('aria-label') ?? '')"
            " || document.activeElement.innerText"
        )
    )


def tab_to(page: Page, name: str, *, backwards: bool = False) -> None:
    """Press the tab key until something of that name has the focus."""
    for _ in range(60):
        if name in focused(page):
            return
        page.keyboard.press("Shift+Tab" if backwards else "Tab")
    raise AssertionError(f"{name!r} cannot be reached with the tab key")


def test_the_keyboard_is_enough(chat: Chat) -> None:
    page = chat.page
    expect(chat.box).to_be_focused()
    page.keyboard.type(QUESTION)
    page.keyboard.press("Enter")
    expect(chat.turns).to_have_count(1)
    chat.until_idle()
    tab_to(page, "Source 1", backwards=True)
    page.keyboard.press("Enter")
    expect(chat.last.locator(".hl-source blockquote").first).to_be_visible()
    tab_to(page, "Not helpful")
    page.keyboard.press("Enter")
    expect(chat.last.locator(".hl-feedback input").first).to_be_focused()
    page.keyboard.press("Space")
    tab_to(page, "Send feedback")
    page.keyboard.press("Enter")
    expect(chat.last.locator(".hl-feedback-note")).to_contain_text("Thank you")
    expect(chat.last.get_by_role("button", name="Not helpful")).to_be_focused()
    tab_to(page, "Earlier chats", backwards=True)
    page.keyboard.press("Enter")
    expect(page.locator(".hl-earlier a").first).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator(".hl-earlier a").first).to_be_hidden()


def test_screen_readers_are_told_what_goes_on(chat: Chat) -> None:
    heard = chat.page.locator("#hl-announcer")
    chat.begin(LONG_QUESTION)
    expect(heard).to_have_text("Writing …")
    expect(chat.turns).to_have_count(1)
    answer = chat.last.locator(".hl-answer > .hl-text").inner_text().split()
    expect(heard).to_contain_text(" ".join(answer[:3]))
    expect(chat.page.get_by_role("log", name="Conversation")).to_be_visible()
