"""Casting: which role is played in which conversation, and the sessions on which they are played."""

from collections import OrderedDict
from collections.abc import Callable

from pixi.core.persona import Persona
from pixi.core.picture import Abilities
from pixi.engine.repertoire import NO_ABILITIES
from pixi.engine.stage import EngineContext, PersonaSession, Role

PersonaResolver = Callable[[str], Role]
"""Gives the role of a conversation, by its address. Asked anew for each turn."""

# Stages that stay in memory: a persona that is edited is another one each time, and each server with stickers
# of its own needs one. With a session goes what keeps the tools of its talks the same.
_KEPT = 256


class PersonaSessions:
    """The sessions, one for each role that was played lately in places of the same abilities."""

    __slots__ = ("_cast", "_sessions", "_shared")

    def __init__(self, cast: PersonaResolver, shared: EngineContext) -> None:
        self._cast = cast
        self._shared = shared
        self._sessions: OrderedDict[tuple[Persona, int, Abilities], PersonaSession] = OrderedDict()

    def at(self, conversation: str, abilities: Abilities = NO_ABILITIES) -> PersonaSession:
        """Where a conversation is played now. The same role has the same session, where the same can be done.

        Raises:
            PixiError: whoever casts could not say.
        """
        role = self._cast(conversation)
        key = (
            role.persona,
            id(role.model),
            abilities,
        )  # the session holds the model: its id is nobody else's
        session = self._sessions.get(key)
        if session is None:
            session = self._sessions[key] = PersonaSession(role, self._shared, abilities)
            if len(self._sessions) > _KEPT:
                self._sessions.popitem(last=False)
        self._sessions.move_to_end(key)
        return session
