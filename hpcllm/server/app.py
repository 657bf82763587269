"""The HTTP application: routes, guards and errors put together.

Role: the one place where the parts of the server meet. Pages are mounted on what
:func:`create_app` returns (``app.state`` holds ``service``, ``store`` and ``access``); the guards
stand in front of them too. Whoever is calling is in ``request.state.identity``
(:class:`hpcllm.server.access.Identity`).
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI

from hpcllm import __version__
from hpcllm.server import native_api, openai_api, signing_in
from hpcllm.server.access import Access
from hpcllm.server.gate import BodyLimit, Gate, Headers
from hpcllm.server.statuses import add_handlers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from hpcllm.server.service import AssistantService
    from hpcllm.server.store import Store

BODY_LIMIT = 512 * 1024
"""Largest request body in bytes, unless another limit is given."""
DESCRIPTION = """\
Answers questions about computing clusters from their documentation, cited and checked.

Send `Authorization: Bearer hpcllm_…` where the server asks for a key.
"""


def create_app(
    service: AssistantService,
    store: Store,
    *,
    access: Access | None = None,
    hosts: Iterable[str] = (),
    body_limit: int = BODY_LIMIT,
    name: str = "HPC support",
) -> FastAPI:
    """Put the application together.

    Args:
        service: answers; it is started and closed with the application.
        store: the records; closed with the application.
        access: knows who may call; None lets everybody in.
        hosts: names that the server is reached by, besides loopback ones.
        body_limit: largest request body in bytes.
        name: the site's name.

    Returns:
        The application. A prefix that a proxy strips is told to the ASGI server (``root_path``).
    """
    access = access or Access()
    app = FastAPI(
        title=name,
        version=__version__,
        description=DESCRIPTION,
        lifespan=_lifespan,
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
    )
    app.state.service, app.state.store, app.state.access = service, store, access
    app.include_router(native_api.router(service, store))
    app.include_router(openai_api.router(service))
    app.include_router(native_api.health_router(service, store))
    app.include_router(signing_in.router(access, name))
    add_handlers(app)
    # The one added last is the first to see a request.
    app.add_middleware(Gate, access=access, hosts=frozenset(host.lower() for host in hosts))
    app.add_middleware(BodyLimit, limit=body_limit)
    app.add_middleware(Headers)
    _describe_without_422(app)
    return app


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    await app.state.service.start()
    try:
        yield
    finally:
        await app.state.service.close()
        await asyncio.to_thread(app.state.store.close)


def _describe_without_422(app: FastAPI) -> None:
    """Take out of the description the status that FastAPI adds and we never answer with."""
    describe = app.openapi

    def described() -> dict[str, Any]:
        schema = describe()
        for operations in schema.get("paths", {}).values():
            for operation in operations.values():
                operation.get("responses", {}).pop("422", None)
        for unused in ("HTTPValidationError", "ValidationError"):
            schema.get("components", {}).get("schemas", {}).pop(unused, None)
        return schema

    app.openapi = described  # type: ignore[method-assign]
