from __future__ import annotations

import httpx
import pytest
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient

from hpcllm.ui.visitors import COOKIE, Visitors, owner_of

SECRET = "ab" * 32


async def page(_: object) -> PlainTextResponse:
    return PlainTextResponse("page")


@pytest.fixture
def client() -> TestClient:
    routes = [Route("/chat/en/", page), Route("/api/x", page), Route("/chat/en/assets/a.js", page)]
    app = Starlette(routes=routes)
    app.add_middleware(Visitors, prefix="/chat/")
    return TestClient(app)


def cookie_of(response: httpx.Response) -> str:
    return str(response.headers.get("set-cookie", ""))


def test_a_browser_gets_one_secret_that_scripts_cannot_read(client: TestClient) -> None:
    first = cookie_of(client.get("/chat/en/"))
    assert first.startswith(f"{COOKIE}=") and "HttpOnly" in first and "SameSite=Lax" in first
    assert len(first.partition("=")[2].partition(";")[0]) == 64
    assert "Secure" not in first
    assert cookie_of(client.get("/chat/en/")) == ""


def test_the_cookie_is_for_encrypted_connections_where_there_is_one(client: TestClient) -> None:
    response = client.get("https://testserver/chat/en/")
    assert "Secure" in cookie_of(response)


def test_only_pages_give_cookies(client: TestClient) -> None:
    assert cookie_of(client.get("/api/x")) == ""
    assert cookie_of(client.get("/chat/en/assets/a.js")) == ""


def test_owners_are_told_apart_and_do_not_give_the_secret_away() -> None:
    owner = owner_of({COOKIE: SECRET})
    assert owner.startswith("browser:") and SECRET[:16] not in owner
    assert owner != owner_of({COOKIE: "cd" * 32})


@pytest.mark.parametrize("value", ["", "short", "zz" * 32, SECRET + "00", "AB" * 32])
def test_made_up_cookies_own_nothing(value: str) -> None:
    assert owner_of({COOKIE: value}) == ""


def test_without_cookies_the_open_page_is_the_owner() -> None:
    assert owner_of({}, "tab1").startswith("tab:")
    assert owner_of({}, "tab1") != owner_of({}, "tab2")
