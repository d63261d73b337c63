"""Handlers below `/api`: say something, follow it, stop it, answer a question, read what was said."""

import asyncio
import re
import uuid
from collections.abc import AsyncGenerator, Callable, Collection, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from aiohttp import web
from msgspec import UnsetType
from msgspec.structs import replace

from pixi.channels.engine import HttpBackend
from pixi.channels.http import bodies
from pixi.channels.http.access import (
    LOCAL,
    PLAIN,
    Access,
    Principal,
    Problem,
    address_of,
    bearer_of,
    joint_digest,
    persona_named,
)
from pixi.channels.http.attachments import MOST_ATTACHMENTS, attachments_in
from pixi.channels.http.faces import ag_ui, ai_sdk
from pixi.channels.http.faces.messages import adaptive, last_turn
from pixi.channels.http.faces.native import NativeStream, whole_answer
from pixi.channels.http.feed import SILENCE, Form, HttpChannel, Protocol
from pixi.channels.http.files import Files
from pixi.channels.http.operators import Operators
from pixi.channels.http.pictures import ShownPictures
from pixi.channels.http.requests import (
    decode_body,
    has_messages,
    idempotency_key,
    json_answer,
    keyed_request,
    protocol_of,
    read_body,
    read_query,
    said_by_page,
    server_of,
    wants_adaptive,
    words_in,
    wrong_field,
)
from pixi.channels.http.streams import Events, Face, write_stream
from pixi.channels.http.talks import Instead, TalkAddress, Talks, id_with_run
from pixi.channels.http.visitors import HttpLimits, Visitors, network_of
from pixi.core.message import words_of
from pixi.core.persona import Persona
from pixi.settings.rules import HttpRules
from pixi.store.kept import SentFile

_EVENT = re.compile(r"(\d{1,18})\.(\d{1,9})")

_STREAM = "text/event-stream"


