"""The settings as values: a frozen dataclass per section of `pixi.toml`, with the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pixi.core.limits import Limits
from pixi.settings.secret import Secret

ToolForm = Literal["auto", "native", "text", "off"]
GrammarForm = Literal["auto", "off", "llama.cpp", "vllm"]
ProsePolicy = Literal["auto", "send", "drop"]


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """`[model]` and `[helper_model]`: a model that writes.

    Attributes:
        name: `local` (the bundled model), a path to a .gguf file, or a model's id at `base_url`. Empty
            where a `base_url` was set without a name: then the one model which that server lists is meant.
        base_url: of an OpenAI-compatible server.
        api_key: None: a server of one's own, to which any key may be sent.
        temperature, max_tokens: None: the model's own.
        context_tokens: prompt and reply together; None: what the model's door knows, or a safe guess.
        extra_body: fields added to the body of each request, as they are.
        tools: how tools are offered: natively, in the text form, not at all, or what turns out to work.
        grammar: the dialect in which the server takes a grammar of the command language.
        vision: the model may be shown pictures.
        first_seconds: how long to wait for the first piece of a reply.
        gap_seconds: how long to wait between two pieces of it.
    """

    name: str = "local"
    base_url: str = "https://api.openai.com/v1"
    api_key: Secret | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    tools: ToolForm = "auto"
    grammar: GrammarForm = "auto"
    vision: bool = False
    first_seconds: float = 30.0
    gap_seconds: float = 20.0


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`[embedding_model]`: a model that turns text into vectors."""

    name: str
    base_url: str = "https://api.openai.com/v1"
    api_key: Secret | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """`[persona]`: who answers unless somebody else is named, and the folder whose personas come first."""

    default: str = "pixi"
    folder: Path = Path("personas")


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """`[reply]`: what becomes of a reply.

    `prose`: text outside every command is sent (`send`), dropped (`drop`), or sent only where the reply
    held no command at all (`auto`).
    """

    prose: ProsePolicy = "auto"


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """`[databases]`: the folder whose folders are databases; `names`: only these, None: all."""

    folder: Path = Path("databases")
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """`[store]`: where everything is kept that must outlive the process."""

    url: str = "sqlite:///pixi.db"


@dataclass(frozen=True, slots=True)
class DiscordSettings:
    """`[discord]`: the bot. Lists hold Discord's ids; an empty `allowed_…` list allows everybody.

    Attributes:
        api_url: a self-hosted server that speaks Discord's protocol; empty: Discord.
        dms: whether direct messages are answered.
        bots: whether other bots are answered.
    """

    token: Secret | None = None
    api_url: str = ""
    allowed_users: tuple[int, ...] = ()
    blocked_users: tuple[int, ...] = ()
    allowed_roles: tuple[int, ...] = ()
    blocked_roles: tuple[int, ...] = ()
    allowed_channels: tuple[int, ...] = ()
    blocked_channels: tuple[int, ...] = ()
    allowed_guilds: tuple[int, ...] = ()
    blocked_guilds: tuple[int, ...] = ()
    admins: tuple[int, ...] = ()
    dms: bool = True
    bots: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator may set.

    Attributes:
        helper_model: the cheap model; what it does not set comes from `model`, see `load`.
        addons: files of addons, besides the installed ones.
        origin: the settings file; None where there was none.
        sources: which keys were set and by what, e.g. `{"model.name": "PIXI_MODEL__NAME"}`.
    """

    model: ModelSettings = field(default_factory=ModelSettings)
    helper_model: ModelSettings = field(default_factory=ModelSettings)
    embedding_model: EmbeddingSettings | None = None
    persona: PersonaSettings = field(default_factory=PersonaSettings)
    reply: ReplySettings = field(default_factory=ReplySettings)
    databases: DatabaseSettings = field(default_factory=DatabaseSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    discord: DiscordSettings = field(default_factory=DiscordSettings)
    limits: Limits = field(default_factory=Limits)
    addons: tuple[Path, ...] = ()
    origin: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)
