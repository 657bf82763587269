from __future__ import annotations

import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from hpcllm.ui.early_script import EarlyScript

PAGE = "<!doctype html><html><head><script src=theirs.js></script></head>é</html>"
OURS = "<script src=ours.js></script>"


async def page(_: object) -> Response:
    return HTMLResponse(PAGE)


async def compressed(_: object) -> Response:
    return HTMLResponse(PAGE, headers={"content-encoding": "identity"})


async def text(_: object) -> Response:
    return PlainTextResponse(PAGE)


@pytest.fixture
def client() -> TestClient:
    paths = {
        "/chat/en/": page,
        "/chat/": page,
        "/answers/": page,
        "/chat/en/config": page,
        "/chat/text/": text,
        "/chat/compressed/": compressed,
    }
    app = Starlette(routes=[Route(path, endpoint) for path, endpoint in paths.items()])
    app.add_middleware(EarlyScript, prefix="/chat/", html=OURS)
    return TestClient(app)


def test_it_comes_before_the_scripts_of_the_page(client: TestClient) -> None:
    response = client.get("/chat/en/")
    assert response.text == PAGE.replace("<head>", f"<head>{OURS}")
    assert int(response.headers["content-length"]) == len(response.content)


@pytest.mark.parametrize(
    "path", ["/chat/", "/answers/", "/chat/en/config", "/chat/text/", "/chat/compressed/"]
)
def test_all_else_passes_as_it_is(client: TestClient, path: str) -> None:
    assert client.get(path).text == PAGE
