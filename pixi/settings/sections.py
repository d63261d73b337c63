"""The settings as values: a frozen dataclass per section of `pixi.toml`, with the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pixi.channels.discord.rules import Rules
from pixi.channels.http.rules import HttpRules
from pixi.core.deltas import Prices
from pixi.core.limits import Limits
from pixi.core.spending import Allowance, Budgets
from pixi.settings.given import Given
from pixi.settings.hidden import Discreet
from pixi.settings.secret import Secret

ToolForm = Literal["auto", "native", "text", "off"]
GrammarForm = Literal["auto", "off", "llama.cpp", "vllm"]
ApiForm = Literal["auto", "chat", "responses", "anthropic", "gemini"]
ProsePolicy = Literal["auto", "send", "drop"]
PaceSetting = Literal["persona", "off", "brisk", "human"]

DEFAULT_MODEL = "default"
"""The name by which `[model]` stands beside those of `[models.NAME]`."""


@dataclass(frozen=True, slots=True, repr=False)
class ModelSettings(Discreet):
    """`[model]`, `[helper_model]`, each `[models.NAME]` and `[[….fallback]]` of these: a model that writes.

    Attributes:
        name: `local` (the bundled model), a path to a .gguf file, or a model's id at `base_url`. Empty
            where a `base_url` was set without a name: then the one model which that server lists is meant.
        base_url: of the server.
        api: what its server speaks: OpenAI's chat completions, OpenAI's Responses, Anthropic's Messages or
            Gemini; `auto`: chat completions, unless the native web search is wanted and the server has it
            elsewhere.
        api_key: None: a server of one's own, to which any key may be sent.
        temperature, max_tokens: None: the model's own.
        context_tokens: prompt and reply together; None: what the model's door knows, or a safe guess.
        parameters: how many it has, in billions: which prompt it is given, and whether tools, goes by that;
            None: what its file, its server or its name tells.
        extra_body: fields added to the body of each request, as they are.
        tools: how tools are offered: natively, in the text form, not at all, or what suits its size and turns
            out to work.
        grammar: the dialect in which the server takes a grammar of the command language.
        vision: the model may be shown pictures.
        first_seconds: how long to wait for the first piece of a reply, or for a sign that the prompt is
            read on; None: what suits the server.
        gap_seconds: how long to wait between two pieces of it.
        prices: what it costs; None: not known.
        fallback: the models that are asked in its place, in turn, while it cannot answer.
    """

    name: str = "local"
    base_url: str = "https://api.openai.com/v1"
    api: ApiForm = "auto"
    api_key: Secret | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    context_tokens: int | None = None
    parameters: float | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    tools: ToolForm = "auto"
    grammar: GrammarForm = "auto"
    vision: bool = False
    first_seconds: float | None = None
    gap_seconds: float = 20.0
    prices: Prices | None = None
    fallback: tuple["ModelSettings", ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class EmbeddingSettings(Discreet):
    """`[embedding_model]`: a model that turns text into vectors. `prices`: what it costs; None: not known."""

    name: str
    base_url: str = "https://api.openai.com/v1"
    api_key: Secret | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """`[persona]`: who answers unless somebody else is named, and the folder whose personas come first."""

    default: str = "pixi"
    folder: Path = Path("personas")


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """`[reply]`: what becomes of a reply.

    Attributes:
        prose: text outside every command is sent (`send`), dropped (`drop`), or sent only where the reply
            held no command at all (`auto`).
        pace: how fast messages follow each other in a chat with people: as each persona says, or one pace
            for all.
        gather_seconds: how long to wait for more messages before answering the first.
        gather_messages: how many messages to the persona one reply answers at most; the others wait for the
            next.
        waiting_messages: how many of them may wait in one channel; further ones are only overheard.
    """

    prose: ProsePolicy = "auto"
    pace: PaceSetting = "persona"
    gather_seconds: float = 0.0
    gather_messages: int = 6
    waiting_messages: int = 200


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """`[history]`: what becomes of a talk that is too long for the model.

    Attributes:
        summarize: what falls out is written down by the helper model, unless that is the bundled one.
        summary_tokens: how long that may be.
    """

    summarize: bool = True
    summary_tokens: int = 500


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """`[databases]`: the folder whose folders are databases; `names`: only these, None: all."""

    folder: Path = Path("databases")
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class StoreSettings(Discreet):
    """`[store]`: where everything is kept that must outlive the process.

    Attributes:
        keep_days: what was said longer ago is forgotten; None: nothing is.
    """

    url: str = "sqlite:///pixi.db"
    keep_days: int | None = None


@dataclass(frozen=True, slots=True)
class LimitSettings(Limits):
    """`[limits]`: how much one turn may do, and how much may be used in a day and a month.

    Attributes:
        person_messages, person_tokens, person_writes: for each person, in a day; None: any number.
        channel_messages, channel_tokens, channel_writes: for each channel.
        guild_messages, guild_tokens, guild_writes: for each guild.
        month_dollars: for everybody together, in a month; None: whatever it costs.
    """

    person_messages: int | None = None
    person_tokens: int | None = None
    person_writes: int | None = None
    channel_messages: int | None = None
    channel_tokens: int | None = None
    channel_writes: int | None = None
    guild_messages: int | None = None
    guild_tokens: int | None = None
    guild_writes: int | None = None
    month_dollars: float | None = None

    @property
    def budgets(self) -> Budgets:
        """What may be used in a day and a month."""
        return Budgets(
            Allowance(self.person_messages, self.person_tokens, self.person_writes),
            Allowance(self.channel_messages, self.channel_tokens, self.channel_writes),
            Allowance(self.guild_messages, self.guild_tokens, self.guild_writes),
            self.month_dollars,
        )


@dataclass(frozen=True, slots=True)
class DiscordSettings(Rules):
    """`[discord]`: the bot's token, where it goes, and the rules that it keeps.

    Attributes:
        api_url: a self-hosted server that speaks Discord's protocol; empty: Discord.
    """

    token: Secret | None = None
    api_url: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class McpSettings(Discreet):
    """Each `[mcp.NAME]`: an MCP server whose tools personas may use. It has a `command` or a `url`.

    Attributes:
        command: the program of a server that runs here and is spoken to over its standard input and output.
        args: its arguments.
        env: what its environment has besides the little that every program needs.
        folder: where it runs; None: where Pixi does.
        url: of a server on the network.
        type: how that is spoken to: streamable HTTP, or the older SSE.
        headers: sent along with each request.
        tools: those of its tools that may be used, by its own names; None: all.
        reads: those that change nothing; None: those of which the server says so. `*` stands for all.
        approval: which of them the person who asks must say yes to, each time.
        seconds: how long one call may take.
        personas: who may use it; None: everybody.
    """

    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, Secret] = field(default_factory=dict)
    folder: Path | None = None
    url: str = ""
    type: Literal["http", "sse"] = "http"
    headers: Mapping[str, Secret] = field(default_factory=dict)
    tools: tuple[str, ...] | None = None
    reads: tuple[str, ...] | None = None
    approval: Literal["writes", "always", "never"] = "writes"
    seconds: float = 20.0
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class WebSearchSettings(Discreet):
    """`[web_search]`: how a persona searches the web.

    Attributes:
        engine: the model's provider searches by itself within its reply (`native`), a tool of an MCP server
            does, or Pixi does at DuckDuckGo or a SearXNG server.
        url: of the SearXNG server.
        tool: the tool of an MCP server, as `SERVER.TOOL`.
        results: how many a search gives.
        price: dollars for one search; None: not known.
        personas: who may search; None: everybody.
    """

    engine: Literal["off", "native", "mcp", "duckduckgo", "searxng"] = "off"
    url: str = ""
    tool: str = ""
    results: int = 5
    price: float | None = None
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class WebPagesSettings:
    """`[web_pages]`: whether a persona may read pages of the web, by their addresses.

    Attributes:
        read: it may.
        robots: what a site's robots.txt forbids is not read.
        megabytes: how large a page may be, as it comes and unpacked.
        characters: how much of its text is given at once.
        seconds: how long it may take.
        personas: who may; None: everybody.
        contact: a mail address or a web page of the operator, told to every server that is asked for a page,
            a wiki or a picture; empty: none.
    """

    read: bool = False
    robots: bool = True
    megabytes: float = 5.0
    characters: int = 20_000
    seconds: float = 15.0
    personas: tuple[str, ...] | None = None
    contact: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class WikiSettings(Discreet):
    """Each `[wiki.NAME]`: a wiki that runs MediaWiki.

    Attributes:
        url: of any of its pages; empty: Wikipedia, in the persona's language.
        about: what there is to be found, for the model.
        personas: who may read it; None: everybody.
    """

    url: str = ""
    about: str = ""
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GifSettings(Discreet):
    """`[gifs]`: where the moving pictures of `[GIF: …]` come from.

    Attributes:
        engine: a service, by its key, or a folder of pictures.
        api_key: of the service.
        folder: its pictures are described by their names: `excited cat.gif`.
        rating: the strongest that a service may give.
    """

    engine: Literal["off", "klipy", "giphy", "folder"] = "off"
    api_key: Secret | None = None
    folder: Path = Path("gifs")
    rating: Literal["g", "pg", "pg-13", "r"] = "pg"


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """`[http.jwt]`: tokens of the application whose page people talk from.

    Attributes:
        issuer: who must have made a token (`iss`); empty: no token is taken.
        audience: for whom it must be made (`aud`).
        keys: the public keys of the issuer, as JWKS: an address, or the path of a file.
        user: the claim that names the person.
    """

    issuer: str = ""
    audience: str = ""
    keys: str = ""
    user: str = "sub"


@dataclass(frozen=True, slots=True)
class HttpSettings(HttpRules):
    """`[http]`: the server for programs and web pages, and the rules that it keeps.

    Attributes:
        host, port: where it listens; port 0: any that is free.
        open_webui_secret: with which Open WebUI signs whom it speaks for; None: it does not.
        jwt: tokens of the host application.
    """

    host: str = "127.0.0.1"
    port: int = 8642
    open_webui_secret: Secret | None = None
    jwt: JwtSettings = field(default_factory=JwtSettings)


@dataclass(frozen=True, slots=True)
class StudioSettings:
    """`[studio]`: the pages for operators.

    Attributes:
        private: they show talks in private too; each opening of one is put on record.
    """

    private: bool = False


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything that an operator may set.

    Attributes:
        models: further models that may be chosen, by the names of their sections.
        prices: what models cost, by their names. Each model of the settings has its own by now.
        mcp: MCP servers, by the names of their sections.
        wiki: wikis, by the names of their sections.
        helper_model: the cheap model; what it does not set comes from `model`, see `load`.
        addons: files of addons, and names of those that come along, besides the installed ones.
        addon: what stands in each `[addon.NAME]`, by name and key, as it was given; see `addon_settings`.
        origin: the settings file; None where there was none.
        sources: which keys were set and by what, e.g. `{"model.name": "PIXI_MODEL__NAME"}`.
    """

    model: ModelSettings = field(default_factory=ModelSettings)
    models: Mapping[str, ModelSettings] = field(default_factory=dict)
    helper_model: ModelSettings = field(default_factory=ModelSettings)
    embedding_model: EmbeddingSettings | None = None
    persona: PersonaSettings = field(default_factory=PersonaSettings)
    reply: ReplySettings = field(default_factory=ReplySettings)
    history: HistorySettings = field(default_factory=HistorySettings)
    databases: DatabaseSettings = field(default_factory=DatabaseSettings)
    store: StoreSettings = field(default_factory=StoreSettings)
    discord: DiscordSettings = field(default_factory=DiscordSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    prices: Mapping[str, Prices] = field(default_factory=dict)
    mcp: Mapping[str, McpSettings] = field(default_factory=dict)
    web_search: WebSearchSettings = field(default_factory=WebSearchSettings)
    web_pages: WebPagesSettings = field(default_factory=WebPagesSettings)
    wiki: Mapping[str, WikiSettings] = field(default_factory=dict)
    gifs: GifSettings = field(default_factory=GifSettings)
    http: HttpSettings = field(default_factory=HttpSettings)
    studio: StudioSettings = field(default_factory=StudioSettings)
    addons: tuple[Path, ...] = ()
    addon: Mapping[str, Mapping[str, Given]] = field(default_factory=dict, repr=False)
    origin: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_is_set(self) -> bool:
        """Return True if somebody chose a model, be it the bundled one. A key alone chooses none."""
        return "model.name" in self.sources or self.model.name != ModelSettings().name
