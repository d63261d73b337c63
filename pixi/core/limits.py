"""How much one turn may do, so that no reply floods a chat and no model runs on forever."""

from dataclasses import dataclass

TOOL_SECONDS = 20.0
"""How long a tool or a command may take where nobody set it."""

_ANSWER_SHARE, _ANSWER_SECONDS = 1 / 3, 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one turn. Over one of them the stream is closed; what was performed stands.

    Attributes:
        commands: how many commands one reply may perform.
        messages: how many messages one reply may send.
        reactions: how many reactions one reply may put.
        argument_characters: how long the argument of a command may be.
        reply_characters: how long a reply may be, as the model writes it.
        tools: how many tools the model is offered; if a persona has more, those that the talk is about.
        tool_steps: in how many rounds the model may call tools; then one round follows without tools.
        tool_calls: how many calls one such round may make; further calls get an error.
        tool_seconds: how long a tool or a command may take; without it 20 seconds, but a tool that lets a
            model read documents may use the rest of the turn, except for a reserve to answer in.
        tool_result_bytes: how many bytes of a tool's result the model reads; the rest is cut.
        seconds: how long a turn may take.
        restarts: how often a reply begins anew because another message came before anything was said.
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
