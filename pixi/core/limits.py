"""How much one turn may do, so that no reply floods a chat and no model runs on forever."""

from dataclasses import dataclass

TOOL_SECONDS = 20.0
"""How long a tool or a command may take where nobody set it."""

_ANSWER_SHARE, _ANSWER_SECONDS = 1 / 3, 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one turn. Over one of them the stream is closed; what was performed stands.

    Attributes:
        commands: commands performed, of any kind.
        messages: messages sent.
        reactions: reactions put.
        argument_characters: length of one argument.
        reply_characters: length of one raw reply of the model.
        tools: how many the model is offered; where a persona has more, those that the talk is about.
        tool_steps: rounds in which tools may be called; after them comes one round without tools.
        tool_calls: calls carried out in one such round, side by side; the others are answered with an error.
        tool_seconds: how long one tool or command may take; None: `TOOL_SECONDS`, and a tool without a limit
            of its own, e.g. one that has a model read documents, has what the turn has left but for a
            reserve to answer in.
        tool_result_bytes: length of one tool's result as text, in UTF-8; the rest is cut, and said so.
        seconds: length of the whole turn.
        restarts: how often a reply is begun again because another message came before anything was said.
    """

    commands: int = 30
    messages: int = 10
    reactions: int = 5
    argument_characters: int = 4_000
    reply_characters: int = 40_000
    tools: int = 40
    tool_steps: int = 6
    tool_calls: int = 16
    tool_seconds: float | None = None
    tool_result_bytes: int = 32_768
    seconds: float = 180.0
    restarts: int = 3

    def seconds_for(self, own: float | None, left: float) -> float:
        """Return how many seconds a tool may take.

        Args:
            own: the tool's own limit; None: it has none, and is told how long it may take.
            left: seconds until the turn ends.
        """
        if own is not None:
            return min(own, self.tool_seconds or TOOL_SECONDS)
        # The model still has to read the result, and to answer.
        allowed = left - min(left * _ANSWER_SHARE, _ANSWER_SECONDS)
        return allowed if self.tool_seconds is None else min(self.tool_seconds, allowed)
