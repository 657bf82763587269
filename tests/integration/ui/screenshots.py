"""Take the pictures of the documentation from a running server.

Run: python -m tests.integration.ui.screenshots http://127.0.0.1:8000 docs/images [staff password]
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
PATIENCE_MS = 300_000
DESKTOP: dict[str, Any] = {"viewport": {"width": 1180, "height": 820}, "locale": "en-GB"}
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 780},
    "device_scale_factor": 1.5,
    "is_mobile": True,
    "has_touch": True,
}
GPUS = "How do I request two A100 GPUs for 12 hours?"
SCRATCH = "How long do files stay on scratch, and what is backed up?"
UNKNOWN = "Can I bring my dog to the machine room?"


class Camera:
    """Takes pictures of what a person does."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.browser = browser
        self.url = url
        self.folder = folder

    def open(self, path: str, **options: Any) -> Page:
        page = self.browser.new_context(**{**DESKTOP, **options}).new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{self.url}/{path}")
        page.locator("body[data-prepared]").wait_for()
        return page

    def shoot(self, page: Page, name: str) -> None:
        page.wait_for_timeout(700)
        page.screenshot(path=self.folder / f"{name}.png")


def ask(page: Page, question: str) -> None:
    before = page.locator("#hl-log .hl-turn").count()
    box = page.locator("#hl-question textarea")
    box.fill(question)
    box.press("Enter")
    page.locator("#hl-log .hl-turn").nth(before).wait_for()
    page.locator("#hl-send").wait_for()
    page.wait_for_timeout(300)


def take(camera: Camera, password: str) -> None:
    page = camera.open("chat/en/")
    camera.shoot(page, "chat-start")
    ask(page, GPUS)
    page.locator(".hl-source summary").first.click()
    page.evaluate("scrollTo(0, 0)")
    camera.shoot(page, "chat-answer")
    page = camera.open("chat/en/")
    ask(page, UNKNOWN)
    page.locator(".hl-ticket summary").click()
    camera.shoot(page, "chat-not-documented")
    page = camera.open("chat/en/", color_scheme="dark")
    ask(page, SCRATCH)
    page.locator("[data-do=down]").last.click()
    camera.shoot(page, "chat-dark")
    page = camera.open("chat/en/", **PHONE)
    ask(page, GPUS)
    page.evaluate("scrollTo(0, 0)")
    camera.shoot(page, "chat-phone")
    page = camera.open("chat/pt/", locale="pt-BR")
    camera.shoot(page, "chat-portuguese")
    if password:
        page = camera.open("chat/en/")
        page.goto(f"{camera.url}/login?next=/staff")
        page.locator("input[type=password]").fill(password)
        page.locator("button[type=submit]").click()
        page.locator(".hl-group summary").first.click()
        camera.shoot(page, "staff")


def main(url: str, folder: Path, password: str = "") -> None:
    folder.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        take(Camera(browser, url, folder), password)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:4])
