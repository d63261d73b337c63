"""Handlers of `/v1`: a persona is a model for programs that speak OpenAI's chat completions."""

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from functools import partial
from typing import Any, Literal
from urllib.parse import unquote

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from pixi.channels.http.access import Principal, Problem, address_of, joint_digest, persona_named
from pixi.channels.http.api import Api
from pixi.channels.http.completion_requests import (
    ChatCompletionRequest,
    CompletionBody,
    Task,
    answer_by_rule,
    read_request,
    refused,
    task_of,
)
from pixi.channels.http.faces.chat_completions import (
    ChatCompletion,
    ChatCompletionStream,
    CompletionOptions,
    error_body,
    text_events,
)
from pixi.channels.http.feed import Form
from pixi.channels.http.jwt import ForwardedUsers
from pixi.channels.http.reconciliation import (
    INSTRUCTIONS_ID,
    LINE_ID,
    LONGEST_LINE,
    ClientLine,
    Continuation,
    KnownTalks,
    Reader,
)
from pixi.channels.http.replies import TalkReply
from pixi.channels.http.requests import json_answer, keyed_request, read_body, server_of
from pixi.channels.http.routes import Route
from pixi.channels.http.streams import write_stream
from pixi.channels.http.talks import Instead, TalkAddress
from pixi.core.errors import PixiError
from pixi.core.message import Author, Quoted
from pixi.store.kept import KeyedRequest

_log = logging.getLogger("pixi.http")

_TASK_LETTERS = 20_000
_NAME_LETTERS = 128
_RUNNING = 1_000
_OPEN_WEBUI = "X-OpenWebUI-"
_FROM_OPEN_WEBUI = _OPEN_WEBUI.lower()
_NO_NAMES = ("", "new", "null", "undefined")
"""Words that programs put into their header where a talk has no name yet."""
_SUMMED_UP = "[CONVERSATION SUMMARY]"
"""Begins Open WebUI's summary of messages that it sends no more, among its instructions."""

Event = Mapping[str, Any]

_Choice = tuple[Continuation, str]
"""The place at which a talk goes on with a message, and the message's id."""


class ShownModel(Struct):
    """A persona as a model: the name of its file, and its own."""

    id: str
    name: str
    object: Literal["model"] = "model"
    created: int = 0
    owned_by: str = "pixi"


class ModelsAnswer(Struct):
    """The personas that somebody may talk to, as models."""

    data: list[ShownModel]
    object: Literal["list"] = "list"


