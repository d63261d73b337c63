"""Handlers of `/v1`: a persona is a model for programs that speak OpenAI's chat completions.

Read and ignored, as they mean nothing to a persona: `n`, `tools`, `tool_choice`, `parallel_tool_calls`,
`temperature`, `top_p`, `seed`, `logit_bias`, penalties, and fields that are not known.
"""

import asyncio
import hashlib
import json
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import unquote

from aiohttp import web

from pixi.channels.http.access import Principal
from pixi.channels.http.attachments import attachments_in
from pixi.channels.http.bodies import Attachment
from pixi.channels.http.faces.chat_completions import (
    ChatCompletionStream,
    Wishes,
    error_body,
    text_events,
    whole_answer,
)
from pixi.channels.http.jwt import ForwardedUsers
from pixi.channels.http.problems import Problem
from pixi.channels.http.reconciling import (
    Append,
    Begin,
    Branch,
    KeptTalk,
    Said,
    Transient,
    reconcile,
    reconcile_named,
    visible_text,
)
from pixi.channels.http.rules import HttpRules
from pixi.channels.http.streams import BODY_SECONDS
from pixi.channels.http.tasks import Task, answer_by_rule, task_of

_TALKS = 20
"""Talks that a history without a name is compared with, latest first."""
_MESSAGES = 2_000
_STOPS = 16
_SYSTEM_LETTERS = 16_000
_TASK_LETTERS = 20_000
_NAME_LETTERS = 128
_RUNNING = 1_000
_OPEN_WEBUI = "X-OpenWebUI-"
_FROM_OPEN_WEBUI = _OPEN_WEBUI.lower()
_NO_NAMES = ("", "new", "null", "undefined")
"""What programs put into their header where a talk has no name yet."""

Event = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """What a persona is to answer.

    Attributes:
        persona: file stem of it.
        talk: name of the talk within the person and the persona.
        message_id: of `text`; the same again is the same turn.
        text: what the person said.
        app_says: quoted to the persona as what the program says, without authority; "" for nothing.
        told: lines that a program told of a talk that is not kept here, oldest first; the talk is new.
        attachments: files that go with `text`.
    """

    persona: str
    talk: str
    message_id: str
    text: str
    app_says: str = ""
    told: tuple[Said, ...] = ()
    attachments: tuple[Attachment, ...] = ()


class CompletionsBackend(Protocol):
    """What `/v1` asks of the app."""

    def personas(self) -> Sequence[tuple[str, str]]:
        """File stem and name of each persona."""
        ...

    async def kept_talks(self, person: str, persona: str, limit: int) -> Sequence[KeptTalk]:
        """The latest talks of a person with a persona over HTTP, latest first."""
        ...

    async def kept_talk(self, person: str, persona: str, name: str) -> KeptTalk | None:
        """The talk of that name; None: there is none yet."""
        ...

    def running(self, person: str, persona: str, name: str) -> bool:
        """Whether a turn of the talk is under way, or a message waits for one."""
        ...

    async def talk_with(self, person: str, persona: str, message_id: str) -> str | None:
        """The name of the person's talk that a message of this id came to; None: there is none."""
        ...

    async def branch_talk(self, person: str, persona: str, name: str, turn: int) -> None:
        """Cut the talk off before this turn."""
        ...

    async def stop_talk(self, person: str, persona: str, name: str, turn: int) -> None:
        """Stop this turn of the talk, if it runs."""
        ...

    def say(self, asker: Principal, turn: Turn) -> AsyncGenerator[Event, None]:
        """Begin the turn, or attach to it by its message id; the events of it up to `turn_end`.

        Raises, before the first event, `Problem`: e.g. 422 where the message of this id was another.
        """
        ...

    async def helper_answer(self, prompt: str) -> str | None:
        """An answer of the helper model, in the books as `task`; None: there is no such model."""
        ...


