"""Handlers below `/api`: say something, follow it, stop it, answer a question, read what was said."""

import hashlib
import re
import uuid
from collections.abc import AsyncGenerator, Callable
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from pixi.channels.http.access import MOST_CHARACTERS, Access, Principal
from pixi.channels.http.backend import Backend
from pixi.channels.http.bodies import (
    ApprovalRequest,
    ChatAnswer,
    ChatRequest,
    Done,
    Health,
    MessagesAnswer,
    MessagesQuery,
    PersonasAnswer,
    PersonaShown,
    RichContent,
    ShownMessage,
    ShownReaction,
    StopAnswer,
    StopRequest,
    TalkMessage,
    TalkQuery,
)
from pixi.channels.http.faces.native import NativeStream
from pixi.channels.http.feed import Form
from pixi.channels.http.problems import Problem
from pixi.channels.http.rules import HttpRules
from pixi.channels.http.streams import read_body, write_stream
from pixi.channels.http.talks import Place, Reply, Talks, acts_of, messages_reacted_to
from pixi.core.card import card_json
from pixi.core.events import Reacted, Sent, Shown, Verdict

_EVENT = re.compile(r"(\d{1,18})\.(\d{1,9})")
T = TypeVar("T")

_STREAM = "text/event-stream"


class Api:
    """The handlers.

    Args:
        backend: answers.
        talks: what is said, and what comes of it.
        access: tells who asks.
        rules: what the operator decided.
        count: counts a request of a caller, and raises `Problem` for one too many.
    """

    def __init__(
        self,
        backend: Backend,
        talks: Talks,
        access: Access,
        rules: HttpRules,
        count: Callable[[str], None],
    ) -> None:
        self._backend = backend
        self._talks = talks
        self._access = access
        self._rules = rules
        self._count = count
        self.openapi = b""  # the description of the API, set once all routes are known

    async def who(self, request: web.Request, user_id: str = "", user_name: str = "") -> Principal:
        """Tell who asks, who may talk, and count the request.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        principal = await self._access.identify(
            request.headers, request.remote, user_id=user_id, user_name=user_name
        )
        principal.require("chat")
        self._count(principal.id)
        return principal

    # Talking.

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Say something to a persona; its answer comes whole, or as a stream of events."""
        asked = _decoded(await read_body(request), ChatRequest)
        principal = await self.who(request, asked.userId or "", asked.userName or "")
        streams = _STREAM in request.headers.get("Accept", "")
        key = request.headers.get("Idempotency-Key", "")
        if len(key) > MOST_CHARACTERS:
            raise Problem(400, "Bad key", f"Idempotency-Key holds {MOST_CHARACTERS} characters at most.")
        message_id = f"idem:{_digest(principal.id, key)}" if key else uuid.uuid4().hex
        name = asked.conversation or (_digest("talk", message_id) if key else uuid.uuid4().hex)
        place = Place(principal, self._persona(principal, asked.persona), name)
        reply = await self._talks.begin(place, asked.message, message_id)
        if streams:
            face = NativeStream(tools=self._rules.show_tools)
            return await write_stream(request, face, _named(reply.events(), place))
        if reply.known and not reply.over:
            raise Problem(
                409,
                "Still being answered",
                "The same request came before and is being answered. Ask again in a moment, or as a stream.",
                headers={"Retry-After": "2"},
            )
        return _json(await _whole(reply, place))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Follow the turn under way: from its beginning, or behind the event in `Last-Event-ID`."""
        place = await self._place(request)
        channel = self._talks.channels.known(place.address)
        given = _EVENT.fullmatch(request.headers.get("Last-Event-ID", "").strip())
        after = (
            None if channel is None or given is None else channel.feed.place_after(*map(int, given.groups()))
        )
        if channel is None or (channel.feed.idle and (after is None or after == channel.feed.count)):
            return web.Response(status=204)
        feed = channel.feed
        begin = feed.begin_of_turn() if after is None else after

        async def events() -> AsyncGenerator[Form, None]:
            async for form in feed.follow(begin, lambda: feed.idle):
                yield form

        return await write_stream(
            request, NativeStream(tools=self._rules.show_tools), _named(events(), place)
        )

    async def stop(self, request: web.Request) -> web.StreamResponse:
        """Stop the reply that is being written; what was delivered stands."""
        place = await self._place(request)
        body = await read_body(request)
        asked = _decoded(body, StopRequest) if body else StopRequest()
        channel = self._talks.channels.known(place.address)
        other = asked.turn is not None and (channel is None or channel.feed.turn != asked.turn)
        return _json(StopAnswer(not other and await self._backend.stop(place.address)))

    async def approve(self, request: web.Request) -> web.StreamResponse:
        """Say yes or no to what a persona asks before it acts."""
        place = await self._place(request)
        place.person.require("approve")
        asked = _decoded(await read_body(request), ApprovalRequest)
        channel = self._talks.channels.known(place.address)
        verdict: Verdict = "yes" if asked.approved else "no"
        if channel is None or not channel.answer(request.match_info["aid"], place.person.id, verdict):
            raise Problem(
                404, "No such question", "Nothing waits for this answer: it came too late, or was given."
            )
        return _json(Done())

    async def reset(self, request: web.Request) -> web.StreamResponse:
        """Forget what was said in a talk."""
        place = await self._place(request)
        await self._backend.reset(place.address)
        return _json(Done())

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Tell what was said in a talk, the latest messages first asked for and oldest first told."""
        place = await self._place(request)
        asked_for = _queried(request, MessagesQuery)
        store = self._backend.store
        records = await store.turns(place.address, asked_for.limit + 1, asked_for.before or None)
        chosen = records[-asked_for.limit :]
        asked = await store.messages_of([each.id for each in chosen])
        told: list[TalkMessage] = []
        for record in chosen:
            messages = asked.get(record.id, ())
            theirs = [TalkMessage(each.id, "user", each.text, record.id, each.sent_at) for each in messages]
            told += theirs
            earlier = await messages_reacted_to(store, record)
            for event in acts_of(record, messages[-1].id if messages else "", earlier):
                match event:
                    case Sent(text, act):
                        told.append(TalkMessage(act, "assistant", text, record.id))
                    case Shown(card, act):
                        told.append(TalkMessage(act, "assistant", "", record.id, cards=[card_json(card)]))
                    case Reacted(emoji, act, message) if theirs:
                        on = next((each for each in told if each.id == message), theirs[-1])
                        on.reactions = [*on.reactions, ShownReaction(act, emoji, message)]
                    case _:
                        pass
        return _json(MessagesAnswer(place.name, told, more=len(records) > len(chosen)))

    async def personas(self, request: web.Request) -> web.StreamResponse:
        """List the personas that the caller may talk to."""
        principal = await self.who(request)
        shown = [
            PersonaShown(name, each.name, each.about)
            for name, each in self._backend.personas.items()
            if principal.knows(name)
        ]
        return _json(PersonasAnswer(shown, self._backend.default_persona))

    # The server itself.

    async def health(self, request: web.Request) -> web.StreamResponse:
        """Say that the server answers."""
        return _json(Health())

    async def description(self, request: web.Request) -> web.StreamResponse:
        """Describe the API as OpenAPI 3.1."""
        return web.Response(body=self.openapi, content_type="application/json")

    def _persona(self, principal: Principal, name: str | None) -> str:
        wanted = name or self._backend.default_persona
        if wanted not in self._backend.personas or not principal.knows(wanted):
            known = ", ".join(each for each in self._backend.personas if principal.knows(each)) or "none"
            raise Problem(404, "No such persona", f"There is no persona of that name. There is: {known}.")
        return wanted

    async def _place(self, request: web.Request) -> Place:
        """The talk that a path names, of whoever asks.

        Raises:
            Problem: they are not let in, or there is no such talk of theirs.
        """
        principal = await self.who(request, request.query.get("userId", ""))
        query = _queried(request, TalkQuery)
        name = request.match_info["id"]
        kept = await self._backend.store.talk(principal.id, name, query.persona or "")
        if kept is None or not principal.knows(kept.persona):
            raise Problem(404, "No such conversation", "You have no conversation of that name.")
        return Place(principal, kept.persona, name)


