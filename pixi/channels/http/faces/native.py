"""Our own face: each event as it is, as server-sent events whose ids say where a reader was."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from pixi.channels.http.bodies import ChatAnswer, RichContent, ShownMessage, ShownReaction
from pixi.channels.http.faces.sse import HEADERS, frame
from pixi.channels.http.feed import Form

PRIVATE = frozenset({"note"})
"""Events that only the persona and its operator know of."""
OF_TOOLS = frozenset({"tool_call", "tool_result", "progress"})
OF_TALK = frozenset({"said", "changed"})
"""Events of whole talks, which whoever follows one turn is not told of."""


class NativeStream:
    """Writes events as they are.

    Args:
        tools: events of tools are written, too.
        talk: so are those of the whole talk. Each event then has a `place`, which is its id.
    """

    headers = HEADERS

    def __init__(self, *, tools: bool = False, talk: bool = False) -> None:
        self._hidden = PRIVATE | (frozenset() if tools else OF_TOOLS) | (frozenset() if talk else OF_TALK)

    def feed(self, event: Mapping[str, Any]) -> bytes:
        """Return the bytes of an event; none for one that is not shown."""
        if event["event"] in self._hidden or (
            event["event"] in ("started", "text") and event["name"] == "note"
        ):
            return b""
        number = f"{event['turn']}.{event['seq']}" if event["turn"] else ""  # else each server has its own
        return frame(event, event.get("place") or number)

    def close(self, problem: str = "") -> bytes:
        """Return what ends the stream; a problem is told as an event without an id: resuming skips it."""
        return frame({"event": "error", "text": problem}) if problem else b""


async def whole(
    events: AsyncGenerator[Sequence[Form], None], conversation: str, told: Callable[[Form], Mapping[str, Any]]
) -> ChatAnswer:
    """Wait for all events of a reply; `told` makes of each what the client is told of it.

    Raises:
        Problem: 503, the server stops before its end.
    """
    messages: list[ShownMessage] = []
    cards: list[dict[str, Any]] = []
    reactions: list[ShownReaction] = []
    errors: list[str] = []
    turn, finish, usage = 0, "cancelled", {"prompt_tokens": 0, "cached_tokens": 0, "completion_tokens": 0}
    async for event in (told(form) async for forms in events for form in forms):
        match event["event"]:
            case "turn_start":
                turn = event["turn"]
            case "send":
                messages.append(ShownMessage(event["id"], event["text"]))
            case "card":
                cards.append({name: event[name] for name in ("id", "type", "version", "data", "fallback")})
            case "react":
                reactions.append(ShownReaction(event["id"], event["emoji"], event["message"]))
            case "error":
                errors.append(event["text"])
            case "turn_end":
                finish, usage = event["finish"], event["usage"]
            case _:
                pass
    text = "\n\n".join(each.text for each in messages)
    rich = RichContent(cards[-1]["type"], cards[-1]["data"]) if cards else None
    answer = ChatAnswer(text, text, rich, messages, cards, reactions, conversation, turn, finish, usage)
    if errors:
        answer.error = errors[-1]
    return answer
