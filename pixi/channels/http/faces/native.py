"""Our own face: each event as it is, as server-sent events whose ids say where a reader was."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from pixi.channels.http.bodies import ChatAnswer, RichContent, ShownMessage, ShownReaction
from pixi.channels.http.feed import Form
from pixi.channels.http.streams import HEADERS, frame

PRIVATE = frozenset({"note"})
"""Events that only the persona and its operator know of."""
OF_TOOLS = frozenset({"tool_call", "tool_result", "progress"})
_OF_APPROVAL = ("id", "tool", "does", "arguments", "expires")
_OF_CARD = ("id", "type", "version", "data", "fallback")
_OF_PICTURE = ("id", "text", "link", "service", "address", "pictures")
OF_TALK = frozenset({"said", "changed"})
"""Events of whole talks, which whoever follows one turn is not told of."""


class NativeStream:
    """Writes events as they are.

    Args:
        tools: events of tools are written, too.
        talk: so are those of the whole talk. Each event then has a `place`, which is its id.
        resumable: the events have ids, behind which a client can go on. Those from the record have none: they
            are numbered in another way than those that the client may have seen.
    """

    headers = HEADERS

    def __init__(self, *, tools: bool = False, talk: bool = False, resumable: bool = True) -> None:
        self._resumable = resumable
        self._hidden = PRIVATE | (frozenset() if tools else OF_TOOLS) | (frozenset() if talk else OF_TALK)

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; none for one that is not shown."""
        kind = event["event"]
        if kind in self._hidden or (kind in ("started", "text") and event["name"] == "note"):
            return b""
        # Events outside of a turn are numbered by each server for itself.
        number = f"{event['turn']}.{event['seq']}" if self._resumable and event["turn"] else ""
        return frame(event, event.get("place") or number)

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream; a problem is told as an event without an id: resuming skips it."""
        return frame({"event": "error", "text": problem}) if problem else b""


async def whole_answer(
    events: AsyncGenerator[Sequence[Form], None],
    conversation: str,
    decorate: Callable[[Form], Mapping[str, Any]],
) -> ChatAnswer:
    """Gather the events of a reply, up to its end or to a question.

    Args:
        events: of the reply.
        conversation: the name of the talk.
        decorate: returns an event as the client is told it.

    Raises:
        Problem: 503, the server stops before its end.
    """
    usage = {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
    answer = ChatAnswer("", "", None, [], [], [], [], [], conversation, 0, "cancelled", usage)
    asked: dict[str, dict[str, Any]] = {}  # questions that wait, by id
    async for event in (decorate(form) async for forms in events for form in forms):
        match event["event"]:
            case "turn_start":
                answer.turn = event["turn"]
            case "send":
                answer.messages.append(ShownMessage(event["id"], event["text"]))
            case "card":
                answer.cards.append({name: event[name] for name in _OF_CARD})
                answer.richContent = RichContent(event["type"], event["data"])
            case "picture":
                answer.pictures.append({name: event[name] for name in _OF_PICTURE if name in event})
            case "sources":
                answer.sources += event["sources"]
            case "react":
                answer.reactions.append(ShownReaction(event["id"], event["emoji"], event["message"]))
            case "error":
                answer.error = event["text"]
            case "approval":
                asked[event["id"]] = {name: event[name] for name in _OF_APPROVAL}
            case "approved":
                asked.pop(event["id"], None)
            case "turn_end":
                asked.clear()
                answer.finish, answer.usage = event["finish"], event["usage"]
            case _:
                pass
    if asked:
        answer.finish, answer.approvals = "approval", list(asked.values())
    answer.response = answer.text = "\n\n".join(each.text for each in answer.messages)
    return answer
