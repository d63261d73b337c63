"""Base of the dialects: requests to an API, and deltas from the events of its streams.

A `Dialect` belongs to one model. It writes requests, and makes a `ReplyReader` for each reply. Neither
waits for anything, nor opens anything: the door (`pixi.models.server_model`) sends and receives.
"""

import json
import secrets
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
import yarl

from pixi.core.language import Thought
from pixi.core.llm import Delta, PromptProgress, Request, Text
from pixi.core.lru import LRU
from pixi.core.untrusted import without_halves
from pixi.models.dialects.prompt import JsonObject, Quirk, Style
from pixi.models.faults import Complaint, ErrorField, Server, complaint_of

_PIECE_SIZE = 100  # characters that a held piece counts for beside its own

_E = TypeVar("_E")
_T = TypeVar("_T")


class ReplyReader(ABC, Generic[_E]):
    """Makes deltas of the events of one reply: `feed` their payloads, then `close`.

    What comes in one read is joined to one delta of each kind: cutting changes nothing, and everything behind
    the door then costs per read, not per token.

    Args:
        server: whom errors are about.
        kind: what an event is decoded as.

    Attributes:
        ended: the server said why its reply ended: what follows are its last words.
        done: nothing that follows is read.
        complaint: what the server said instead of going on.
        understood: events of such a stream that were read.
        unseen: signs of work that came, though no delta shows them yet: pieces of calls, searches.
        held: characters that are held until the end, about.
        progress: how far the prompt was read, as was told last; the reader of it sets None.
    """

    def __init__(self, server: Server, kind: type[_E]) -> None:
        self.ended = False
        self.done = False
        self.complaint: Complaint | None = None
        self.understood = 0
        self.unseen = 0
        self.held = 0
        self.progress: PromptProgress | None = None
        self._server = server
        self._kind = kind
        self._decode = msgspec.json.Decoder(kind).decode
        self._deltas: list[Delta] = []  # of this read
        self._text: list[str] = []  # of this read; of the two lists one is empty
        self._thought: list[str] = []
        self._has_halves = False  # some text held half a surrogate pair
        self._half = ""  # that waits for its other half

    def feed(self, payloads: list[bytes]) -> list[Delta]:
        """Take the payloads of one read; return their deltas, in order."""
        deltas: list[Delta] = []
        self._deltas = deltas
        decode, take = self._decode, self._take
        for payload in payloads:
            if self.done:
                break
            try:
                event = decode(payload)
            except (ValueError, RecursionError):
                for odd in self._read_oddly(payload):
                    take(odd)
            else:
                take(event)
        self._flush()
        return deltas

    def close(self) -> list[Delta]:
        """End the reply; return the held deltas, the whole tool calls, and `Finished`.

        Raises:
            ModelError: the events amount to no reply.
        """
        self._deltas = [Text("\ufffd")] if self._half else []
        self._finish()
        return self._deltas

    def more(self) -> JsonObject | None:
        """Return the fields of another request that the server wants before it goes on; None: it is done."""
        return None

    @abstractmethod
    def _take(self, event: _E) -> None:
        """Take the next event."""

    @abstractmethod
    def _finish(self) -> None:
        """Add the last deltas.

        Raises:
            ModelError: see `close`.
        """

    def _say(self, text: str) -> None:
        """Take a piece of the reply."""
        if self._thought:
            self._flush()
        self._text.append(text)

    def _think(self, thought: str) -> None:
        """Take a piece of the reasoning."""
        if not thought:
            return
        if self._text:
            self._flush()
        self._thought.append(thought)

    def _add(self, delta: Delta) -> None:
        """Add a delta of another kind, after what was said before."""
        self._flush()
        self._deltas.append(delta)

    def _hold(self, size: int) -> None:
        """Count a piece that no delta shows yet, of `size` characters: a sign of work all the same."""
        self.unseen += 1
        self.held += _PIECE_SIZE + size

    def _complain(self, error: ErrorField | str) -> None:
        self.complaint = self.complaint or complaint_of(error)

    def _flush(self) -> None:
        if self._text:
            text = "".join(self._text)
            self._text.clear()
            if self._has_halves:
                text = self._joined(text)
            if text:
                self._deltas.append(Text(text))
        elif self._thought:
            thought = "".join(self._thought)
            self._thought.clear()
            self._deltas.append(Thought(without_halves(thought) if self._has_halves else thought))

    def _joined(self, text: str) -> str:
        """Return a text with its surrogate pairs joined; half a pair at its end waits for the other half."""
        text = self._half + text
        self._half = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        return without_halves(text[: len(text) - len(self._half)])

    def _read_oddly(self, payload: bytes) -> list[_E]:
        """Read what does not decode at once: UTF-8 or a surrogate pair cut in two, two events in one.

        Rubbish is skipped: a broken event is no reason to lose the rest of a reply.
        """
        try:
            # The standard library lets half a surrogate pair stand, in the hope of the other half.
            event = msgspec.convert(json.loads(payload.decode("utf-8", "replace")), self._kind)
        except (ValueError, RecursionError):
            lines = payload.split(b"\n")
            if len(lines) > 1:  # a server that forgets the blank line between its events
                return [event for line in lines for event in self._read_oddly(line)]
            self.done |= payload.strip() == b"[DONE]"
            return []
        self._has_halves = True
        return [event]