async def _whole(reply: Reply, place: Place) -> ChatAnswer:
    """Wait for all of a reply."""
    messages: list[ShownMessage] = []
    cards: list[dict[str, Any]] = []
    reactions: list[ShownReaction] = []
    errors: list[str] = []
    turn, finish, usage = 0, "cancelled", {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
    async for event in reply.events():
        match event:
            case {"event": "turn_start"}:
                turn = event["turn"]
            case {"event": "send", "id": act, "text": text}:
                messages.append(ShownMessage(act, text))
            case {"event": "card"}:
                cards.append({name: event[name] for name in ("id", "type", "version", "data", "fallback")})
            case {"event": "react", "id": act, "emoji": emoji, "message": message}:
                reactions.append(ShownReaction(act, emoji, message))
            case {"event": "error", "text": text}:
                errors.append(text)
            case {"event": "turn_end"}:
                finish, usage = event["finish"], event["usage"]
            case _:
                pass
    text = "\n\n".join(each.text for each in messages)
    rich = RichContent(cards[-1]["type"], cards[-1]["data"]) if cards else None
    answer = ChatAnswer(text, text, rich, messages, cards, reactions, place.name, turn, finish, usage)
    if errors:
        answer.error = errors[-1]
    return answer


async def _named(events: AsyncGenerator[Form, None], place: Place) -> AsyncGenerator[Form, None]:
    """Yield events that name talk and persona as the client does."""
    names = {"conversation": place.name, "persona": place.persona}
    async for form in events:
        yield form | names if form["event"] == "turn_start" else form


def _decoded(body: bytes, kind: type[T]) -> T:
    """Read a body.

    Raises:
        Problem: 400, it is no JSON; 422, a field of it is wrong.
    """
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        detail, pointer = _place_of(error)
        raise Problem(
            422,
            "A field is wrong",
            f"{detail}{f' (at {pointer})' if pointer else ''}.",
            errors=({"pointer": pointer, "detail": detail},),
        ) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        detail = "it is nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise Problem(400, "No JSON", f"The body must be one JSON object: {detail}.") from None


def _queried(request: web.Request, kind: type[T]) -> T:
    """Read what stands behind `?`.

    Raises:
        Problem: 400, a parameter is wrong.
    """
    try:
        return msgspec.convert(dict(request.query), kind, strict=False)
    except msgspec.ValidationError as error:
        detail, pointer = _place_of(error)
        raise Problem(
            400,
            "A parameter is wrong",
            f"{pointer.removeprefix('/')}: {detail}.",
            errors=({"pointer": pointer, "detail": detail},),
        ) from None


def _place_of(error: msgspec.ValidationError) -> tuple[str, str]:
    """Return what is wrong, and a JSON pointer to the field; "" for the whole."""
    detail, _, path = str(error).partition(" - at `$")
    return detail, re.sub(r"\.|\[(\d+)\]", r"/\1", path.rstrip("`"))


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _json(value: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(value), content_type="application/json")
