"""Requests for chat completions: their fields, and the history they tell held against that on record."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from aiohttp import web

from pixi.channels.http.attachments import attachments_in
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.streams import BODY_SECONDS
from pixi.core.message import words_of

Role = Literal["user", "assistant"]
_SHORTEST_END = 2
"""Lines that must be the end of a talk to be taken for it: a person's and an answer."""


# Which talk does a request of a chat program go on? The program sends its whole history and no name.
#
# Two histories are compared: what the program has (`told`) and what we have of each talk. Ours is never
# replaced by theirs. There are four answers:
#
# - `Append`: theirs is ours, or the end of ours (a program leaves out what is too long). The turn is
#   added.
# - `Branch`: theirs is the begin of ours: somebody asked for another answer, or edited what they said.
#   Ours is cut off there, and the turn is added.
# - `Begin`: theirs is empty. A new talk.
# - `Transient`: theirs is nobody's here, e.g. it was begun with another model. A talk made of their
#   lines, marked as told by a program.
#
# Histories are compared as lines of two roles, white space folded. Neighbours of one role are one line: our
# several messages are one text there. What a persona answered without a visible word is the `silence` that
# the program was given. A program that was stopped has only the begin of an answer, which counts as the
# answer. A greeting that the program put above the first words of a person counts for nothing.
#
# What is not nice: two talks that were the same so far cannot be told apart, and the latest is taken; and
# the end of a talk may be the begin of another, and then it is a branch. A named talk has neither trouble.


@dataclass(frozen=True, slots=True)
class ClientLine:
    """A line of a history."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A turn on record: what was asked, and what was visible of the answer ("" for nothing)."""

    turn: int
    asked: str
    answered: str


@dataclass(frozen=True, slots=True)
class KeptTalk:
    """A talk on record, oldest turn first. `whole` is false where earlier turns were left out."""

    name: str
    turns: tuple[KeptTurn, ...]
    whole: bool = True


@dataclass(frozen=True, slots=True)
class Append:
    """Go on with the talk of this name."""

    name: str


@dataclass(frozen=True, slots=True)
class Branch:
    """Go on with the talk of this name, after its turns from `turn` on were cut off."""

    name: str
    turn: int


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a new talk."""


@dataclass(frozen=True, slots=True)
class Transient:
    """Begin a talk that the program told these lines of."""

    lines: tuple[ClientLine, ...]


Found = Append | Branch | Begin | Transient


def reconcile(told: Sequence[ClientLine], talks: Sequence[KeptTalk], *, silence: str = "…") -> Found:
    """Find the talk that a program's history goes on with.

    Args:
        told: the program's lines before the one to be answered.
        talks: those of the person with the persona, latest first.
        silence: what a program was given where nothing was said.
    """
    theirs = _folded(told, silence)
    if not theirs:
        return Begin()
    ours = [(talk, _lines(talk, silence)) for talk in talks]
    for talk, lines in ours:
        if talk.whole and _goes_on(theirs, lines):
            return Append(talk.name)
    for talk, lines in ours:
        if talk.whole and (cut := _branch(theirs, talk, lines)):
            return cut
    for talk, lines in ours:
        if len(theirs) >= _SHORTEST_END and _is_end(theirs, lines):
            return Append(talk.name)
    return Transient(tuple(told))


def reconcile_named(
    told: Sequence[ClientLine], talk: KeptTalk, *, complete: bool, silence: str = "…"
) -> Append | Branch:
    """Find where a request goes on in the talk that it names. It never leads to another.

    Args:
        told: the program's lines before the one to be answered.
        talk: the named one.
        complete: whether `told` is known to be all that the program has of it; else a program that sends
            nothing but what is new is one that goes on.
        silence: what a program was given where nothing was said.
    """
    theirs = _folded(told, silence)
    lines = _lines(talk, silence)
    if not theirs:
        return Branch(talk.name, talk.turns[0].turn) if complete and talk.turns else Append(talk.name)
    if not _goes_on(theirs, lines) and talk.whole and (cut := _branch(theirs, talk, lines)):
        return cut
    return Append(talk.name)


def visible_text(content: Any) -> str:
    """The words of a message's `content`: a text, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _fold(text: str) -> str:
    return " ".join(text.split())


def _folded(lines: Sequence[ClientLine], silence: str) -> list[ClientLine]:
    """Lines as they are compared: from the first of a person on, neighbours of one role joined."""
    folded: list[ClientLine] = []
    for line in lines:
        text = _fold(words_of(line.text))
        if line.role == "assistant":
            if not folded:
                continue
            text = text or _fold(silence)
        if folded and folded[-1].role == line.role:
            folded[-1] = ClientLine(line.role, _fold(f"{folded[-1].text} {text}"))
        else:
            folded.append(ClientLine(line.role, text))
    return folded


def _lines(talk: KeptTalk, silence: str) -> list[ClientLine]:
    """Two lines a turn, never joined, so that a place among them is a turn."""
    lines: list[ClientLine] = []
    for turn in talk.turns:
        lines += [
            ClientLine("user", _fold(turn.asked)),
            ClientLine("assistant", _fold(turn.answered) or _fold(silence)),
        ]
    return lines


def _same(theirs: ClientLine, ours: ClientLine) -> bool:
    if theirs.role != ours.role:
        return False
    if theirs.text == ours.text:
        return True
    return theirs.role == "assistant" and bool(theirs.text) and ours.text.startswith(theirs.text)


def _all_same(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) <= len(ours) and all(_same(a, b) for a, b in zip(theirs, ours, strict=False))


def _goes_on(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    """Return whether they have all of our turns; perhaps not the last answer, which they did not wait for."""
    return _turns(theirs) == len(ours) // 2 and _all_same(theirs, ours)


def _branch(theirs: Sequence[ClientLine], talk: KeptTalk, ours: Sequence[ClientLine]) -> Branch | None:
    if not _all_same(theirs, ours) or _turns(theirs) >= len(talk.turns):
        return None
    return Branch(talk.name, talk.turns[_turns(theirs)].turn)


def _turns(theirs: Sequence[ClientLine]) -> int:
    """Return how many turns they have; one that lacks its answer is one."""
    return (len(theirs) + 1) // 2


def _is_end(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) < len(ours) and _all_same(theirs, ours[len(ours) - len(theirs) :])


_MESSAGES = 2_000
_STOPS = 16
_SYSTEM_LETTERS = 16_000


# Requests of `/v1/chat/completions`, checked: what a persona is asked, and how the answer is wanted.
#
# Read and ignored, as they mean nothing to a persona: `n`, `tools`, `tool_choice`, `parallel_tool_calls`,
# `temperature`, `top_p`, `seed`, `logit_bias`, penalties, and fields that are not known.


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
    """Return the person's last message, its files, the lines before, and the program's instructions."""
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
