"""The events of a chat-completions stream, read into structs, and the deltas that they make together.

Sans-IO: payloads in, deltas out. What comes in one read becomes one delta: cutting changes nothing, and
everything behind the door then costs per read, not per token.
"""

import msgspec

from pixi.core.deltas import Delta, Finished, PromptProgress, Usage
from pixi.models.calls import CallAssembler, CallPiece
from pixi.models.complaint import Complaint, ErrorField, complaint_of
from pixi.models.gathering import Gathering
from pixi.models.odd_events import is_end_mark, read_oddly

_MOST_TOKENS = 999_999_999  # of a prompt


class _Part(msgspec.Struct, gc=False):
    """A part of a content that comes as a list."""

    text: str | None = None
    thinking: "str | list[_Part] | None" = None


class _Piece(msgspec.Struct, gc=False):
    """`delta` of a stream; `message` of a server that answers whole."""

    content: str | list[_Part] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[CallPiece] | None = None


class _Choice(msgspec.Struct, gc=False):
    delta: _Piece | None = None
    message: _Piece | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct, gc=False):
    cached_tokens: int | None = None


class _UsageField(msgspec.Struct, gc=False):
    """Token counts; where the cached ones stand is each provider's own choice."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: _PromptDetails | None = None
    prompt_cache_hit_tokens: int | None = None
    cached_tokens: int | None = None


class _Timings(msgspec.Struct, gc=False):
    """llama.cpp's own counts: `prompt_n` were evaluated, `cache_n` were not."""

    cache_n: int = 0
    prompt_n: int = 0
    predicted_n: int = 0


class Chunk(msgspec.Struct, gc=False):
    """One event. With a `message` at this level it is an error in an older form, with its code and type."""

    choices: list[_Choice] | None = None
    usage: _UsageField | None = None
    timings: _Timings | None = None
    prompt_progress: object = None
    error: ErrorField | str | None = None
    message: str | None = None
    code: str | int | None = None
    type: str | None = None


_decode = msgspec.json.Decoder(Chunk).decode


class ReplyAssembler:
    """Makes deltas of the payloads of one stream: `feed` them, then `close`.

    Attributes:
        finish_reason: the server's word for why the reply ended; "" while it has not said it.
        done: the end mark came; nothing that follows is read.
        complaint: what the server said instead of going on.
        understood: events of a chat stream that were read.
        unseen: pieces of tool calls that came: content, though no delta shows it yet.
    """

    def __init__(self) -> None:
        self.finish_reason = ""
        self.done = False
        self.complaint: Complaint | None = None
        self.understood = 0
        self.unseen = 0
        self._calls = CallAssembler()
        self._usage: _UsageField | None = None
        self._timings: _Timings | None = None
        self._gathering = Gathering()
        self._progress: PromptProgress | None = None  # the last that was told of in this read

    @property
    def held(self) -> int:
        """How much is held until the end, in characters, about."""
        return self._calls.size

    def feed(self, payloads: list[bytes]) -> list[Delta]:
        """Take the payloads of one read; gives their text and reasoning, in order, joined."""
        deltas: list[Delta] = []
        for payload in payloads:
            if self.done:
                break
            try:
                chunk = _decode(payload)
            except (ValueError, RecursionError):
                for odd in self._read_odd(payload):
                    self._take(odd, deltas)
            else:
                self._take(chunk, deltas)
        self._gathering.flush(deltas)
        if self._progress is not None:
            if not deltas and not self.unseen:
                deltas.append(self._progress)
            self._progress = None
        return deltas

    def close(self) -> list[Delta]:
        """The stream is over; gives the tool calls, whole, and `Finished`."""
        deltas = [*self._gathering.close(), *self._calls.close()]
        deltas.append(Finished("length" if self.finish_reason == "length" else "stop", self._counted()))
        return deltas

    def _take(self, chunk: Chunk, deltas: list[Delta]) -> None:
        if chunk.prompt_progress is not None:  # no event of a reply: one that ends here is none
            self._progress = _progress_in(chunk.prompt_progress)
        elif chunk.choices is not None or chunk.usage is not None:
            self.understood += 1
        if chunk.choices:
            choice = chunk.choices[0]
            piece = choice.delta or choice.message
            if piece is not None:
                if piece.reasoning_content or piece.reasoning:
                    self._gathering.think(piece.reasoning_content or piece.reasoning or "", deltas)
                content = piece.content
                if content:
                    if isinstance(content, str):
                        self._gathering.say(content, deltas)
                    else:
                        self._take_parts(content, deltas)
                if piece.tool_calls:
                    self._take_calls(piece.tool_calls)
            if choice.finish_reason:
                self.finish_reason = choice.finish_reason
        elif chunk.message and not chunk.error:
            error = ErrorField(chunk.message, chunk.type, chunk.code)
            self.complaint = self.complaint or complaint_of(error)
        if chunk.usage is not None:
            self._usage = chunk.usage
        if chunk.timings is not None:
            self._timings = chunk.timings
        if chunk.error:
            self.complaint = self.complaint or complaint_of(chunk.error)

    def _take_parts(self, parts: list[_Part], deltas: list[Delta]) -> None:
        for part in parts:
            thinking = part.thinking
            if isinstance(thinking, list):
                thinking = "".join(inner.text or "" for inner in thinking)
            if thinking:
                self._gathering.think(thinking, deltas)
            if part.text:
                self._gathering.say(part.text, deltas)

    def _take_calls(self, pieces: list[CallPiece]) -> None:
        for piece in pieces:
            self._calls.add(piece)
        self.unseen += len(pieces)

    def _read_odd(self, payload: bytes) -> list[Chunk]:
        """What does not decode at once."""
        lines = payload.split(b"\n")
        if any(map(is_end_mark, lines)):
            self.done = True
        chunks = read_oddly(payload, Chunk)
        self._gathering.halves |= bool(chunks)
        return chunks

    def _counted(self) -> Usage:
        usage = self._usage or _UsageField()
        timings = self._timings or _Timings()
        details = usage.prompt_tokens_details or _PromptDetails()
        cached = (details.cached_tokens, usage.prompt_cache_hit_tokens, usage.cached_tokens, timings.cache_n)
        return Usage(
            prompt_tokens=usage.prompt_tokens or timings.cache_n + timings.prompt_n,
            cached_tokens=max(count or 0 for count in cached),
            completion_tokens=usage.completion_tokens or timings.predicted_n,
        )


def _progress_in(told: object) -> PromptProgress | None:
    """Return how far llama.cpp has read a prompt: tokens in all, and those read or in its cache.

    None where what it tells cannot be: with a number beyond all prompts nothing can be reckoned.
    """
    match told:
        case {"processed": int(done), "total": int(total)} if 0 <= done <= total <= _MOST_TOKENS:
            return PromptProgress(done, total)
        case _:
            return None