class Completions:
    """The handlers of `/v1`.

    Args:
        api: tells who asks, and has what answers.
        forwarded: checks whom Open WebUI speaks for; None: it is believed without proof.
    """

    def __init__(self, api: Api, forwarded: ForwardedUsers | None = None) -> None:
        self._authenticate = api.authenticate_key
        self._backend = api.backend
        self._store = api.backend.store
        self._talks = api.talks
        self._pictures = api.pictures
        self._rules = api.rules
        self._forwarded = forwarded
        self._known = KnownTalks(api.talks, self._store, api.rules)
        # The talk of each request under way, by a digest of who asks what: a retry attaches to its turn.
        # One that was given no key of its own attaches only while the turn runs: later it asks for another.
        self._under_way: dict[str, _Choice] = {}
        # Two same requests at once must find the same talk.
        self._choosing = asyncio.Lock()

    def routes(self) -> tuple[Route, ...]:
        """Return the table of what is below `/v1`; some programs leave that out."""
        return (*self._below("/v1"), *self._below(""))

    # fmt: off

    def _below(self, base: str) -> tuple[Route, ...]:
        return (
            Route.at(f"GET {base}/models", self.models, "List personas, as models", "chat",
                     response=ModelsAnswer),
            Route.at(f"GET {base}/models/{{id}}", self.model, "See a persona, as a model", "chat",
                     response=ShownModel),
            Route.at(f"POST {base}/chat/completions", self.complete,
                     "Say something to a persona, by OpenAI's chat completions", "chat",
                     request=(CompletionBody,), response=ChatCompletion, streams=True, also=(404, 409, 503)),
        )

    # fmt: on

    async def models(self, request: web.Request) -> web.Response:
        """List the personas that the key may talk to."""
        return json_answer(ModelsAnswer(self._models(await self._authenticate(request))))

    async def model(self, request: web.Request) -> web.Response:
        """Tell of one persona."""
        principal = await self._authenticate(request)
        stem = self._stem(request.match_info["id"], principal)
        return json_answer(ShownModel(stem, self._backend.personas[stem].name))

    async def complete(self, request: web.Request) -> web.StreamResponse:
        """Answer a chat, streamed or whole; or a background task of the program."""
        asked = read_request(await read_body(request))
        principal = await self._who(request, asked)
        asked = replace(asked, model=self._stem(asked.model, principal))
        if task := task_of(request.headers, asked.last, as_json=asked.json):
            events = _one_batch(text_events(await self._task(task, asked)))
            return await self._answer(request, asked, events, CompletionOptions(silence=""))
        if asked.json:
            raise refused(
                400,
                "A persona answers in its own words: leave response_format out.",
                param="response_format",
                code="unsupported_value",
            )
        place, reader, begin = await self._turn(request, principal, asked)
        options = CompletionOptions(
            silence=self._rules.silence,
            reactions=self._rules.reactions,
            notes=self._rules.notes if principal.may("operate") else "hidden",
            stop=asked.stop,
            max_tokens=asked.max_tokens,
            strict=request.headers.get("X-Pixi-Errors", "").strip().lower() == "strict",
        )
        try:
            return await self._answer(
                request,
                asked,
                self._events(place, reader, begin, server_of(request)),
                options,
                partial(self._talks.stop, place.address),
            )
        finally:
            self._known.readers.discard(reader)

    async def _answer(
        self,
        request: web.Request,
        asked: ChatCompletionRequest,
        events: AsyncGenerator[Sequence[Event], None],
        options: CompletionOptions,
        stop: Callable[[int], Awaitable[object]] | None = None,
    ) -> web.StreamResponse:
        answer_id, created = f"chatcmpl-{uuid.uuid4().hex}", int(time.time())
        face = ChatCompletionStream(
            answer_id=answer_id, model=asked.model, created=created, options=options, usage=asked.usage
        )
        if asked.stream:
            return await write_stream(request, face, _until_cut(events, face, stop))
        async for _ in _until_cut(events, face, stop, feed=True):
            pass
        answer, problem = face.whole()
        if problem:
            return web.json_response({"error": error_body(problem)}, status=503)
        return web.json_response(answer)

    def _models(self, principal: Principal) -> list[ShownModel]:
        return [
            ShownModel(stem, persona.name)
            for stem, persona in self._backend.personas.items()
            if principal.knows(stem)
        ]

    def _stem(self, name: str, principal: Principal) -> str:
        """Return the name of a persona's file, by that name or the persona's own.

        Raises:
            Problem: 404, there is no such persona for whoever asks.
        """
        if stem := persona_named(name, self._backend.personas, principal.personas):
            return stem
        known = ", ".join(each.id for each in self._models(principal)) or "none"
        detail = f"There is no persona {name[:80]!r} here. There is: {known}."
        raise refused(404, detail, param="model", code="model_not_found")

    async def _who(self, request: web.Request, asked: ChatCompletionRequest) -> Principal:
        """Return the user that the program names if its key may name one, else the key's owner."""
        principal = await self._authenticate(request)
        if not principal.may("chat:on-behalf"):
            return principal
        user, name = self._spoken_for(request.headers, asked)
        return await self._authenticate(request, user, name) if user else principal

    def _spoken_for(self, headers: Mapping[str, str], asked: ChatCompletionRequest) -> tuple[str, str]:
        """Return the id and the name of the user for whom the program speaks; "" and "" for nobody.

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

    async def _task(self, task: Task, asked: ChatCompletionRequest) -> str:
        """Return the answer to a background task: of the helper model, else by rule."""
        answer = None
        try:
            answer = await self._backend.helper_answer(asked.last[:_TASK_LETTERS])
        except PixiError as error:
            _log.warning("the helper model could not do a task of a chat program: %s", error)
        return answer or answer_by_rule(task, asked.last, as_json=asked.json)

    def _named(self, request: web.Request, asked: ChatCompletionRequest) -> tuple[str, bool]:
        """Return the name of the talk ("": none), and whether the program sends all that it has of it."""
        own = request.headers.get("X-Pixi-Conversation", "") or asked.talk
        programs = (request.headers.get(name, "") for name in self._rules.conversation_headers)
        theirs = [name for name in programs if "{{" not in name and name not in _NO_NAMES]
        name = own or (theirs[0] if theirs else "")
        if len(name) > _NAME_LETTERS or not name.isprintable():
            raise refused(
                400, "The conversation's name must be 1 to 128 printable characters.", param="conversation"
            )
        return name, not own and _SUMMED_UP not in asked.system

    async def _turn(
        self, request: web.Request, principal: Principal, asked: ChatCompletionRequest
    ) -> tuple[TalkAddress, Reader, Callable[[], Awaitable[TalkReply]]]:
        """Return the talk that a request goes on with, who reads the answer, and what says the words."""
        name, complete = self._named(request, asked)
        said = (f"{line.role}:{line.text}" for line in asked.history)
        files = (f"{each.id}{each.url}" for each in asked.files)
        person, persona = principal.id, asked.model
        keyed = keyed_request(request, person, asked, name)
        key = keyed.key if keyed else ""
        request_digest = joint_digest(person, persona, name, key, asked.last, *said, *files)
        async with self._choosing:
            if (choice := await self._repeated(person, persona, request_digest, keyed)) is None:
                message_id = keyed.message if keyed else uuid.uuid4().hex
                found = await self._known.find(person, persona, asked.history, name, complete=complete)
                choice = replace(found, name=found.name or name or uuid.uuid4().hex), message_id
            found, message_id = choice
            place = TalkAddress(principal, persona, found.name)
            self._remember(request_digest, choice)
            reader = Reader(request_digest, place.address, request)
            self._known.readers.add(reader)
        quoted = [
            Quoted(f"{LINE_ID}{n}", _author(each, principal), each.text.strip()[:LONGEST_LINE])
            for n, each in enumerate(found.history)
        ]
        instructions = asked.system if self._rules.system == "append" and principal.may("instruct") else ""
        if asked.system and not instructions and self._rules.system != "ignore":
            quoted.append(Quoted(INSTRUCTIONS_ID, Author("web:app", "the app"), asked.system[:LONGEST_LINE]))

        async def replaces() -> Instead | None:
            answered = await self._store.answer_to(place.address, message_id)
            is_changed = found.turn is not None or found.branch  # a retry cuts nothing more
            return Instead(found.turn, branch=found.branch) if is_changed and answered is None else None

        begin = partial(
            self._talks.begin,
            place,
            asked.last,
            message_id,
            quoted,
            asked.files,
            answers=False,
            replaces=replaces,
            keyed=keyed,
            instructions=instructions,
        )
        return place, reader, begin

    async def _events(
        self, place: TalkAddress, reader: Reader, begin: Callable[[], Awaitable[TalkReply]], server: str
    ) -> AsyncGenerator[Sequence[Event], None]:
        """Say what is asked; yield the events of the turn, up to its end."""

        def told(form: Form) -> Event:
            is_picture = form["event"] == "picture"
            return self._pictures.decorated(form, place.address, server) if is_picture else form

        reply = await begin()
        reader.asked = True
        async with aclosing(reply.events()) as events:
            async for some in events:
                yield [told(form) for form in some]

    async def _repeated(
        self, person: str, persona: str, request_digest: str, keyed: KeyedRequest | None
    ) -> _Choice | None:
        """Return the choice made for the request that this one repeats; None: it repeats none."""
        choice = self._under_way.get(request_digest)
        if choice and (
            any(each.request_digest == request_digest for each in self._known.readers)
            or self._known.is_running(address_of(person, persona, choice[0].name))
        ):
            return choice
        known = None if keyed is None else await self._store.request(keyed.key)
        return None if known is None else (Continuation(known.name), known.message)

    def _remember(self, request_digest: str, choice: _Choice) -> None:
        self._under_way.pop(request_digest, None)
        self._under_way[request_digest] = choice
        while len(self._under_way) > _RUNNING:
            self._under_way.pop(next(iter(self._under_way)))


def _author(said: ClientLine, principal: Principal) -> Author | None:
    """Return the author of a line that a program tells; None: the persona."""
    return Author(principal.id, principal.name) if said.role == "user" else None


async def _one_batch(events: Sequence[Event]) -> AsyncGenerator[Sequence[Event], None]:
    yield events


async def _until_cut(
    events: AsyncGenerator[Sequence[Event], None],
    face: ChatCompletionStream,
    stop: Callable[[int], Awaitable[object]] | None,
    *,
    feed: bool = False,
) -> AsyncGenerator[Sequence[Event], None]:
    """Yield the events. Once the text is as long as it may be, the turn is stopped.

    It is stopped at the end of the message in which the text ends: what is not said whole stands nowhere, and
    then the program's next history would be no talk's.

    Args:
        stop: stops the turn of this number; None: nothing does.
        feed: nobody else feeds the face.
    """
    grows, last = "", None  # the message that grows, and the one in which the text ended
    async for some in events:
        yield some
        for event in some:
            if feed:
                face.feed(event)
            match event["event"]:
                case "text":
                    grows = event["id"]
                case "send" if event["id"] == grows:
                    grows = ""
        if face.cut and last is None:
            last = grows
        if stop is not None and last is not None and (not last or grows != last):
            await stop(int(some[-1].get("turn", 0)))
            stop = None
