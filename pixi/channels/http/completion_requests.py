"""Requests of `/v1/chat/completions`, checked: what a persona is asked, and how the answer is wanted.

Read and ignored, as they mean nothing to a persona: `n`, `tools`, `tool_choice`, `parallel_tool_calls`,
`temperature`, `top_p`, `seed`, `logit_bias`, penalties, and fields that are not known.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aiohttp import web

from pixi.channels.http.attachments import attachments_in
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.reconciling import ClientLine, visible_text
from pixi.channels.http.streams import BODY_SECONDS

_MESSAGES = 2_000
_STOPS = 16
_SYSTEM_LETTERS = 16_000


class RefusedRequest(Exception):
    """A request that is answered with an error in OpenAI's form."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def response(self) -> web.Response:
        """The error as OpenAI's programs read it."""
        body = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }
        return web.json_response({"error": body}, status=self.status)


@dataclass(frozen=True, slots=True)
class ChatCompletionRequest:
    """The fields of a request that count, checked."""

    model: str
    last: str
    files: tuple[Attachment, ...]
    told: tuple[ClientLine, ...]
    system: str
    stream: bool
    usage: bool
    stop: tuple[str, ...]
    max_tokens: int | None
    json: bool
    talk: str
    user: str
    body: Mapping[str, Any]


async def body_of(request: web.Request) -> Mapping[str, Any]:
    """The body of a request, as JSON.

    Raises:
        RefusedRequest: it is no JSON object, too large, or does not come.
    """
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = json.loads(await request.read())
    except TimeoutError:
        raise RefusedRequest(408, f"The body must arrive within {BODY_SECONDS:g} seconds.") from None
    except web.HTTPRequestEntityTooLarge:
        raise RefusedRequest(413, "The body is too large.") from None
    except (ValueError, RecursionError):
        raise RefusedRequest(400, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise RefusedRequest(400, "The body must be a JSON object.")
    return body


def read_request(body: Mapping[str, Any]) -> ChatCompletionRequest:
    """Check the fields of a request.

    Raises:
        RefusedRequest: one is of a wrong type, or there is nothing to answer.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RefusedRequest(
            400, "model must be the name of a persona; GET /v1/models lists them.", param="model"
        )
    last, files, told, system = _messages(body.get("messages"))
    options = _object(body, "stream_options")
    wanted = _object(body, "response_format").get("type")
    metadata = _object(body, "metadata")
    talk, user = metadata.get("conversation") or "", body.get("user") or ""
    if not isinstance(talk, str) or not isinstance(user, str):
        raise RefusedRequest(400, "user and metadata.conversation must be text.", param="user")
    return ChatCompletionRequest(
        model=model,
        last=last,
        files=files,
        told=told,
        system=system,
        stream=bool(body.get("stream")),
        usage=bool(options.get("include_usage")),
        stop=_stops(body.get("stop")),
        max_tokens=_bound(body),
        json=isinstance(wanted, str) and wanted.startswith("json"),
        talk=talk,
        user=user,
        body=body,
    )


def _messages(messages: Any) -> tuple[str, tuple[Attachment, ...], tuple[ClientLine, ...], str]:
    """What the person says last, the files that go with it, the lines before, and what the program says."""
    if not isinstance(messages, list) or not messages or len(messages) > _MESSAGES:
        raise RefusedRequest(400, f"messages must be a list of 1 to {_MESSAGES} messages.", param="messages")
    lines: list[ClientLine] = []
    contents: list[Any] = []
    system: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise RefusedRequest(
                400, f"messages[{number}] must be an object with a role.", param=f"messages[{number}]"
            )
        # Half a surrogate pair, which a program that cuts texts may send, is none: no answer could hold it.
        text = visible_text(message.get("content")).encode("utf-8", "replace").decode()
        role = message["role"]
        if role in ("user", "assistant"):
            lines.append(ClientLine(role, text))
            contents.append(message.get("content"))
        elif role in ("system", "developer"):
            system.append(text)
    at = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].role == "user"), -1)
    files = attachments_in(contents[at]) if at >= 0 else ()
    if at < 0 or not (files or lines[at].text.strip()):
        raise RefusedRequest(400, "messages has no user message with text to answer.", param="messages")
    return lines[at].text, files, tuple(lines[:at]), "\n\n".join(filter(None, system))[:_SYSTEM_LETTERS]


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusedRequest(400, f"{name} must be an object.", param=name)
    return value


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > _STOPS or not all(isinstance(each, str) for each in stops):
        raise RefusedRequest(400, f"stop must be a text, or a list of at most {_STOPS}.", param="stop")
    return tuple(each for each in stops if each)


def _bound(body: Mapping[str, Any]) -> int | None:
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    bound = body.get(name)
    if bound is None:
        return None
    if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
        raise RefusedRequest(400, f"{name} must be a whole number above 0.", param=name)
    return bound
