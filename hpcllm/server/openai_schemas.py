"""Requests of the OpenAI-compatible interface.

Role: what is accepted, strictly. Settings of sampling are accepted and without effect: how answers
are written is the site's choice. What would change the meaning of the answer is refused.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from hpcllm.assistant.assistant import QUESTION_CHARACTERS
from hpcllm.server.schemas import ClusterName, Strict

MESSAGES = 400
"""Most messages of a request."""
Text = Annotated[str, Field(max_length=QUESTION_CHARACTERS)]


class TextPart(Strict):
    """A part of a message; only text is understood."""

    type: Literal["text"]
    text: Text


class ChatMessage(Strict):
    """A message. Those of `system` and `developer` are without effect."""

    role: Literal["system", "developer", "user", "assistant"]
    content: Text | list[TextPart]
    name: str | None = None
    refusal: str | None = None

    @property
    def text(self) -> str:
        """The text of all parts."""
        if isinstance(self.content, str):
            return self.content
        return "\n".join(part.text for part in self.content)


class StreamOptions(Strict):
    """Options of a stream."""

    include_usage: bool = False
    include_obfuscation: bool | None = None


class TextFormat(Strict):
    """The only form of answers."""

    type: Literal["text"]


class ChatIn(Strict):
    """A conversation whose last message, a user's, is answered."""

    model: Annotated[str, Field(min_length=1, max_length=200)]
    messages: Annotated[list[ChatMessage], Field(min_length=1, max_length=MESSAGES)]
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    n: Literal[1] | None = 1
    response_format: TextFormat | None = None
    cluster: ClusterName | None = None
    """Not OpenAI's: the cluster that the question is about."""

    # Accepted, without effect.
    temperature: Annotated[float, Field(ge=0, le=2)] | None = None
    top_p: Annotated[float, Field(ge=0, le=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    frequency_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Field(ge=-2, le=2)] | None = None
    stop: str | list[str] | None = None
    seed: int | None = None
    user: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    service_tier: str | None = None
    store: bool | None = None
    metadata: dict[str, Any] | None = None

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "model": "hpcllm",
                    "messages": [{"role": "user", "content": "How do I cancel a job?"}],
                }
            ]
        }
    )
