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
from pixi.channels.http.attachments import MOST, attachments_in
from pixi.channels.http.faces import ag_ui, ai_sdk
from pixi.channels.http.faces.messages import adaptive, last_turn
from pixi.channels.http.faces.native import NativeStream, whole
from pixi.channels.http.feed import SILENCE, Form, HttpChannel, Protocol
from pixi.channels.http.files import Files
from pixi.channels.http.operators import Operators
from pixi.channels.http.pictures import ShownPictures
from pixi.channels.http.requests import (
    decoded,
    has_messages,
    json_answer,
    key_of,
    keyed_request,
    protocol_of,
    queried,
    read_body,
    said_by_page,
    server_of,
    text_of_parts,
    wants_adaptive,
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
        shown: gives addresses to pictures.
    """

    backend: HttpBackend
    talks: Talks
    access: Access
    rules: HttpRules
    visitors: Visitors
    limits: HttpLimits
    files: Files
    shown: ShownPictures
    # Set when the server stops: what streams ends then.
    closing: asyncio.Event = field(default_factory=asyncio.Event)
    # Makes the description of the API; set once all routes are known.
    describe: Callable[[], bytes] = bytes

    def __post_init__(self) -> None:
        self.operators = Operators(self.access, self.limits, self._identified)

    async def who(
        self, request: web.Request, user_id: str = "", user_name: str = "", scope: str = "chat"
    ) -> Principal:
        """Tell who asks, who has the scope, and count the request.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        principal = await self._identified(request, user_id, user_name)
        principal.require(scope)
        if principal.is_visitor:
            principal = replace(principal, network=self._network(request))
        await self.limits.request(principal)
        return principal

    async def _identified(self, request: web.Request, user_id: str = "", user_name: str = "") -> Principal:
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

    async def who_has_a_key(
        self, request: web.Request, user_id: str = "", user_name: str = "", scope: str = "chat"
    ) -> Principal:
        """Tell who asks, as `who` does, where visitors have no business.

        Raises:
            Problem: they are not let in, or asked too often.
        """
        principal = await self.who(request, user_id, user_name, scope)
        if principal.is_visitor:
            raise Problem(403, "Not allowed", "Visitors talk by /api/chat, and not here.")
        return principal

    async def visitor(self, request: web.Request) -> web.StreamResponse:
        """Let a visitor of a page in, or let one stay who is known."""
        network = self._network(request)
        await self.limits.knock(network)
        key = await self.visitors.key(bearer_of(request.headers), request.headers)
        body = await read_body(request)
        asked = decoded(body, bodies.VisitorRequest) if body else bodies.VisitorRequest()
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
                self._shown(person),
                self._default(person),
            )
        )

    async def enter(self, request: web.Request) -> web.StreamResponse:
        """Let an operator in, with a browser."""
        return await self.operators.enter(request, self._network(request))

    def _network(self, request: web.Request) -> str:
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
        asked = decoded(body, bodies.ChatRequest)
        principal = await self.who(request, asked.userId or "", asked.userName or "")
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
        persona = self._persona(principal, asked.persona)
        keyed = keyed_request(request, principal.id, asked, persona)
        message_id = keyed.message if keyed else uuid.uuid4().hex
        name = asked.conversation or (joint_digest("talk", message_id) if keyed else uuid.uuid4().hex)
        place = TalkAddress(principal, persona, name)
        replaces = None
        if asked.replaces:
            replaces = partial(self.talks.in_place_of, place.address, message_id, asked.replaces)
        reply = await self.talks.begin(
            place,
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
        channel = self.talks.channels.at(place.address)
        told = self.told(request, place, are_adaptive)
        if follows:
            mark = channel.feed.mark_of(reply.place)
            return json_answer(bodies.SaidAnswer(name, reply.message_id, mark), status=202)
        if streams:
            face = NativeStream(tools=self.rules.show_tools, resumable=not reply.over)
            return await write_stream(request, face, reply.events(resumes=True), told)
        is_asking = channel.is_asking and channel.feed.turn == reply.turn
        if reply.known and not reply.over and not is_asking:
            raise Problem(
                409,
                "Still being answered",
                "The same request came before and is being answered. Ask again in a moment, or as a stream.",
                headers={"Retry-After": "2"},
                turn=reply.turn,
            )
        return json_answer(await whole(reply.events(pauses=True), place.name, told))

    async def _ui_chat(self, request: web.Request, body: bytes) -> web.StreamResponse:
        """Answer a page that talks by AI SDK. It shows people the body of an error as it is: plain words."""
        request[PLAIN] = True
        asked = decoded(body, ai_sdk.UiRequest)
        principal = await self.who(request, asked.userId or "", asked.userName or "")
        place = TalkAddress(principal, self._persona(principal, asked.persona), asked.id)
        are_adaptive, protocol = wants_adaptive(request), protocol_of(request, "ai-sdk")
        pauses = protocol == "ai-sdk-6"
        last = asked.messages[-1]
        if verdicts := ai_sdk.verdicts_of(last):
            channel = await self.talks.answer(place, verdicts)
            events: Events = channel.turn_from(_behind(channel, verdicts), pauses=pauses)
        else:
            files = attachments_in(last.get("parts"))
            at = f"/messages/{len(asked.messages) - 1}"
            message_id, text = said_by_page(last, text_of_parts(last.get("parts")), at, files)
            replaces = partial(self._replaced, place, asked, message_id, text)
            keyed = keyed_request(request, principal.id, asked, place.persona, message_id=message_id)
            reply = await self.talks.begin(place, text, message_id, (), files, replaces=replaces, keyed=keyed)
            events = reply.events(pauses=pauses)
        self.talks.channels.at(place.address).protocol = protocol
        return await write_stream(
            request, self._face(protocol, principal), events, self.told(request, place, are_adaptive)
        )

    async def _replaced(
        self, place: TalkAddress, asked: ai_sdk.UiRequest, message_id: str, text: str
    ) -> Instead | None:
        """Return the place of a message that is edited, is to be answered anew, or goes on with an answer
        that was set aside; None: it is none of these."""
        seen = {str(each.get("id")) for each in asked.messages[:-1]}
        turn = last_turn(asked.messages[:-1])
        if back := await self.talks.restored_at(place.address, turn, message_id, seen):
            return back
        answered = await self.backend.store.answer_to(place.address, message_id)
        if answered is None or answered.turn is None:
            return None
        before = None if answered.text is None else words_of(answered.text)
        edited = asked.messageId == message_id and before != words_of(text)
        if not edited and asked.trigger != "regenerate-message":
            return None
        return await self.talks.cut_at(answered.turn.id, seen)

    async def run(self, request: web.Request) -> web.StreamResponse:
        """Answer a page that talks by AG-UI."""
        asked = decoded(await read_body(request), ag_ui.RunInput)
        props = asked.forwardedProps or ag_ui.Forwarded()
        principal = await self.who(request, props.userId or "", props.userName or "")
        persona = queried(request, bodies.PersonaQuery).persona or props.persona
        place = TalkAddress(principal, self._persona(principal, persona), asked.threadId)
        if asked.resume:
            verdicts = ag_ui.verdicts_of(asked.resume)
            channel = await self.talks.answer(place, verdicts)
            events: Events = channel.turn_from(_behind(channel, verdicts), pauses=True)
        else:
            people = [each for each in asked.messages if each.get("role") == "user"]
            if not people:
                raise wrong_field("/messages", "There is no message of a user to answer.")
            place_of_last = asked.messages.index(people[-1])
            files = attachments_in(people[-1].get("content"))
            at = f"/messages/{place_of_last}"
            client_id, text = said_by_page(people[-1], text_of_parts(people[-1].get("content")), at, files)
            message_id = id_with_run(client_id, asked.runId)
            seen = {str(each.get("id")) for each in people[:-1]}
            turn = last_turn(asked.messages[:place_of_last])
            replaces = partial(self._branched, place, client_id, message_id, seen, turn)
            keyed = keyed_request(request, principal.id, asked, place.persona, message_id=message_id)
            reply = await self.talks.begin(place, text, message_id, (), files, replaces=replaces, keyed=keyed)
            events = reply.events(pauses=True)
        tools, notes = self.rules.show_tools, self._shows_notes(principal)
        face = ag_ui.AgUiStream(asked.threadId, asked.runId, tools=tools, notes=notes)
        return await write_stream(request, face, events, self.told(request, place, are_adaptive=False))

    async def _branched(
        self, place: TalkAddress, client_id: str, message_id: str, seen: Collection[str], last: int
    ) -> Instead | None:
        """Return where a client's talk leaves the one on record; None: the same run comes again."""
        if await self.backend.store.answer_to(place.address, message_id) is not None:
            return None
        if back := await self.talks.restored_at(place.address, last, client_id, seen):
            return back
        turn = await self.talks.branch_point(place.address, client_id, seen)
        return await self.talks.cut_at(turn, seen)

    def _face(self, protocol: Protocol, principal: Principal) -> Face:
        tools = self.rules.show_tools
        if protocol == "native":
            return NativeStream(tools=tools)
        notes = self._shows_notes(principal)
        return ai_sdk.AiSdkStream(newer=protocol == "ai-sdk-6", tools=tools, notes=notes)

    def _shows_notes(self, principal: Principal) -> bool:
        """A note is the persona's own: operators alone may see it, where the settings say so."""
        return self.rules.notes == "reasoning" and principal.may("operate")

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Follow the turn under way: from its beginning, or behind the event in `Last-Event-ID`.

        It comes in the protocol in which the talk was spoken to, or the one that is asked for.
        """
        place = await self.place(request)
        channel = await self.talks.peers.join(place.address)
        feed = channel.feed
        given = _EVENT.fullmatch(request.headers.get("Last-Event-ID", "").strip())
        after = None
        if given is not None:
            turn, seq = map(int, given.groups())
            # What was forgotten, or taken out of the talk, is not told from memory.
            if turn == feed.turn or await self.talks.has_turn(place.address, turn):
                after = feed.place_after(turn, seq)
        spoken = channel.protocol if after is None else "native"
        are_adaptive, protocol = wants_adaptive(request), protocol_of(request, spoken)
        if feed.idle and (after is None or not feed.ends_after(after)):
            return web.Response(status=204)
        face = self._face(protocol, place.person)
        if protocol == "native":
            begin = feed.begin_of_turn() if after is None else after
            events = feed.follow(begin, lambda: feed.idle)
        else:
            events = channel.turn_from(feed.begin_of_turn(), pauses=protocol == "ai-sdk-6")
        return await write_stream(request, face, _at_once(events), self.told(request, place, are_adaptive))

    async def stop(self, request: web.Request) -> web.StreamResponse:
        """Stop the reply that is being written; what was delivered stands."""
        place = await self.place(request)
        body = await read_body(request)
        asked = decoded(body, bodies.StopRequest) if body else bodies.StopRequest()
        return json_answer(bodies.StopAnswer(await self.talks.stop(place.address, asked.turn)))

    async def approve(self, request: web.Request) -> web.StreamResponse:
        """Say yes or no to what a persona asks before it acts."""
        place = await self.place(request)
        asked = decoded(await read_body(request), bodies.ApprovalRequest)
        await self.talks.answer(place, {request.match_info["aid"]: asked.approved})
        return json_answer(bodies.Done())

    async def personas(self, request: web.Request) -> web.StreamResponse:
        """List the personas that the caller may talk to."""
        principal = await self.who(request)
        can = bodies.Abled(
            files=not principal.is_visitor,
            approvals=principal.may("approve"),
            characters=bodies.MOST_LETTERS,
            attachments=MOST,
            fileBytes=self.rules.max_file_bytes,
        )
        return json_answer(bodies.PersonasAnswer(self._shown(principal), self._default(principal), can))

    def told(self, request: web.Request, place: TalkAddress, are_adaptive: bool) -> Callable[[Form], Form]:
        """Return what gives an event the names that the client knows, and a card the form that it wants."""
        server = server_of(request)

        def told(form: Form) -> Form:
            match form["event"]:
                case "turn_start":
                    return form | {"conversation": place.name, "persona": place.persona}
                case "card":
                    shown = self.shown.decorated(form, place.address)
                    return adaptive(shown) if are_adaptive else shown
                case "picture":
                    return self.shown.decorated(form, place.address, server)
                case _:
                    return form

        return told

    # Files.

    async def take_file(self, request: web.Request) -> web.StreamResponse:
        """Keep a file that somebody sends."""
        principal = await self.who_has_a_key(request, queried(request, bodies.UserQuery).userId or "")
        file = await self.files.take(request, principal.id, key_of(request))
        return json_answer(
            bodies.FileAnswer(file.id, f"/api/files/{file.id}", file.media_type, file.size, file.name)
        )

    async def give_file(self, request: web.Request) -> web.StreamResponse:
        """Give a file back to whose it is."""
        return await self.files.answer(await self._file(request))

    async def drop_file(self, request: web.Request) -> web.StreamResponse:
        """Keep a file no longer."""
        await self.files.drop(await self._file(request))
        return json_answer(bodies.Done())

    async def _file(self, request: web.Request) -> SentFile:
        principal = await self.who(request, queried(request, bodies.UserQuery).userId or "")
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
        if (await self._identified(request)).id != LOCAL:
            await self.operators.who(request)
        body, kind = await self.backend.scraped(request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": kind})

    async def description(self, request: web.Request) -> web.StreamResponse:
        """Describe the API as OpenAPI 3.1."""
        return web.Response(body=self.describe(), content_type="application/json")

    def _shown(self, principal: Principal) -> list[bodies.PersonaShown]:
        """The personas that somebody may talk to."""
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
        return self.shown.url(Path(persona.avatar) if is_file else persona.avatar)

    def _default(self, principal: Principal) -> str:
        """Return the persona that answers a caller who names none: the default if they may ask it."""
        usual = self.backend.default_persona
        known = (name for name in self.backend.personas if principal.knows(name))
        return usual if principal.knows(usual) else next(known, usual)

    def file_of(self, name: str | UnsetType | None, principal: Principal) -> str:
        """Return the name of the file of the persona that a client names, "" where it names none; a name that
        no persona has is given back.
        """
        return (persona_named(name, self.backend.personas, principal.personas) or name) if name else ""

    def _persona(self, principal: Principal, name: str | None) -> str:
        wanted = self.file_of(name, principal) or self._default(principal)
        if wanted not in self.backend.personas or not principal.knows(wanted):
            known = ", ".join(each for each in self.backend.personas if principal.knows(each)) or "none"
            raise Problem(404, "No such persona", f"There is no persona of that name. There is: {known}.")
        return wanted

    async def place(self, request: web.Request) -> TalkAddress:
        """The talk that a path names, of whoever asks.

        Raises:
            Problem: they are not let in, or there is no such talk of theirs.
        """
        query = queried(request, bodies.TalkQuery)
        principal = await self.who(request, query.userId or "")
        name = request.match_info["id"]
        kept = await self.backend.store.talk(principal.id, name, self.file_of(query.persona, principal))
        if kept is None or not principal.knows(kept.persona):
            raise Problem(404, "No such conversation", "You have no conversation of that name.")
        return TalkAddress(principal, kept.persona, name)


def _wants_no_answer(request: web.Request) -> bool:
    """Return whether a client wants to know only that it was heard: it follows the talk (RFC 7240)."""
    wishes = request.headers.get("Prefer", "").lower().split(",")
    return any(wish.partition(";")[0].strip() == "respond-async" for wish in wishes)


async def _at_once(events: AsyncGenerator[list[Form], None]) -> AsyncGenerator[list[Form], None]:
    """Yield a sign of life before the events: who comes back is answered, though nothing happens for long."""
    yield [SILENCE]
    async with aclosing(events):
        async for forms in events:
            yield forms


def _behind(channel: HttpChannel, questions: Iterable[str]) -> int:
    """The count from which on to follow for who has had these questions."""
    places = [place for each in questions if (place := channel.feed.place_of_question(each)) is not None]
    return max(places, default=channel.feed.count)
