"""Opens the models that settings name: the one that runs here, or the door to a server."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pixi.core.errors import ConfigError
from pixi.settings import ModelSettings

if TYPE_CHECKING:
    from pixi.models.model import Model
    from pixi.models.openai_chat import OpenAIChat

Tell = Callable[[str], None]


def runs_here(model: ModelSettings) -> bool:
    """Whether the model runs in this process, rather than at a server."""
    return model.name == "local" or model.name.endswith(".gguf")


async def open_model(chosen: ModelSettings, turn_seconds: float, progress: Tell) -> "Model":
    """Open a model.

    Args:
        chosen: which.
        turn_seconds: how long one request may take at most.
        progress: told what takes long.

    Raises:
        ConfigError: there is no such model, or no key for it.
        ModelError: its server cannot be asked.
    """
    if runs_here(chosen):
        from pixi.models.llama import LocalModel

        path = None if chosen.name == "local" else Path(chosen.name)
        return await LocalModel.open(
            path,
            progress=progress,
            context_tokens=chosen.context_tokens,
            temperature=chosen.temperature,
            max_tokens=chosen.max_tokens,
        )
    return await _open_server(chosen, turn_seconds)


async def _open_server(chosen: ModelSettings, turn_seconds: float) -> "Model":
    from pixi.models.deadlines import Deadlines
    from pixi.models.model import Traits
    from pixi.models.openai_chat import OpenAIChat

    if chosen.api_key is None and urlsplit(chosen.base_url).hostname == "api.openai.com":
        raise ConfigError(
            f"There is no key for the model {chosen.name!r} at api.openai.com: set OPENAI_API_KEY in the\n"
            "environment or in .env. Without --model and model.name the bundled model answers, with no key."
        )

    def door(name: str) -> OpenAIChat:
        known = Traits()
        return OpenAIChat(
            name,
            base_url=chosen.base_url,
            api_key=chosen.api_key.reveal() if chosen.api_key else None,
            traits=Traits(
                chosen.context_tokens or known.context_tokens, vision=chosen.vision, prices=chosen.prices
            ),
            temperature=chosen.temperature,
            max_tokens=chosen.max_tokens,
            extra_body=chosen.extra_body,
            tools=chosen.tools,
            grammar="off" if chosen.grammar == "auto" else chosen.grammar,
            deadlines=Deadlines(chosen.first_seconds, chosen.gap_seconds, turn_seconds),
        )

    return door(chosen.name or await _only_model(door("")))


async def _only_model(server: "OpenAIChat") -> str:
    """The one model that a server lists, where the settings name none.

    Raises:
        ConfigError: it lists none or several.
        ModelError: it cannot be asked.
    """
    names = await server.models()
    if len(names) == 1:
        return names[0]
    known = f"several models: {', '.join(sorted(names)[:10])}" if names else "no model"
    raise ConfigError(
        f"No model is named, and the server lists {known}.\nUse --model NAME, or set model.name."
    )