Identify = Callable[[web.Request, str, str], Awaitable[Principal]]
"""Tells who asks; given the request, and the id and the name of whom it speaks for, or "" and ""."""

WriteStream = Callable[
    [web.Request, ChatCompletionStream, AsyncGenerator[Event, None]], Awaitable[web.StreamResponse]
]
"""Writes events through a face as server-sent events, with comments while nothing comes.

Must ask for the first event before it begins to answer: what is raised there still becomes an HTTP error.
"""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _RefusedError(Exception):
    """A request that is answered with an error in OpenAI's form."""

    def __init__(
        self, status: int, message: str, *, param: str | None = None, code: str | None = None
    ) -> None:
        super().__init__(message)
        self.status, self.message, self.param, self.code = status, message, param, code

    def response(self) -> web.Response:
        body = {
            "message": self.message,
            "type": "invalid_request_error",
            "param": self.param,
            "code": self.code,
        }
        return web.json_response({"error": body}, status=self.status)


@dataclass(frozen=True, slots=True)
class _Asked:
    """The fields of a request that count, checked."""

    model: str
    last: str
    files: tuple[Attachment, ...]
    told: tuple[Said, ...]
    system: str
    stream: bool
    usage: bool
    stop: tuple[str, ...]
    max_tokens: int | None
    json: bool
    talk: str
    user: str
    body: Mapping[str, Any]


