"""The face of OpenAI's chat completions: a turn's events as chunks, or as one answer.

A chat program stores what it is given and sends it back as history, so nothing but what the persona says and
shows stands in `content`: no tool, no note, and a reaction only where it is all there is. Programs also read
every `data:` line as a chunk, so the stream holds chunks, at most one error, and `[DONE]`; nothing else.

`_VisibleText` makes the visible text of a turn; `ChatCompletionStream` puts it on the wire.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType

from pixi.channels.http.faces.messages import Messages
from pixi.channels.http.streams import DONE, HEADERS, frame
from pixi.core.llm import estimate_text

BETWEEN = "\n\n"
"""Stands between two messages of a turn, which are one text here."""

BROKEN = "The persona could not answer: its model failed. Try again."
"""The message where a turn failed and the persona has no words for it."""

_MARKUP = re.compile(r"([\\`*_\[\]<>!#|~])")
_UNSAFE = {character: f"%{ord(character):02X}" for character in '()<>[]\\" '}

Reactions = Literal["drop", "line"]
Notes = Literal["hidden", "reasoning"]


class CompletionOptions(Struct, frozen=True, kw_only=True):
    """Options of the visible text: settings of the server, and fields of the request.

    Attributes:
        silence: said where the persona shows nothing; "" for an empty answer.
        reactions: "line" puts each on a line of its own; with "drop" they are the text only where they
            are all there is.
        notes: "reasoning" gives them as `reasoning_content`.
        stop: the text ends before the first of these.
        max_tokens: upper bound of the visible text, estimated; None: none.
        strict: a failed turn is an error, and what the persona has to say of it is left out.
    """

    silence: str = "…"
    reactions: Reactions = "drop"
    notes: Notes = "hidden"
    stop: tuple[str, ...] = ()
    max_tokens: int | None = None
    strict: bool = False


class CompletionMessage(Struct):
    """What a persona says. `reasoning_content`: its private notes, for operators who want them."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str | UnsetType = UNSET


class CompletionChoice(Struct):
    """The one answer that there is."""

    index: int
    message: CompletionMessage
    finish_reason: Literal["stop", "length"]


class CachedTokens(Struct):
    """Tokens of the prompt that were read before."""

    cached_tokens: int


class CompletionUsage(Struct):
    """Tokens of a turn, all its requests together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: CachedTokens


class ChatCompletion(Struct):
    """An answer that is not streamed, as `ChatCompletionStream.whole` makes it."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: CompletionUsage


