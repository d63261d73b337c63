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
# What we have of a talk is more than its turns that have ended. A program that stops an answer only stops
# to read: the turn goes on here, and counts with what it has said so far. The lines that a program told when
# a talk began stand before its first turn. And a talk that was branched has several ways: as it stands, and
# as it would stand with what was set aside. A person who goes back to an earlier answer is on another way,
# which is put back first.
#
# Histories are compared as lines of two roles, white space folded. Neighbours of one role are one line: our
# several messages are one text there. What a persona answered without a visible word is the `silence` that
# the program was given. A program that was stopped has only the begin of an answer, which counts as the
# answer, also where it is empty. A greeting that the program put above the first words of a person counts
# for nothing. Of a line of thousands of letters only the begin is compared: we keep no more of a told one.
#
# What is not nice: two talks that were the same so far cannot be told apart, and the latest is taken; and
# the end of a talk may be the begin of another, and then it is a branch. A named talk has neither trouble.

LONGEST_TOLD = 4_000
"""Letters of a line that a program tells."""


@dataclass(frozen=True, slots=True)
class ClientLine:
    """A line of a history."""

    role: Role
    text: str


@dataclass(frozen=True, slots=True)
class KeptTurn:
    """A turn on record.

    Attributes:
        turn: its number; 0: the words wait for a turn.
        asked: the words of the person.
        answered: what is visible of the answer until now; "" for nothing.
        told: lines that the program told before them.
    """

    turn: int
    asked: str
    answered: str
    told: tuple[ClientLine, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptTalk:
    """A talk on record, one way that it went.

    Attributes:
        name: of the talk.
        turns: oldest first.
        whole: false where earlier turns were left out.
        branch: the address of what must be put back to go on in this way; "": the talk stands so.
    """

    name: str
    turns: tuple[KeptTurn, ...]
    whole: bool = True
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    """Go on with the talk of this name, after `branch` was put back."""

    name: str
    branch: str = ""


@dataclass(frozen=True, slots=True)
class Branch:
    """Go on with the talk of this name, after `branch` was put back, and the turns from `turn` on cut off.

    `told`: lines that go with what was cut off, and are told anew.
    """

    name: str
    turn: int
    branch: str = ""
    told: tuple[ClientLine, ...] = ()


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
        talks: those of the person with the persona, latest first, each with all its ways.
        silence: what a program was given where nothing was said.
    """
    theirs = _folded(told)
    if not theirs:
        return Begin()
    ours = [(talk, _lines(talk, silence)) for talk in talks]
    whole = [(talk, lines) for talk, lines in ours if talk.whole]
    for talk, lines in whole:
        if theirs == lines:
            return Append(talk.name, talk.branch)
    for talk, lines in whole:
        if _missing(theirs, lines) == 0:
            return Append(talk.name, talk.branch)
    for talk, lines in whole:
        if (missing := _missing(theirs, lines)) is not None:
            return _cut(talk, len(talk.turns) - missing, told)
    for talk, lines in ours:
        if len(theirs) >= _SHORTEST_END and _is_end(theirs, lines):
            return Append(talk.name, talk.branch)
    return Transient(tuple(told))


def reconcile_named(
    told: Sequence[ClientLine], ways: Sequence[KeptTalk], *, complete: bool, silence: str = "…"
) -> Append | Branch:
    """Find where a request goes on in the talk that it names. It never leads to another.

    Args:
        told: the program's lines before the one to be answered.
        ways: those of the named talk, first as it stands.
        complete: whether `told` is known to be all that the program has of it; else a program that sends
            nothing but what is new is one that goes on.
        silence: what a program was given where nothing was said.
    """
    found = reconcile(told, ways, silence=silence)
    if isinstance(found, Append | Branch):
        return found
    is_begun_anew = isinstance(found, Begin) and complete and ways[0].turns
    return _cut(ways[0], 0, ()) if is_begun_anew else Append(ways[0].name)


def is_told_whole(told: Sequence[ClientLine], talks: Sequence[KeptTalk], *, silence: str = "…") -> bool:
    """Return whether a program's history is word for word one of these: none of others can be nearer."""
    theirs = _folded(told)
    return any(talk.whole and theirs == _lines(talk, silence) for talk in talks)


def _cut(talk: KeptTalk, place: int, told: Sequence[ClientLine]) -> Append | Branch:
    """Cut a talk off at the turn of that place; what waits for a turn cannot be, and is answered too."""
    turn = talk.turns[max(0, place)]
    if not turn.turn:
        return Append(talk.name, talk.branch)
    return Branch(talk.name, turn.turn, talk.branch, tuple(told) if place <= 0 else ())


def visible_text(content: Any) -> str:
    """The words of a message's `content`: a text, or a list of parts of which some are text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        return ""
    texts = (part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def _fold(text: str) -> str:
    return " ".join(text.strip()[:LONGEST_TOLD].split())


def _folded(lines: Sequence[ClientLine]) -> list[ClientLine]:
    """Lines as they are compared: from the first of a person on, neighbours of one role joined."""
    folded: list[ClientLine] = []
    for line in lines:
        text = _fold(words_of(line.text))
        if folded and folded[-1].role == line.role:
            folded[-1] = ClientLine(line.role, f"{folded[-1].text} {text}".strip())
        elif folded or line.role == "user":
            folded.append(ClientLine(line.role, text))
    return folded


def _lines(talk: KeptTalk, silence: str) -> list[ClientLine]:
    """What was told, and two lines a turn, never joined, so that a place among them is a turn."""
    lines: list[ClientLine] = []
    for turn in talk.turns:
        lines += _folded([*turn.told, ClientLine("user", turn.asked)])
        lines.append(ClientLine("assistant", _fold(turn.answered) or _fold(silence)))
    return lines


def _same(theirs: ClientLine, ours: ClientLine) -> bool:
    if theirs.role != ours.role:
        return False
    return theirs.text == ours.text or (theirs.role == "assistant" and ours.text.startswith(theirs.text))


def _all_same(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> bool:
    return len(theirs) <= len(ours) and all(_same(a, b) for a, b in zip(theirs, ours, strict=False))


def _missing(theirs: Sequence[ClientLine], ours: Sequence[ClientLine]) -> int | None:
    """Return how many of our turns they lack at the end; None: theirs are not the begin of ours.

    They may lack the answer of their last turn, which they did not wait for.
    """
    return (len(ours) - len(theirs)) // 2 if _all_same(theirs, ours) else None


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