class Completions:
    """The handlers of `/v1`.

    Args:
        backend: answers.
        identify: see `Identify`; what it raises is the server's to tell.
        stream: see `WriteStream`.
        settings: what to go by.
        forwarded: checks whom Open WebUI speaks for; None: it is believed without proof.
    """

    def __init__(
        self,
        backend: CompletionsBackend,
        *,
        identify: Identify,
        stream: WriteStream,
        settings: HttpRules | None = None,
        forwarded: ForwardedUsers | None = None,
    ) -> None:
        self._backend = backend
        self._identify = identify
        self._stream = stream
        self._settings = settings or HttpRules()
        self._forwarded = forwarded
        # The talk of each request under way, by a digest of who asks what: a retry attaches to its turn.
        # One that was given no key of its own attaches only while the turn runs: later it asks for another.
        self._under_way: dict[str, tuple[str, str]] = {}
        self._answering: set[str] = set()
        # Two same requests at once must find the same talk.
        self._choosing = asyncio.Lock()

    def routes(self) -> list[tuple[str, str, Handler]]:
        """Method, path and handler of each."""
        routes: list[tuple[str, str, Handler]] = []
        for base in ("/v1", ""):
            routes += [
                ("GET", f"{base}/models", self.models),
                ("GET", f"{base}/models/{{id}}", self.model),
                ("POST", f"{base}/chat/completions", self.complete),
            ]
        return [*routes, ("*", "/v1/{rest:.*}", self.unknown)]

    async def models(self, request: web.Request) -> web.Response:
        """List the personas that the key may talk to."""
        asker = await self._identify(request, "", "")
        return web.json_response({"object": "list", "data": self._models(asker)})

    async def model(self, request: web.Request) -> web.Response:
        """Tell of one persona."""
        asker = await self._identify(request, "", "")
        for each in self._models(asker):
            if each["id"] == request.match_info["id"]:
                return web.json_response(each)
        return self._no_model(request.match_info["id"], asker).response()

    async def unknown(self, request: web.Request) -> web.Response:
        """Answer for a path or a method that is not there."""
        return _RefusedError(
            404,
            f"There is no {request.method} {request.path} here. There are GET /v1/models and POST "
            "/v1/chat/completions.",
            code="unknown_url",
        ).response()

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat, streamed or whole; or a background task of the program."""
        try:
            asked = _read(await _body(request))
            asker = await self._who(request, asked)
            if asked.model not in {each["id"] for each in self._models(asker)}:
                raise self._no_model(asked.model, asker)
            if task := task_of(request.headers, asked.last, asked.body):
                events = _each(text_events(await self._task(task, asked)))
                return await self._answer(request, asked, events, Wishes())
            if asked.json:
                raise _RefusedError(
                    400,
                    "A persona answers in its own words: leave response_format out.",
                    param="response_format",
                    code="unsupported_value",
                )
            turn, mark = await self._turn(request, asker, asked)
        except _RefusedError as refused:
            return refused.response()
        wishes = Wishes(
            silence=self._settings.silence,
            reactions=self._settings.reactions,
            notes=self._settings.notes,
            stop=asked.stop,
            max_tokens=asked.max_tokens,
            strict=request.headers.get("X-Pixi-Errors", "").strip().lower() == "strict",
        )
        events = self._backend.say(asker, turn)
        try:
            return await self._answer(
                request, asked, events, wishes, lambda number: self._stop(asker, turn, number)
            )
        finally:
            self._answering.discard(mark)

    async def _answer(
        self,
        request: web.Request,
        asked: _Asked,
        events: AsyncGenerator[Event, None],
        wishes: Wishes,
        stop: Callable[[int], Awaitable[None]] | None = None,
    ) -> web.StreamResponse:
        answer_id, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        face = ChatCompletionStream(
            answer_id=answer_id, model=asked.model, created=created, wishes=wishes, usage=asked.usage
        )
        if asked.stream:
            return await self._stream(request, face, _until_cut(events, face, stop))
        gathered = [event async for event in _until_cut(events, face, stop, feed=True)]
        answer, problem = whole_answer(
            gathered, answer_id=answer_id, model=asked.model, created=created, wishes=wishes
        )
        if problem:
            return web.json_response({"error": error_body(problem)}, status=503)
        return web.json_response(answer)

    def _models(self, asker: Principal) -> list[dict[str, Any]]:
        return [
            {"id": stem, "object": "model", "created": 0, "owned_by": "pixi", "name": name}
            for stem, name in self._backend.personas()
            if asker.knows(stem)
        ]

    def _no_model(self, name: str, asker: Principal) -> _RefusedError:
        known = ", ".join(each["id"] for each in self._models(asker)) or "none"
        return _RefusedError(
            404,
            f"There is no persona {name[:80]!r} here. There is: {known}.",
            param="model",
            code="model_not_found",
        )

    async def _who(self, request: web.Request, asked: _Asked) -> Principal:
        """Who asks; a key that may, speaks for whom the program names. Others' `user` is passed over."""
        asker = await self._identify(request, "", "")
        if not asker.may("chat:on-behalf"):
            return asker
        user, name = self._spoken_for(request.headers, asked)
        return await self._identify(request, user, name) if user else asker

    def _spoken_for(self, headers: Mapping[str, str], asked: _Asked) -> tuple[str, str]:
        """Id and name of whom the program speaks for, or "" and "".

        What Open WebUI itself says comes before the body, to which its users can add fields. Where it signs
        that, nothing else of it counts.

        Raises:
            Problem: 401, it does not hold.
        """
        token, user = (headers.get(f"{_OPEN_WEBUI}User-{name}", "") for name in ("Jwt", "Id"))
        if self._forwarded is not None and any(name.lower().startswith(_FROM_OPEN_WEBUI) for name in headers):
            return self._forwarded.verified(token)
        if token:
            raise Problem(
                401, "Not let in", "To check X-OpenWebUI-User-Jwt, set PIXI_HTTP__OPEN_WEBUI_SECRET."
            )
        if user and "{{" not in user:
            return user, unquote(headers.get(f"{_OPEN_WEBUI}User-Name", ""))
        return ("", "") if "{{" in asked.user else (asked.user, "")

    async def _task(self, task: Task, asked: _Asked) -> str:
        answer = await self._backend.helper_answer(asked.last[:_TASK_LETTERS])
        return answer or answer_by_rule(task, asked.last, as_json=asked.json)

    def _named(self, request: web.Request, asked: _Asked) -> tuple[str, bool]:
        """The name of the talk, "" for none, and whether the program sends all that it has of it."""
        own = request.headers.get("X-Pixi-Conversation", "") or asked.talk
        programs = (request.headers.get(name, "") for name in self._settings.conversation_headers)
        theirs = next((name for name in programs if "{{" not in name and name not in _NO_NAMES), "")
        name = own or theirs
        if len(name) > _NAME_LETTERS or not name.isprintable():
            raise _RefusedError(
                400, "The conversation's name must be 1 to 128 printable characters.", param="conversation"
            )
        return name, not own

    async def _turn(self, request: web.Request, asker: Principal, asked: _Asked) -> tuple[Turn, str]:
        """The turn that the request asks for, and the digest that a retry of it has too."""
        name, complete = self._named(request, asked)
        key = request.headers.get("Idempotency-Key", "")
        said = (f"{line.role}:{line.text}" for line in asked.told)
        files = (f"{each.id}{each.url}" for each in asked.files)
        mark = _digest(asker.id, asked.model, name, key, asked.last, *said, *files)
        told: tuple[Said, ...] = ()
        async with self._choosing:
            if (talk := await self._same(asker, asked.model, mark, key)) is None:
                message_id = f"idem:{_digest(asker.id, asked.model, key or uuid.uuid4().hex)}"
                talk = (name or uuid.uuid4().hex, message_id)
                match await self._find(asker, asked, name, complete):
                    case Append(kept):
                        talk = (kept, message_id)
                    case Branch(kept, cut):
                        talk = (kept, message_id)
                        await self._backend.branch_talk(asker.id, asked.model, kept, cut)
                    case Transient(lines):
                        told = lines
                    case Begin():
                        pass
            self._note(mark, talk)
        turn = Turn(
            persona=asked.model,
            talk=talk[0],
            message_id=talk[1],
            text=asked.last,
            app_says=asked.system if self._settings.system == "note" else "",
            told=told,
            attachments=asked.files,
        )
        return turn, mark

    async def _same(self, asker: Principal, persona: str, mark: str, key: str) -> tuple[str, str] | None:
        """The talk and the message of which this request is a retry; None: it is none."""
        talk = self._under_way.get(mark)
        if talk and (mark in self._answering or self._backend.running(asker.id, persona, talk[0])):
            return talk
        if not key:
            return None
        message_id = f"idem:{_digest(asker.id, persona, key)}"
        name = await self._backend.talk_with(asker.id, persona, message_id)
        return None if name is None else (name, message_id)

    async def _find(
        self, asker: Principal, asked: _Asked, name: str, complete: bool
    ) -> Append | Branch | Begin | Transient:
        silence = self._settings.silence
        if name:
            kept = await self._backend.kept_talk(asker.id, asked.model, name)
            if kept is None:
                return Transient(asked.told) if asked.told else Begin()
            return reconcile_named(asked.told, kept, complete=complete, silence=silence)
        if not asked.told:
            return Begin()
        talks = await self._backend.kept_talks(asker.id, asked.model, _TALKS)
        return reconcile(asked.told, talks, silence=silence)

    def _note(self, mark: str, talk: tuple[str, str]) -> None:
        self._under_way.pop(mark, None)
        self._under_way[mark] = talk
        self._answering.add(mark)
        while len(self._under_way) > _RUNNING:
            self._under_way.pop(next(iter(self._under_way)))

    async def _stop(self, asker: Principal, turn: Turn, number: int) -> None:
        await self._backend.stop_talk(asker.id, turn.persona, turn.talk, number)


