"""The chat page: Gradio components around :class:`~hpcllm.ui.talking.Talker`.

Role: a thin shell. No function here takes the conversation from the page: what was said before is
found by an id that lives in the server's session state and by the browser's cookie, so that a call
with an invented history has nowhere to put it. Components that compile scripts in the browser
(``js=``, ``gr.HTML``) are not used: the content policy forbids that.
"""

from __future__ import annotations

import os
from html import escape
from typing import TYPE_CHECKING, Any

from hpcllm.errors import import_extra
from hpcllm.ui.frame import chat_controls, head_html, header_html, scopes_html
from hpcllm.ui.rendering import one_line
from hpcllm.ui.talking import Asking, View
from hpcllm.ui.visitors import owner_of

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from fastapi import FastAPI

    from hpcllm.ui.frame import Brand
    from hpcllm.ui.talking import Talker

ROOT = "../../"
"""From a chat page to the server's root."""
QUESTION_CHARACTERS = 20_000
"""Longest question that the box takes, as the assistant."""
SCOPES_CHARACTERS = 500
"""Longest list of what to search besides documentation, separated by spaces."""
QUEUE_TICK_S = 0.002
"""Seconds between two looks of Gradio at its queue, for each language. Its own 1 ms keeps a
twentieth of a core busy; beyond 2 ms nothing is saved, and every question waits."""
WAITING = 500
"""Events that may wait in Gradio's own queue; the service's is the one that counts."""


def mount_chat(app: FastAPI, talker: Talker, brand: Brand, default_cluster: str | None) -> None:
    """Mount the chat page of one language at ``/chat/<language>``.

    Args:
        app: the server.
        talker: answers in that language.
        brand: of the site.
        default_cluster: cluster that is chosen at first.
    """
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")
    gradio = import_extra("gradio", "web")
    page = _build(gradio, talker, brand, default_cluster)
    page.queue(max_size=WAITING, default_concurrency_limit=None)
    page._queue.sleep_when_free = QUEUE_TICK_S
    gradio.mount_gradio_app(
        app,
        page,
        path=f"/chat/{talker.texts.language}",
        show_error=False,
        ssr_mode=False,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        max_file_size=1,
        theme=gradio.themes.Base(
            font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"]
        ),
        head=head_html(brand, ROOT),
        app_kwargs={"docs_url": None, "redoc_url": None, "openapi_url": None},
    )


def _build(gradio: Any, talker: Talker, brand: Brand, default_cluster: str | None) -> Any:
    texts = talker.texts
    controls = chat_controls(texts, talker.clusters, default_cluster)
    with gradio.Blocks(title=brand.name, analytics_enabled=False) as page:
        conversation = gradio.State("")
        _html(gradio, "hl-head", header_html(brand, texts, ROOT, inner=controls))
        earlier = _html(gradio, "hl-earlier-data", "")
        log = _html(gradio, "hl-log", talker.start)
        live = _html(gradio, "hl-live", "")
        with gradio.Column(elem_id="hl-composer"):
            _html(gradio, "hl-notes", _notes_html(talker))
            box = gradio.Textbox(
                label=texts("question"),
                show_label=False,
                container=False,
                placeholder=texts("placeholder"),
                lines=1,
                max_lines=10,
                max_length=QUESTION_CHARACTERS,
                elem_id="hl-question",
                autofocus=True,
            )
            with gradio.Row(elem_id="hl-buttons"):
                _html(gradio, "hl-attach", _attach_html(talker))
                send = gradio.Button(texts("send"), variant="primary", elem_id="hl-send")
                stop = gradio.Button(texts("stop"), elem_id="hl-stop")
        position = gradio.Textbox(
            label="position", visible="hidden", elem_id="hl-position", max_length=8
        )
        cluster = gradio.Textbox(
            value=default_cluster or "",
            label="cluster",
            visible="hidden",
            elem_id="hl-cluster",
            max_length=100,
        )
        outputs = [log, live, earlier, box, position, conversation]
        scopes = gradio.Textbox(
            label="scopes", visible="hidden", elem_id="hl-scopes", max_length=SCOPES_CHARACTERS
        )
        handlers = _Handlers(gradio, talker)
        # Progress is hidden, on one button: on every output, Gradio would run hidden timers in each
        # frame, and copy the state of all of them before each request.
        quiet = {
            "api_visibility": "private",
            "show_progress": "hidden",
            "show_progress_on": send,
        }
        gradio.on(
            [box.submit, send.click],
            handlers.respond,
            [box, position, cluster, scopes, conversation],
            outputs,
            concurrency_limit=None,
            trigger_mode="once",
            preprocess=False,  # texts both ways: nothing to convert, in a thread for each
            postprocess=False,
            **quiet,
        )
        stop.click(handlers.stop, None, None, queue=False, **quiet)
        page.load(handlers.load, None, outputs, **quiet)
    return page