class _VisibleText:
    """The visible text of a turn, in pieces `(field of the delta, text)`.

    Attributes:
        cut: why the text ends before the turn does: a stop string or `max_tokens`; "" where it goes on.
        ended: whether `turn_end` was seen.
        problem: one line for a person, where the turn failed and this must be told as an error.
        usage: of the turn, as `turn_end` had it.
    """

    def __init__(self, options: CompletionOptions) -> None:
        self.cut: Literal["", "stop", "length"] = ""
        self.ended = False
        self.problem = ""
        self.usage: Mapping[str, Any] = {}
        self._options = options
        self._finish = "stop"
        self._messages = Messages()
        self._current: str | None = None  # the id of the message that grows
        self._visible = ""  # given out
        self._held = ""  # may be the begin of a stop string
        self._reactions: list[str] = []
        self._noted = False  # a note was given out
        # Strict: what is said after an error, until `turn_end` tells whether it was the failed turn's excuse.
        self._fault = ""
        self._waiting: list[Mapping[str, Any]] | None = None

    @property
    def finish(self) -> str:
        """Return the `finish_reason` of the answer, one of OpenAI's own."""
        return self.cut or ("length" if self._finish in ("length", "limit") else "stop")

    def feed(self, event: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return the pieces that an event adds."""
        name = event.get("event")
        if self.ended:
            return []
        if name == "turn_end":
            return self._end(event)
        if name == "error":
            self._fault = str(event.get("text", ""))
            if self._options.strict and self._waiting is None:
                self._waiting = []
            return []
        if self._waiting is not None:
            self._waiting.append(event)
            return []
        return self._show(event)

    def _show(self, event: Mapping[str, Any]) -> list[tuple[str, str]]:
        match event.get("event"):
            case "text" | "send":
                return self._said(event)
            case "card":
                return self._message(card_markdown(event))
            case "picture":
                return self._message(picture_markdown(event))
            case "react":
                self._reactions.append(str(event["emoji"]))
                return self._message(self._reactions[-1]) if self._options.reactions == "line" else []
            case "note" if self._options.notes == "reasoning" and event["text"]:
                between, self._noted = BETWEEN if self._noted else "", True
                return [("reasoning_content", between + str(event["text"]))]
        return []

    def _said(self, event: Mapping[str, Any]) -> list[tuple[str, str]]:
        pieces: list[tuple[str, str]] = []
        for what, key, text in self._messages.feed(event):
            if what == "add":
                pieces += self._say(key, text)
            elif what == "close":
                self._current = None
        return pieces

    def _message(self, text: str) -> list[tuple[str, str]]:
        pieces = self._say("", text.strip()) if text.strip() else []
        self._current = None
        return pieces

    def _say(self, key: str, text: str) -> list[tuple[str, str]]:
        """Add to the message of an id; "": it is one of its own."""
        if self.cut:
            return []
        is_first = not (self._visible or self._held)
        opens = key != self._current or not key
        self._current = key
        return self._give(BETWEEN + text if opens and not is_first else text)

    def _give(self, text: str) -> list[tuple[str, str]]:
        """Give out what cannot be the begin of a stop string any more, within the bound."""
        text, self._held = self._held + text, ""
        places = [at for at in (text.find(stop) for stop in self._options.stop) if at >= 0]
        if places:
            text, self.cut = text[: min(places)], "stop"
        elif held := max((_overlap(text, stop) for stop in self._options.stop), default=0):
            text, self._held = text[:-held], text[-held:]
        bound = self._options.max_tokens
        if bound is not None and estimate_text(self._visible + text) > bound:
            text, self.cut = _within(self._visible, text, bound), "length"
        self._visible += text
        return [("content", text)] if text else []

    def _end(self, event: Mapping[str, Any]) -> list[tuple[str, str]]:
        self.ended = True
        self._finish = str(event.get("finish", "stop"))
        self.usage = event.get("usage") or {}
        failed = self._finish == "error"
        if failed and self._options.strict:
            self.problem = self._fault or BROKEN
            return []
        pieces: list[tuple[str, str]] = []
        for waiting in self._waiting or ():
            pieces += self._show(waiting)
        if self._held and not self.cut:
            self._visible += self._held
            pieces.append(("content", self._held))
        if self._visible or self.cut:
            return pieces
        if failed:
            self.problem = self._fault or BROKEN
            return pieces
        instead = "".join(self._reactions) or self._options.silence
        return [*pieces, ("content", instead)] if instead else pieces


class ChatCompletionStream:
    """Chunks of a chat completion, or all of it.

    Args:
        answer_id: of the answer, e.g. "chatcmpl-…"; the same in all chunks.
        model: name of the persona, as the client asked for it.
        created: seconds since the epoch.
        options: what shapes the text.
        usage: whether the client asked for a chunk with what was used.

    Attributes:
        headers: of the HTTP answer.
    """

    headers: Mapping[str, str] = HEADERS

    def __init__(
        self,
        *,
        answer_id: str,
        model: str,
        created: int,
        options: CompletionOptions | None = None,
        usage: bool = False,
    ) -> None:
        self._head = {"id": answer_id, "object": "chat.completion.chunk", "created": created, "model": model}
        self._text = _VisibleText(options or CompletionOptions())
        self._said: dict[str, list[str]] = {"content": []}
        self._usage = usage
        self._begun = False
        self._closed = False

    @property
    def cut(self) -> bool:
        """Return True if the text has ended by a stop string or `max_tokens`: the turn may be stopped."""
        return bool(self._text.cut)

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; b"" where nothing of it is shown."""
        if self._closed:
            return b""
        out = self._begin()
        for field, text in self._text.feed(event):
            self._said.setdefault(field, []).append(text)
            out += self._chunk({field: text})
        return out + self._finish() if self._text.ended else out

    def close(self, problem: str = "") -> bytes:
        """End the stream, if it has not ended; `problem` is told as an error."""
        if self._closed:
            return b""
        out = self._begin()
        self._text.problem = self._text.problem or problem
        return out + self._finish()

    def whole(self) -> tuple[dict[str, Any], str]:
        """Return the answer to a request without `stream`, and "" or the problem to be told as an error."""
        visible = self._text
        if not visible.ended:
            visible.problem = visible.problem or BROKEN
        said = {field: "".join(pieces) for field, pieces in self._said.items()}
        message = {"role": "assistant", **said}
        choice = {"index": 0, "message": message, "finish_reason": visible.finish}
        answer = {**self._head, "object": "chat.completion", "choices": [choice]}
        return {**answer, "usage": usage_of(visible.usage)}, visible.problem

    def _begin(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _finish(self) -> bytes:
        self._closed = True
        if problem := self._text.problem:
            return frame({"error": error_body(problem)}) + DONE
        out = self._chunk({}, self._text.finish)
        if self._usage:
            out += frame({**self._head, "choices": [], "usage": usage_of(self._text.usage)})
        return out + DONE

    def _chunk(self, delta: Mapping[str, str], finish: str | None = None) -> bytes:
        return frame({**self._head, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})


def text_of_turn(events: Iterable[Mapping[str, Any]], options: CompletionOptions) -> str:
    """Return what a program that takes text alone is shown of a turn."""
    visible = _VisibleText(options)
    return "".join(text for event in events for name, text in visible.feed(event) if name == "content")


def text_events(text: str) -> list[dict[str, Any]]:
    """Return the events of a turn that says this and nothing else."""
    return [
        {"event": "turn_start", "turn": 0, "seq": 0},
        {"event": "send", "turn": 0, "seq": 1, "id": "0", "text": text},
        {"event": "turn_end", "turn": 0, "seq": 2, "finish": "stop", "steps": 0, "usage": {}},
    ]


def usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """Return the usage of a turn in OpenAI's form. Clients read all three counts unasked."""
    prompt, said = int(usage.get("prompt_tokens") or 0), int(usage.get("completion_tokens") or 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": said,
        "total_tokens": prompt + said,
        "prompt_tokens_details": {"cached_tokens": int(usage.get("cached_tokens") or 0)},
    }


def error_body(message: str) -> dict[str, Any]:
    """OpenAI's error of a server that could not answer."""
    return {"message": message, "type": "server_error", "param": None, "code": "persona_unavailable"}


def card_markdown(card: Mapping[str, Any]) -> str:
    """Return a card's fallback as Markdown. Its words are strangers': none of them becomes markup."""
    shown: Mapping[str, Any] = card.get("fallback") or {}
    title, link = _plain(shown.get("title")), _url(shown.get("link"))
    picture = _url(shown.get("picture"))
    rows = [
        f"- {_plain(each.get('name'))}: {_plain(each.get('value'))}" for each in shown.get("fields") or ()
    ]
    head = ""
    if title and link:
        head = f"**[{title}]({link})**"
    elif title:
        head = f"**{title}**"
    elif link:
        head = f"<{link}>"
    blocks = [
        head,
        "\n".join(_plain(line) for line in str(shown.get("text") or "").splitlines()).strip(),
        "\n".join(rows),
        f"![{title}]({picture})" if picture else "",
    ]
    return BETWEEN.join(block for block in blocks if block)


def picture_markdown(picture: Mapping[str, Any]) -> str:
    """Return a picture as Markdown, with its service's credit; only its words where it has no address."""
    words, link = _plain(picture.get("text")), _url(picture.get("link"))
    address, service = _url(picture.get("address")) or link, _plain(picture.get("service"))
    credit = f"Powered by [{service}]({link})" if service and link else ""
    return "\n".join(part for part in (f"![{words}]({address})" if address else words, credit) if part)


def _plain(text: object) -> str:
    """Return a text on one line, with a backslash before what Markdown would take for markup."""
    return _MARKUP.sub(r"\\\1", " ".join(str(text or "").split()))


def _url(link: object) -> str:
    """Return a link that can stand in Markdown's round brackets; "" for one that is no web address."""
    text = str(link or "")
    if not text.lower().startswith(("https://", "http://")) or not text.isprintable():
        return ""
    return "".join(_UNSAFE.get(character, character) for character in text)


def _overlap(text: str, stop: str) -> int:
    """Count the characters at the end of `text` that begin `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0


def _within(before: str, text: str, bound: int) -> str:
    """Return as much of `text` as fits behind `before` within `bound` tokens, as estimated."""
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        if estimate_text(before + text[:middle]) <= bound:
            low = middle
        else:
            high = middle - 1
    return text[:low]