class Dialect(ABC):
    """The dialect of a server's API. Each model has one of its own, which may keep provider state.

    Attributes:
        name: of the API, as the settings have it.
        serves: what is asked of it, for people.
        base_url: the address of its service.
        key_name: the variable that holds the key; "": that of the service at the address.
        ends_in: what the addresses of its servers usually end in.
        takes_temperature: whether the API has such a thing.
    """

    name: ClassVar[str]
    serves: ClassVar[str]
    base_url: ClassVar[str] = "https://api.openai.com/v1"
    key_name: ClassVar[str] = ""
    ends_in: ClassVar[str] = ""
    takes_temperature: ClassVar[bool] = True

    @abstractmethod
    def address(self, base: yarl.URL, model: str) -> yarl.URL:
        """Return where a reply of a model is asked for."""

    def listing(self, base: yarl.URL) -> yarl.URL:
        """Return where the models of a server are asked for."""
        return base / "models"

    def headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that authenticate, and name the version of the API."""
        return {"Authorization": f"Bearer {key}"}

    def search_tool(self, host: str) -> str:
        """Return the name under which a host searches the web by itself; "" where it does not."""
        return ""

    @abstractmethod
    def fields(self, request: Request, style: Style, quirks: Collection[Quirk]) -> JsonObject:
        """Return the fields of the body of a request: the same for the same lines, each time."""

    @abstractmethod
    def reader(self, server: Server, fields: JsonObject) -> ReplyReader[Any]:
        """Make the reader of the reply to a request with these fields."""

    def names_in(self, content: bytes) -> list[str]:
        """Return the ids in a listing of models.

        Raises:
            ValueError, RecursionError: it is none.
        """
        return [model.id for model in _decode_listing(content).data or ()]


class _Model(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Model] | None  # null at a server that has none yet


_decode_listing = msgspec.json.Decoder(_Listing).decode


class ProviderState(LRU[str, _T]):
    """State that a provider wants back beside the calls: signed thoughts, its own searches.

    A history has no room for such things, they are one provider's alone; so they are kept here, by the ids of
    the calls, for as long as a reply is likely to need them. A call whose state is lost goes without.
    """

    def __init__(self, most: int = 256) -> None:
        super().__init__(most)

    def keep(self, call_ids: Iterable[str], state: _T) -> None:
        """Keep a state for each of these calls."""
        for call_id in call_ids:
            self.put(call_id, state)


def merged(fields: JsonObject, others: Mapping[str, object]) -> JsonObject:
    """Return fields with others on top; of two objects each keeps what the other does not say."""
    whole = dict(fields)
    for name, value in others.items():
        match whole.get(name), value:
            case dict(before), Mapping():
                whole[name] = merged(before, value)
            case _:
                whole[name] = value
    return whole


def distinct_id(call_id: str, taken: set[str]) -> str:
    """Return the id of a call, or a new one where it has none or another call has it; take it."""
    if not call_id or call_id in taken:
        # Nine letters and digits: the strictest form that a server in use asks for.
        call_id = secrets.token_hex(5)[:9]
    taken.add(call_id)
    return call_id