class _Handlers:
    """What the page's events call."""

    def __init__(self, gradio: Any, talker: Talker) -> None:
        self._gradio = gradio
        self._talker = talker
        # Gradio finds the request by its annotation and evaluates all that it finds.
        for handler in (_Handlers.respond, _Handlers.stop, _Handlers.load):
            handler.__annotations__ = {"request": gradio.Request}

    async def respond(
        self,
        question: str,
        position: str,
        cluster: str,
        scopes: str,
        conversation_id: str,
        request: Any,
    ) -> AsyncGenerator[tuple[Any, ...]]:
        """Answer what is in the box."""
        tab = _tab(request)
        asking = Asking(
            question=str(question or "")[:QUESTION_CHARACTERS],
            owner=owner_of(request.cookies, tab),
            tab=tab,
            conversation_id=str(conversation_id or ""),
            position=int(position) if str(position or "").isdecimal() else None,
            cluster=str(cluster or ""),
            scopes=tuple(str(scopes or "")[:SCOPES_CHARACTERS].split()),
        )
        async for view in self._talker.respond(asking):
            yield self._updates(view)

    def stop(self, request: Any) -> None:
        """End the answer in progress."""
        self._talker.stop(_tab(request))

    def load(self, request: Any) -> tuple[Any, ...]:
        """Show the conversation that the address names."""
        wanted = request.query_params.get("c", "")
        owner = owner_of(request.cookies, _tab(request))
        return self._updates(self._talker.open(wanted, owner))

    def _updates(self, view: View) -> tuple[Any, ...]:
        """Return one value for each output, in their order."""
        position = "" if view.is_busy else None
        values = (view.log, view.live, view.earlier, view.question, position, view.conversation_id)
        return tuple(self._gradio.skip() if value is None else value for value in values)


def _tab(request: Any) -> str:
    return str(request.session_hash or "")


def _html(gradio: Any, name: str, html: str) -> Any:
    """Return a component that shows HTML of ours; on one line, so that nothing is read into it."""
    return gradio.Markdown(
        one_line(html), elem_id=name, sanitize_html=False, latex_delimiters=[], buttons=[]
    )


def _notes_html(talker: Talker) -> str:
    texts = talker.texts
    return (
        f'<div class="hl-editing" hidden><span>{escape(texts("editing"))}</span>'
        '<button type="button" class="hl-action" data-do="cancel-edit">'
        f"{escape(texts('editing_cancel'))}</button></div>"
        '<p class="hl-file-note" role="status"></p>'
    )


def _attach_html(talker: Talker) -> str:
    """Return the button that adds a file, and the texts that the script needs."""
    texts = talker.texts
    keys = ("file_large", "file_binary", "file_added", "file_cut", "copied", "thanks", "question")
    values = {key.replace("_", "-"): texts(key) for key in keys}
    values |= {
        "log": texts("conversation"),
        "failed": texts("feedback_failed"),
        "feedback": f"{ROOT}chat/feedback",
        "language": texts.language,
    }
    data = " ".join(f'data-{key}="{escape(value)}"' for key, value in values.items())
    attach, hint = escape(texts("attach")), escape(texts("hint"))
    return (
        f'<div class="hl-attach" id="hl-texts" {data}>'
        f'<button type="button" class="hl-action" data-do="attach">{attach}</button>'
        f"{scopes_html(talker.service.scopes, texts)}"
        '<input type="file" hidden tabindex="-1" aria-hidden="true">'
        f'<span class="hl-hint">{hint}</span></div>'
    )
