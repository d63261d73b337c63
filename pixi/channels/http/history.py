"""The history of a talk, for pages that draw it; and the branches that it went and could go again.

What is set aside (a reply that was had anew, a message that was edited) stands beside the talk. Where several
turns could stand in one place of it, they are siblings: a page shows which one stands there, and goes to
another. So branches are walked alike, whichever client made them.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing

from aiohttp import web

from pixi.channels.http import bodies
from pixi.channels.http.access import LOCAL, Problem
from pixi.channels.http.api import Api
from pixi.channels.http.faces.messages import adaptive
from pixi.channels.http.faces.native import NativeStream
from pixi.channels.http.feed import SILENCE, Feed, Form
from pixi.channels.http.pictures import OfMessage, ShownPictures
from pixi.channels.http.replies import acts_of, messages_reacted_to, sources_of
from pixi.channels.http.requests import decode_body, json_answer, read_body, read_query
from pixi.channels.http.streams import Decorate, write_stream
from pixi.channels.http.talks import TalkAddress
from pixi.core.events import Pictured, Reacted, Sent, Shown, to_json
from pixi.core.message import Message, card_json, carried_by, words_of
from pixi.core.spending import UsageEntry, UsageScope
from pixi.store.kept import TurnRecord

_ALL_TALKS = 10_000


class TalkHistory:
    """The handlers.

    Args:
        api: tells who asks, and which talk they mean.
    """

    def __init__(self, api: Api) -> None:
        self._api = api
        self._backend = api.backend
        self._store = api.backend.store
        self._talks = api.talks
        self._pictures = api.pictures

    async def messages(self, request: web.Request) -> web.StreamResponse:
        """Answer with the latest messages of a talk, or those before a turn, oldest first."""
        talk = await self._api.talk(request)
        asked_for = read_query(request, bodies.MessagesQuery)
        address, feed = talk.address, (await self._talks.peers.join(talk.address)).feed
        # First the place: what happens meanwhile is told twice rather than not at all.
        mark, under_way, is_idle = feed.mark_of(feed.begin_of_turn()), feed.turn, feed.idle
        records = await self._store.turns(address, asked_for.limit + 1, asked_for.before or None)
        chosen = list(records[-asked_for.limit :])
        behind = records[: len(records) - len(chosen)]
        waiting: Sequence[Message] = ()
        if not asked_for.before:
            turn, asked = await self._store.last_asked(address)
            # One that has begun since then, or on another server, may not be told of by the feed yet.
            chosen += await self._unended(address, under_way or turn or 0, chosen)
            waiting = asked if turn is None else ()
        shown = _ShownMessages(talk, self._pictures, are_adaptive=bool(asked_for.cards))
        shown.siblings = await self._siblings(address, [*behind, *chosen])
        messages = await self._store.messages_of([each.id for each in chosen])
        for record in chosen:
            earlier = await messages_reacted_to(self._store, record)
            shown.turn(record, messages.get(record.id, ()), earlier)
        for message in waiting:
            shown.person(message, 0)
        return json_answer(
            bodies.MessagesAnswer(
                conversation=talk.name,
                persona=talk.persona,
                messages=shown.messages,
                more=len(records) > asked_for.limit,
                turns=shown.turns,
                reactions=shown.elsewhere,
                underWay=under_way,
                # The feed is idle a moment after the last event of a turn. Only a message that is still to be
                # answered, or a turn that is still to end, is followed by another event.
                waiting=under_way > 0 or (bool(waiting) and not is_idle),
                place=mark,
            )
        )

    async def _unended(self, address: str, turn: int, ended: Iterable[TurnRecord]) -> Sequence[TurnRecord]:
        """Return the turn under way, as far as it has come; none where it is among those that have ended."""
        if not turn or any(record.id >= turn for record in ended):
            return ()
        for message in (await self._store.messages_of([turn])).get(turn, ()):
            answered = await self._store.answer_to(address, message.id)
            if answered is not None and answered.turn is not None and answered.turn.id == turn:
                return (answered.turn,)
        return ()

    async def _siblings(
        self, address: str, records: Sequence[TurnRecord]
    ) -> Mapping[int, tuple[list[int], list[int]]]:
        """Return turns with other words of the person, or another answer to the same, by the turn beside it.

        Of other words it is the latest answer that stands for them. Both lists hold the turn itself.
        """
        alternatives = await self._store.alternatives(address)
        behind: dict[int, list[int]] = {}
        for each in alternatives:
            if each.beside == address:
                behind.setdefault(each.after, []).append(each.turn)
        before = [0, *(record.id for record in records)]
        places = {
            record.id: sorted([record.id, *behind[last]])
            for last, record in zip(before, records, strict=False)
            if last in behind
        }
        words = await self._words(turn for turns in places.values() for turn in turns)
        found: dict[int, tuple[list[int], list[int]]] = {}
        for turn, turns in places.items():
            alike: dict[str, list[int]] = {}
            for number in turns:
                alike.setdefault(words.get(number, ""), []).append(number)
            edits = [turn if turn in group else group[-1] for group in alike.values()]
            answers = next(group for group in alike.values() if turn in group)
            found[turn] = (edits if len(edits) > 1 else [], answers if len(answers) > 1 else [])
        return found

    async def _words(self, turns: Iterable[int]) -> dict[int, str]:
        """Return the messages that these turns answered."""
        messages = await self._store.messages_of(list(turns))
        return {turn: "\n".join(words_of(each.text) for each in said) for turn, said in messages.items()}

    async def talks(self, request: web.Request) -> web.StreamResponse:
        """List the talks of the caller."""
        asked_for = read_query(request, bodies.OwnTalksQuery)
        person = await self._api.authenticate(request, asked_for.userId or "")
        persona = self._api.persona_file(asked_for.persona, person)
        found = await self._store.talks(person.id, persona, asked_for.limit)
        listed: list[bodies.OwnTalk] = []
        for talk in found:
            if person.knows(talk.persona):
                _, asked = await self._store.last_asked(talk.address)
                text = words_of(asked[-1].text) if asked else ""
                listed.append(bodies.OwnTalk(talk.name, talk.persona, talk.began, talk.last, text))
        return json_answer(bodies.OwnTalksAnswer(listed))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Follow the turn under way; or a whole talk, over many turns, with what is said in other windows.

        Who was away for too long is told first that the talk has changed, and reads it anew.
        """
        asked_for = read_query(request, bodies.StreamQuery)
        if asked_for.follow == "turn":
            return await self._api.stream(request)
        talk = await self._api.talk(request)
        feed = (await self._talks.peers.join(talk.address)).feed
        mark = request.headers.get("Last-Event-ID", "").strip() or asked_for.after
        begin = feed.place_of_mark(mark) if mark else feed.begin_of_turn()
        face = NativeStream(tools=self._api.rules.show_tools, talk=True)
        decorate = self._api.decorator(request, talk, bool(asked_for.cards))
        return await write_stream(request, face, self._of_talk(feed, begin, decorate))

    async def _of_talk(
        self, feed: Feed, begin: int | None, decorate: Decorate
    ) -> AsyncGenerator[list[Form], None]:
        """Yield the events of a talk, each with the place behind it; None: where to begin is not known."""
        yield [SILENCE]
        if begin is None:
            begin = feed.count
            yield [{"event": "changed", "turn": feed.turn, "seq": 0, "place": feed.mark_of(begin)}]
        async with aclosing(feed.follow_on(begin)) as events:
            async for numbered in events:
                yield [
                    form if form is SILENCE else {**decorate(form), "place": feed.mark_of(count)}
                    for count, form in numbered
                ]

    # Going back and forth.

    async def branches(self, request: web.Request) -> web.StreamResponse:
        """List what was set aside of a talk."""
        talk = await self._api.talk(request)
        found = await self._store.alternatives(talk.address)
        words = await self._words(each.turn for each in found)
        return json_answer(
            bodies.BranchesAnswer(
                [bodies.ToldBranch(each.turn, each.began, words.get(each.turn, "")) for each in found]
            )
        )

    async def branch(self, request: web.Request) -> web.StreamResponse:
        """Go back to what was set aside; what stands in its place is set aside."""
        talk = await self._api.talk(request)
        turn = decode_body(await read_body(request), bodies.BranchRequest).turn
        async with self._talks.channels.at(talk.address).saying:
            alternatives = await self._store.alternatives(talk.address)
            branches = [each.branch for each in alternatives if each.turn == turn]
            if not branches:
                detail = "Nothing that was set aside begins with that turn; see …/branches."
                raise Problem(404, "No such branch", detail)
            await self._talks.peers.stop(talk.address)
            await self._backend.engine.restore(talk.address, branches[0])
            self._talks.changed(talk.address)
        return json_answer(bodies.Done())

    async def undo(self, request: web.Request) -> web.StreamResponse:
        """Take the last words of the person out of a talk, with the answer to them."""
        talk = await self._api.talk(request)
        async with self._talks.channels.at(talk.address).saying:
            await self._talks.peers.stop(talk.address)
            taken = await self._backend.engine.take_back(talk.address)
            self._talks.changed(talk.address)
        return json_answer(bodies.UndoAnswer([words_of(message.text) for message in taken]))

    async def reset(self, request: web.Request) -> web.StreamResponse:
        """Forget what was said in a talk."""
        talk = await self._api.talk(request)
        await self._talks.peers.stop(talk.address)
        await self._backend.engine.reset(talk.address)
        self._talks.changed(talk.address)
        return json_answer(bodies.Done())

    # What concerns the person rather than a talk.

    async def usage(self, request: web.Request) -> web.StreamResponse:
        """Tell what the caller used today of what is limited; operators are told of everybody."""
        person = await self._api.caller(request)
        shares = await self._backend.engine.shares(UsageScope(person.id))
        answer = bodies.UsageAnswer(
            [bodies.DayShare(each.scope, each.kind, each.used, each.limit) for each in shares]
        )
        if person.id == LOCAL or person.may("operate"):
            bill = await self._backend.engine.bill()
            answer.today, answer.month = _sum(bill.today), _sum(bill.month)
            answer.monthDollars = bill.month_dollars
            answer.model = self._backend.model_of(f"http:0:{self._backend.default_persona}")
        return json_answer(answer)

    async def export(self, request: web.Request) -> web.StreamResponse:
        """Give all that is kept of the caller."""
        person = await self._api.caller(request)
        return json_answer(await self._store.export(person.id))

    async def forget(self, request: web.Request) -> web.StreamResponse:
        """Forget all that was ever kept of the caller."""
        person = await self._api.caller(request)
        if not decode_body(await read_body(request), bodies.ForgetMeRequest).really:
            raise Problem(422, "Not meant", 'Everything would go: send {"really": true} to do it.')
        talks = await self._store.talks(person.id, "", _ALL_TALKS)
        await self._backend.engine.forget(person.id)
        for talk in talks:
            self._talks.changed(talk.address)
        return json_answer(bodies.Done())