async def _each(events: Sequence[Event]) -> AsyncGenerator[Event, None]:
    for event in events:
        yield event


async def _until_cut(
    events: AsyncGenerator[Event, None],
    face: ChatCompletionStream,
    stop: Callable[[int], Awaitable[None]] | None,
    *,
    feed: bool = False,
) -> AsyncGenerator[Event, None]:
    """The events; once the text is as long as it may be, the turn is stopped. `feed`: nobody else feeds the
    face."""
    async for event in events:
        yield event
        if feed:
            face.feed(event)
        if stop is not None and face.cut:
            await stop(int(event.get("turn", 0)))
            stop = None


async def _body(request: web.Request) -> Mapping[str, Any]:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = json.loads(await request.read())
    except TimeoutError:
        raise _RefusedError(408, f"The body must arrive within {BODY_SECONDS:g} seconds.") from None
    except web.HTTPRequestEntityTooLarge:
        raise _RefusedError(413, "The body is too large.") from None
    except (ValueError, RecursionError):
        raise _RefusedError(400, "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise _RefusedError(400, "The body must be a JSON object.")
    return body


def _read(body: Mapping[str, Any]) -> _Asked:
    """Check the fields of a request.

    Raises:
        _RefusedError: one is of a wrong type, or there is nothing to answer.
    """
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise _RefusedError(
            400, "model must be the name of a persona; GET /v1/models lists them.", param="model"
        )
    last, files, told, system = _messages(body.get("messages"))
    options = _object(body, "stream_options")
    wanted = _object(body, "response_format").get("type")
    metadata = _object(body, "metadata")
    talk, user = metadata.get("conversation") or "", body.get("user") or ""
    if not isinstance(talk, str) or not isinstance(user, str):
        raise _RefusedError(400, "user and metadata.conversation must be text.", param="user")
    return _Asked(
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


def _messages(messages: Any) -> tuple[str, tuple[Attachment, ...], tuple[Said, ...], str]:
    """What the person says last, the files that go with it, the lines before, and what the program says."""
    if not isinstance(messages, list) or not messages or len(messages) > _MESSAGES:
        raise _RefusedError(400, f"messages must be a list of 1 to {_MESSAGES} messages.", param="messages")
    lines: list[Said] = []
    contents: list[Any] = []
    system: list[str] = []
    for number, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise _RefusedError(
                400, f"messages[{number}] must be an object with a role.", param=f"messages[{number}]"
            )
        text, role = visible_text(message.get("content")), message["role"]
        if role in ("user", "assistant"):
            lines.append(Said(role, text))
            contents.append(message.get("content"))
        elif role in ("system", "developer"):
            system.append(text)
    at = next((at for at in range(len(lines) - 1, -1, -1) if lines[at].role == "user"), -1)
    files = attachments_in(contents[at]) if at >= 0 else ()
    if at < 0 or not (files or lines[at].text.strip()):
        raise _RefusedError(400, "messages has no user message with text to answer.", param="messages")
    return lines[at].text, files, tuple(lines[:at]), "\n\n".join(filter(None, system))[:_SYSTEM_LETTERS]


def _object(body: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _RefusedError(400, f"{name} must be an object.", param=name)
    return value


def _stops(stop: Any) -> tuple[str, ...]:
    stops = [stop] if isinstance(stop, str) else stop or []
    if not isinstance(stops, list) or len(stops) > _STOPS or not all(isinstance(each, str) for each in stops):
        raise _RefusedError(400, f"stop must be a text, or a list of at most {_STOPS}.", param="stop")
    return tuple(each for each in stops if each)


def _bound(body: Mapping[str, Any]) -> int | None:
    name = "max_completion_tokens" if body.get("max_completion_tokens") is not None else "max_tokens"
    bound = body.get(name)
    if bound is None:
        return None
    if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
        raise _RefusedError(400, f"{name} must be a whole number above 0.", param=name)
    return bound


def _digest(*parts: str) -> str:
    """One text of several, which no other several give."""
    return hashlib.blake2b(json.dumps(parts).encode(), digest_size=24).hexdigest()
