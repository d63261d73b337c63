"""Casting: which role is played in which conversation, and the stages on which they are played."""

from collections import OrderedDict
from collections.abc import Callable

from pixi.core.persona import Persona
from pixi.core.picture import Abilities
from pixi.engine.repertoire import NO_ABILITIES
from pixi.engine.stage import Role, Shared, Stage

Cast = Callable[[str], Role]
"""Gives the role of a conversation, by its address. Asked anew for each turn."""

# Stages that stay in memory: a persona that is edited is another one each time, and each server with stickers
# of its own needs one. With a stage goes what keeps the tools of its talks the same.
_KEPT = 256


class Casting:
    """The stages, one for each role that was played lately in places of the same abilities."""

    __slots__ = ("_cast", "_shared", "_stages")

    def __init__(self, cast: Cast, shared: Shared) -> None:
        self._cast = cast
        self._shared = shared
        self._stages: OrderedDict[tuple[Persona, int, Abilities], Stage] = OrderedDict()

    def stage(self, conversation: str, abilities: Abilities = NO_ABILITIES) -> Stage:
        """Where a conversation is played now. The same role has the same stage, where the same can be done.

        Raises:
            PixiError: whoever casts could not say.
        """
        role = self._cast(conversation)
        key = (role.persona, id(role.model), abilities)  # the stage holds the model: its id is nobody else's
        stage = self._stages.get(key)
        if stage is None:
            stage = self._stages[key] = Stage(role, self._shared, abilities)
            if len(self._stages) > _KEPT:
                self._stages.popitem(last=False)
        self._stages.move_to_end(key)
        return stage