@dataclass(eq=False)
class Api:
    """The handlers.

    Args:
        backend: answers.
        talks: what is said, and what comes of it.
        access: tells who asks.
        rules: what the operator decided.
        visitors: lets visitors in.
        limits: counts requests.
        files: those that people send.
        pictures: gives them addresses here.
    """

    backend: HttpBackend
    talks: Talks
    access: Access
    rules: HttpRules
    visitors: Visitors
    limits: HttpLimits
    files: Files
    pictures: ShownPictures
    # Set when the server stops: what streams ends then.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    # Makes the description of the API; set once all routes are known.
    describe: Callable[[], bytes] = bytes

    def __post_init__(self) -> None:
        self.operators = Operators(self.access, self.limits, self._identify)

    async def authenticate(
        self, request: web.Request, user_id: str = "", user_name: str = "", scope: str = "chat"
    ) -> Principal:
        """Tell who asks, who has the scope, and count the request.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        principal = await self._identify(request, user_id, user_name)
        principal.require(scope)
        if principal.is_visitor:
            principal = replace(principal, network=self._network(request))
        await self.limits.request(principal)
        return principal

    async def caller(self, request: web.Request) -> Principal:
        """Tell who asks, or for which user, where the query names one.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        return await self.authenticate(request, read_query(request, bodies.UserQuery).userId or "")

    async def _identify(self, request: web.Request, user_id: str = "", user_name: str = "") -> Principal:
        """Tell who asks, and count a wrong key.

        Raises:
            Problem: they are not let in, or too many wrong keys came from their network.
        """
        try:
            return await self.access.identify(
                request.headers, request.remote, user_id=user_id, user_name=user_name
            )
        except Problem as problem:
            if problem.status == 401 and bearer_of(request.headers):
                await self.limits.refused(self._network(request))
            raise

    async def authenticate_key(
        self, request: web.Request, user_id: str = "", user_name: str = "", scope: str = "chat"
    ) -> Principal:
        """Tell who asks, as `authenticate` does, where visitors have no business.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        principal = await self.authenticate(request, user_id, user_name, scope)
        if principal.is_visitor:
            raise Problem(403, "Not allowed", "Visitors talk by /api/chat, and not here.")
        return principal

    async def visitor(self, request: web.Request) -> web.StreamResponse:
        """Let a visitor of a page in, or let one stay who is known."""
        network = self._network(request)
        await self.limits.knock(network)
        key = await self.visitors.key_for_page(bearer_of(request.headers), request.headers)
        body = await read_body(request)
        asked = decode_body(body, bodies.VisitorRequest) if body else bodies.VisitorRequest()
        admitted, is_new = await self.visitors.begin(key, request.headers, asked.token)
        if is_new:
            await self.limits.new_visitor(network)
        person = admitted.person
        return json_answer(
            bodies.VisitorAnswer(
                admitted.token,
                admitted.expires,
                person.id,
                not is_new,
                self._personas(person),
                self._default_persona(person),
            )
        )

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let an operator in, with a browser."""
        return await self.operators.enter(request, self._network(request))

    def _network(self, request: web.Request) -> str:
        """Return where a request comes from, see `network_of`."""
        header = self.rules.address_header
        return network_of(request.remote, request.headers.get(header, "") if header else "")

    # Talking.

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """Say something to a persona; its answer comes whole, or as a stream of events."""
        body = await read_body(request)
        if has_messages(body):
            return await self._ui_chat(request, body)
        are_adaptive = wants_adaptive(request)
        protocol_of(request, "native")  # there is one for such a body, but a wrong name is not passed over
        asked = decode_body(body, bodies.ChatRequest)
        principal = await self.authenticate(request, asked.userId or "", asked.userName or "")
        if not (asked.message or asked.attachments or asked.replaces):
            raise Problem(
                422,
                "A field is wrong",
                "message is empty: write something, or send a file with it.",
                errors=({"pointer": "/message", "detail": "it is empty"},),
            )
        if asked.replaces and not asked.conversation:
            raise wrong_field("/conversation", "Name the conversation in which that message stands.")
        streams, follows = _STREAM in request.headers.get("Accept", ""), _wants_no_answer(request)
        persona = self._persona_for(principal, asked.persona)
        keyed = keyed_request(request, principal.id, asked, persona)
        message_id = keyed.message if keyed else uuid.uuid4().hex
        name = asked.conversation or (joint_digest("talk", message_id) if keyed else uuid.uuid4().hex)
        talk = TalkAddress(principal, persona, name)
        replaces = None
        if asked.replaces:
            replaces = partial(self.talks.in_place_of, talk.address, message_id, asked.replaces)
        reply = await self.talks.begin(
            talk,
            asked.message,
            message_id,
            (),
            asked.attachments,
            is_new=not keyed,
            replaces=replaces,
            keyed=keyed,
            # Who has the answer whole can go on after a question only where they may answer it.
            answers=streams or follows or principal.may("approve"),
        )
        channel = self.talks.channels.at(talk.address)
        decorate = self.decorator(request, talk, are_adaptive)
        if follows:
            mark = channel.feed.mark_of(reply.place)
            return json_answer(bodies.SaidAnswer(name, reply.message_id, mark), status=202)
        if streams:
            face = NativeStream(tools=self.rules.show_tools, resumable=not reply.over)
            return await write_stream(request, face, reply.events(resumes=True), decorate)
        is_asking = channel.is_asking and channel.feed.turn == reply.turn
        if reply.known and not reply.over and not is_asking:
            raise Problem(
                409,
                "Still being answered",
                "The same request came before and is being answered. Ask again in a moment, or as a stream.",
                headers={"Retry-After": "2"},
                turn=reply.turn,
            )
        return json_answer(await whole_answer(reply.events(pauses=True), talk.name, decorate))

    async def _ui_chat(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Answer a page that talks by AI SDK. It shows people the body of an error as it is: plain words."""
        request[PLAIN] = True
        asked = decode_body(body, ai_sdk.UiRequest)
        principal = await self.authenticate(request, asked.userId or "", asked.userName or "")
        talk = TalkAddress(principal, self._persona_for(principal, asked.persona), asked.id)
        are_adaptive, protocol = wants_adaptive(request), protocol_of(request, "ai-sdk")
        pauses = protocol == "ai-sdk-6"
        last = asked.messages[-1]
        if verdicts := ai_sdk.verdicts_of(last):
            channel = await self.talks.answer(talk, verdicts)
            events: Events = channel.turn_from(_after_questions(channel, verdicts), pauses=pauses)
        else:
            files = attachments_in(last.get("parts"))
            at = f"/messages/{len(asked.messages) - 1}"
            message_id, text = said_by_page(last, words_in(last.get("parts")), at, files)
            replaces = partial(self._replaced, talk, asked, message_id, text)
            keyed = keyed_request(request, principal.id, asked, talk.persona, message_id=message_id)
            reply = await self.talks.begin(talk, text, message_id, (), files, replaces=replaces, keyed=keyed)
            events = reply.events(pauses=pauses)
        self.talks.channels.at(talk.address).protocol = protocol
        return await write_stream(
            request, self._face(protocol, principal), events, self.decorator(request, talk, are_adaptive)
        )

    async def _replaced(
        self, talk: TalkAddress, asked: ai_sdk.UiRequest, message_id: str, text: str
    ) -> Instead | None:
        """Return the place of a message that is edited, is to be answered anew, or goes on with an answer
        that was set aside; None: it is none of these."""
        seen = {str(each.get("id")) for each in asked.messages[:-1]}
        turn = last_turn(asked.messages[:-1])
        if back := await self.talks.restored_at(talk.address, turn, message_id, seen):
            return back
        answered = await self.backend.store.answer_to(talk.address, message_id)
        if answered is None or answered.turn is None:
            return None
        before = None if answered.text is None else words_of(answered.text)
        edited = asked.messageId == message_id and before != words_of(text)
        if not edited and asked.trigger != "regenerate-message":
            return None
        return await self.talks.cut_at(answered.turn.id, seen)

    async def run(self, request: web.Request) -> web.StreamResponse:
        """Answer a page that talks by AG-UI."""
        asked = decode_body(await read_body(request), ag_ui.RunInput)
        props = asked.forwardedProps or ag_ui.Forwarded()
        principal = await self.authenticate(request, props.userId or "", props.userName or "")
        persona = read_query(request, bodies.PersonaQuery).persona or props.persona
        talk = TalkAddress(principal, self._persona_for(principal, persona), asked.threadId)
        if asked.resume:
            verdicts = ag_ui.verdicts_of(asked.resume)
            channel = await self.talks.answer(talk, verdicts)
            events: Events = channel.turn_from(_after_questions(channel, verdicts), pauses=True)
        else:
            people = [each for each in asked.messages if each.get("role") == "user"]
            if not people:
                raise wrong_field("/messages", "There is no message of a user to answer.")
            place_of_last = asked.messages.index(people[-1])
            content = people[-1].get("content")
            files = attachments_in(content)
            at = f"/messages/{place_of_last}"
            words = content if isinstance(content, str) else words_in(content)
            client_id, text = said_by_page(people[-1], words, at, files)
            message_id = id_with_run(client_id, asked.runId)
            seen = {str(each.get("id")) for each in people[:-1]}
            turn = last_turn(asked.messages[:place_of_last])
            replaces = partial(self._branched, talk, client_id, message_id, seen, turn)
            keyed = keyed_request(request, principal.id, asked, talk.persona, message_id=message_id)
            reply = await self.talks.begin(talk, text, message_id, (), files, replaces=replaces, keyed=keyed)
            events = reply.events(pauses=True)
        tools, notes = self.rules.show_tools, self._shows_notes(principal)
        face = ag_ui.AgUiStream(asked.threadId, asked.runId, tools=tools, notes=notes)
        return await write_stream(request, face, events, self.decorator(request, talk, are_adaptive=False))

    async def _branched(
        self, talk: TalkAddress, client_id: str, message_id: str, seen: Collection[str], last: int
    ) -> Instead | None:
        """Return where a client's talk leaves the one on record; None: the same run comes again."""
        if await self.backend.store.answer_to(talk.address, message_id) is not None:
            return None
        if back := await self.talks.restored_at(talk.address, last, client_id, seen):
            return back
        turn = await self.talks.branch_point(talk.address, client_id, seen)
        return await self.talks.cut_at(turn, seen)

    def _face(self, protocol: Protocol, principal: Principal) -> Face:
        tools = self.rules.show_tools
        if protocol == "native":
            return NativeStream(tools=tools)
        notes = self._shows_notes(principal)
        return ai_sdk.AiSdkStream(newer=protocol == "ai-sdk-6", tools=tools, notes=notes)

    def _shows_notes(self, principal: Principal) -> bool:
        """Return True if notes, which are the persona's own, are shown: to operators alone, by a setting."""
        return self.rules.notes == "reasoning" and principal.may("operate")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Follow the turn under way: from its beginning, or behind the event in `Last-Event-ID`.

        It comes in the protocol in which the talk was spoken to, or the one that is asked for.
        """
        talk = await self.talk(request)
        channel = await self.talks.peers.join(talk.address)
        feed = channel.feed
        given = _EVENT.fullmatch(request.headers.get("Last-Event-ID", "").strip())
        after = None
        if given is not None:
            turn, seq = map(int, given.groups())
            # What was forgotten, or taken out of the talk, is not told from memory.
            if turn == feed.turn or await self.talks.has_turn(talk.address, turn):
                after = feed.place_after(turn, seq)
        spoken = channel.protocol if after is None else "native"
        are_adaptive, protocol = wants_adaptive(request), protocol_of(request, spoken)
        if feed.idle and (after is None or not feed.ends_after(after)):
            return web.Response(status=204)
        face = self._face(protocol, talk.person)
        if protocol == "native":
            begin = feed.begin_of_turn() if after is None else after
            events = feed.follow(begin, lambda: feed.idle)
        else:
            events = channel.turn_from(feed.begin_of_turn(), pauses=protocol == "ai-sdk-6")
        return await write_stream(
            request, face, _alive_first(events), self.decorator(request, talk, are_adaptive)
        )

    async def stop(self, request: web.Request) -> web.StreamResponse:
        """Stop the reply that is being written; what was delivered stands."""
        talk = await self.talk(request)
        body = await read_body(request)
        asked = decode_body(body, bodies.StopRequest) if body else bodies.StopRequest()
        return json_answer(bodies.StopAnswer(await self.talks.stop(talk.address, asked.turn)))

    async def approve(self, request: web.Request) -> web.StreamResponse:
        """Say yes or no to what a persona asks before it acts."""
        talk = await self.talk(request)
        asked = decode_body(await read_body(request), bodies.ApprovalRequest)
        await self.talks.answer(talk, {request.match_info["aid"]: asked.approved})
        return json_answer(bodies.Done())

    async def personas(self, request: web.Request) -> web.StreamResponse:
        """List the personas that the caller may talk to."""
        principal = await self.authenticate(request)
        can = bodies.Abled(
            files=not principal.is_visitor,
            approvals=principal.may("approve"),
            characters=bodies.MOST_LETTERS,
            attachments=MOST_ATTACHMENTS,
            fileBytes=self.rules.max_file_bytes,
        )
        return json_answer(
            bodies.PersonasAnswer(self._personas(principal), self._default_persona(principal), can)
        )

    def decorator(
        self, request: web.Request, talk: TalkAddress, are_adaptive: bool
    ) -> Callable[[Form], Form]:
        """Return what gives events the names that the client knows, and cards the form that it wants."""
        server = server_of(request)

        def decorated(form: Form) -> Form:
            match form["event"]:
                case "turn_start":
                    return form | {"conversation": talk.name, "persona": talk.persona}
                case "card":
                    card = self.pictures.decorated(form, talk.address)
                    return adaptive(card) if are_adaptive else card
                case "picture":
                    return self.pictures.decorated(form, talk.address, server)
                case _:
                    return form

        return decorated

    # Files.

    async def take_file(self, request: web.Request) -> web.StreamResponse:
        """Keep a file that somebody sends."""
        principal = await self.authenticate_key(request, read_query(request, bodies.UserQuery).userId or "")
        file = await self.files.take(request, principal.id, idempotency_key(request))
        return json_answer(
            bodies.FileAnswer(file.id, f"/api/files/{file.id}", file.media_type, file.size, file.name)
        )

    async def give_file(self, request: web.Request) -> web.StreamResponse:
        """Give a file back to whose it is."""
        return await self.files.answer(await self._sent_file(request))

    async def drop_file(self, request: web.Request) -> web.StreamResponse:
        """Keep a file no longer."""
        await self.files.drop(await self._sent_file(request))
        return json_answer(bodies.Done())

    async def _sent_file(self, request: web.Request) -> SentFile:
        principal = await self.caller(request)
        return await self.files.of(principal.id, request.match_info["id"])

    # The server itself.

    async def health(self, request: web.Request) -> web.StreamResponse:
        """Say that the server answers."""
        return json_answer(bodies.Health())

    async def ready(self, request: web.Request) -> web.StreamResponse:
        """Say that replies can be begun.

        Raises:
            Problem: 503, none can, with the reason.
        """
        if why := await self.backend.unready():
            raise Problem(503, "Not ready", why)
        return json_answer(bodies.Health())

    async def metrics(self, request: web.Request) -> web.StreamResponse:
        """Give the metrics to the person at this machine, and to operators.

        Raises:
            Problem: it is neither.
        """
        if (await self._identify(request)).id != LOCAL:
            await self.operators.authenticate(request)
        body, kind = await self.backend.scraped(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def description(self, request: web.Request) -> web.StreamResponse:
        """Describe the API as OpenAPI 3.1."""
        return web.Response(body=self.describe(), content_type="application/json")

    def _personas(self, principal: Principal) -> list[bodies.PersonaShown]:
        """Return the personas that somebody may talk to."""
        return [
            bodies.PersonaShown(
                name,
                each.name,
                each.about,
                avatar=self._avatar(each),
                language=each.language,
                direction=each.direction,
                starters=[example.said for example in each.examples if 0 < len(example.said) <= 80][:3],
                sees=self.backend.sees(address_of(principal.id, name, "")),
            )
            for name, each in self.backend.personas.items()
            if principal.knows(name)
        ]

    def _avatar(self, persona: Persona) -> str:
        """Return the path of a persona's picture on this server; "" if there is none."""
        if not persona.avatar:
            return ""
        is_file = not persona.avatar.startswith("https://")
        return self.pictures.url(Path(persona.avatar) if is_file else persona.avatar)

    def _default_persona(self, principal: Principal) -> str:
        """Return the persona that answers a caller who names none: the default if they may ask it."""
        usual = self.backend.default_persona
        if principal.knows(usual):
            return usual
        known = [name for name in self.backend.personas if principal.knows(name)]
        return known[0] if known else usual

    def persona_file(self, name: str | UnsetType | None, principal: Principal) -> str:
        """Return the name of the file of the persona that a client names, "" where it names none; a name that
        no persona has is given back.
        """
        if not name:
            return ""
        return persona_named(name, self.backend.personas, principal.personas) or name

    def _persona_for(self, principal: Principal, name: str | None) -> str:
        """Return the name of the file of the persona that is to answer.

        Raises:
            Problem: 404, there is no such persona for the caller.
        """
        wanted = self.persona_file(name, principal) or self._default_persona(principal)
        if wanted not in self.backend.personas or not principal.knows(wanted):
            known = ", ".join(each for each in self.backend.personas if principal.knows(each)) or "none"
            raise Problem(404, "No such persona", f"There is no persona of that name. There is: {known}.")
        return wanted

    async def talk(self, request: web.Request) -> TalkAddress:
        """Return the talk of the caller that a path names.

        Raises:
            Problem: they are not let in, or there is no such talk of theirs.
        """
        query = read_query(request, bodies.TalkQuery)
        principal = await self.authenticate(request, query.userId or "")
        name = request.match_info["id"]
        kept = await self.backend.store.talk(principal.id, name, self.persona_file(query.persona, principal))
        if kept is None or not principal.knows(kept.persona):
            raise Problem(404, "No such conversation", "You have no conversation of that name.")
        return TalkAddress(principal, kept.persona, name)


def _wants_no_answer(request: web.Request) -> bool:
    """Return True if a client wants no answer but that it was heard, as it follows the talk (RFC 7240)."""
    wishes = request.headers.get("Prefer", "").lower().split(",")
    return any(wish.partition(";")[0].strip() == "respond-async" for wish in wishes)


async def _alive_first(events: AsyncGenerator[list[Form], None]) -> AsyncGenerator[list[Form], None]:
    """Yield a sign of life before the events: who comes back is answered, though nothing happens for long."""
    yield [SILENCE]
    async with aclosing(events):
        async for forms in events:
            yield forms


def _after_questions(channel: HttpChannel, questions: Iterable[str]) -> int:
    """Return the count from which on to follow for a client that has had these questions."""
    places = [channel.feed.place_of_question(each) for each in questions]
    return max((place for place in places if place is not None), default=channel.feed.count)