class _ShownMessages:
    """The messages of turns in the form for clients, as they are gathered.

    Args:
        talk: whose messages they are.
        pictures: gives them addresses here.
        are_adaptive: cards come as Adaptive Cards.

    Attributes:
        messages, turns: as `MessagesAnswer` has them.
        elsewhere: reactions to messages that are not among these.
        siblings: see `TalkHistory._siblings`.
    """

    def __init__(self, talk: TalkAddress, pictures: ShownPictures, *, are_adaptive: bool) -> None:
        self.messages: list[bodies.TalkMessage] = []
        self.turns: list[bodies.ToldTurn] = []
        self.elsewhere: list[bodies.ShownReaction] = []
        self.siblings: Mapping[int, tuple[list[int], list[int]]] = {}
        self._known: dict[str, bodies.TalkMessage] = {}  # by id
        self._address = talk.address
        self._pictures = pictures
        self._are_adaptive = are_adaptive

    def turn(self, record: TurnRecord, messages: Sequence[Message], earlier: Mapping[int, str]) -> None:
        """Add a turn, and the messages that it answered."""
        edits, answers = self.siblings.get(record.id, ([], []))
        sources = [bodies.CitedPage(each.title, each.url) for each in sources_of(record)]
        self.turns.append(
            bodies.ToldTurn(record.id, record.began, record.finish or "", sources, siblings=answers)
        )
        for message in messages:
            self.person(message, record.id, edits)
        for event in acts_of(record, messages[-1].id if messages else "", earlier):
            match event:
                case Sent(text, act):
                    self._answer(bodies.TalkMessage(act, "assistant", text, record.id), record, answers)
                case Shown(card, act):
                    form = self._pictures.decorated({"id": act, **card_json(card)}, self._address)
                    shown = bodies.TalkMessage(act, "assistant", "", record.id)
                    shown.pictures = form.pop("pictures", {})
                    del form["id"]
                    shown.cards = [adaptive(form) if self._are_adaptive else form]
                    self._answer(shown, record, answers)
                case Pictured(picture, act):
                    form = self._pictures.decorated(to_json(event), self._address)
                    shown = bodies.TalkMessage(act, "assistant", "", record.id)
                    shown.picture = bodies.ShownPicture(picture.words, picture.link, picture.service)
                    shown.pictures = form.get("pictures", {})
                    self._answer(shown, record, answers)
                case Reacted(emoji, act, message_id):
                    on = self._known.get(message_id)
                    reaction = bodies.ShownReaction(act, emoji, message_id)
                    if on is None:
                        self.elsewhere.append(reaction)
                    else:
                        on.reactions = [*on.reactions, reaction]
                case _:
                    pass

    def person(self, message: Message, turn: int, siblings: Sequence[int] = ()) -> None:
        """Add a message of a person. `turn`: the turn that answers it; 0: it waits."""
        shown = bodies.TalkMessage(message.id, "user", words_of(message.text), turn, message.sent_at)
        number = 0  # of the next picture
        for name, is_picture in carried_by(message.text):
            url = ""
            if is_picture and number < len(message.images):
                if turn > 0:  # else it is not on record yet where pictures are looked up
                    url = self._pictures.url(OfMessage(self._address, turn, message.id, number))
                number += 1
            shown.attachments = [*shown.attachments, bodies.CarriedFile(name, is_picture, url)]
        shown.siblings = list(siblings)
        self._add(shown)

    def _answer(self, shown: bodies.TalkMessage, record: TurnRecord, siblings: Sequence[int]) -> None:
        shown.at, shown.siblings = record.began, list(siblings)
        self._add(shown)

    def _add(self, shown: bodies.TalkMessage) -> None:
        self._known[shown.id] = shown
        self.messages.append(shown)


def _sum(spent: UsageEntry) -> bodies.Sum:
    return bodies.Sum(spent.messages, spent.tokens, spent.cost)
