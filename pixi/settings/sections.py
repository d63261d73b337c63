"""The settings as values: a frozen dataclass per section of `pixi.toml`, with the defaults."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from msgspec import Meta

from pixi.core.llm import Prices, ToolMode
from pixi.core.persona import PaceSetting
from pixi.core.reading import ProsePolicy
from pixi.core.spending import Allowance, Budgets, Limits
from pixi.settings.rules import HttpRules, Rules
from pixi.settings.secret import HidesSecrets, Secret
from pixi.settings.sources import Given

Sampler = Literal["llama.cpp", "chat", "openai", "responses", "anthropic", "gemini"]
"""Samplers: llama.cpp in a process of ours, or a server by its API. `openai` is OpenAI's own `chat`."""
SAMPLER_TITLES: Mapping[Sampler, str] = {
    "llama.cpp": "llama.cpp",
    "chat": "chat completions",
    "openai": "OpenAI's chat completions",
    "responses": "the Responses API",
    "anthropic": "Anthropic's Messages API",
    "gemini": "Gemini's API",
}
_OPENAI = ("top_p", "frequency_penalty", "presence_penalty", "seed", "stop")
_LOCAL = (*_OPENAI, "top_k", "min_p", "repeat_penalty")
_NAMES_IN_BODY: Mapping[Sampler, Mapping[str, tuple[str, ...]]] = {
    "llama.cpp": {name: (name,) for name in _LOCAL},
    # llama.cpp and LM Studio know the one name for the penalty, vLLM and OpenRouter the other; each ignores
    # what it does not know.
    "chat": {
        **{name: (name,) for name in _LOCAL},
        "repeat_penalty": ("repeat_penalty", "repetition_penalty"),
    },
    "openai": {name: (name,) for name in _OPENAI},
    "responses": {"top_p": ("top_p",)},
    "anthropic": {"stop": ("stop_sequences",)},
    "gemini": {
        "top_p": ("topP",),
        "top_k": ("topK",),
        "frequency_penalty": ("frequencyPenalty",),
        "presence_penalty": ("presencePenalty",),
        "seed": ("seed",),
        "stop": ("stopSequences",),
    },
}
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Tokens = Annotated[int, Meta(ge=0, le=1_000_000_000_000)]
_Seconds = Annotated[float, Meta(ge=0.01, le=3_600)]
_GEMINIS_FIELD = "generationConfig"  # the field of a body in which Gemini wants the sampling
GrammarForm = Literal["auto", "off", "llama.cpp", "vllm"]
ApiForm = Literal["auto", "chat", "responses", "anthropic", "gemini"]
DEFAULT_MODEL = "default"
"""The name by which `[model]` stands beside those of `[models.NAME]`."""


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Sampling:
    """Choice of words by a model. What is not set is the server's choice, or suits the model's size.

    Attributes:
        top_p: the share of likely words to choose from.
        top_k: how many of the likeliest words to choose from; 0 means all.
        min_p: how likely a word must be, as a share of the likeliest one.
        repeat_penalty: how much less likely a word becomes that came before; 1 is no penalty.
        frequency_penalty: how much less likely a word becomes each time that it came before.
        presence_penalty: how much less likely a word becomes that came before at all.
        seed: a number; with the same one, the same request gets the same reply, as far as the server can.
        stop: texts at which a reply ends.
    """

    top_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    top_k: _Count | None = None
    min_p: Annotated[float, Meta(ge=0, le=1)] | None = None
    repeat_penalty: Annotated[float, Meta(ge=0.1, le=10)] | None = None
    frequency_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    presence_penalty: Annotated[float, Meta(ge=-2, le=2)] | None = None
    seed: Annotated[int, Meta(ge=0, le=2**31 - 1)] | None = None  # the largest that Gemini takes
    stop: tuple[str, ...] = ()

    def not_known_to(self, sampler: Sampler) -> list[str]:
        """Return the names of values that are set and that a sampler does not know."""
        return [name for name in self._set() if name not in _NAMES_IN_BODY[sampler]]

    def fields_for(
        self, sampler: Sampler, extra_body: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        """Return the sampling as fields of a request's body, with those of `extra_body` on top."""
        named = _NAMES_IN_BODY[sampler]
        own = {each: value for name, value in self._set().items() for each in named.get(name, ())}
        extra = dict(extra_body or {})
        if own and sampler == "gemini":
            theirs = extra.get(_GEMINIS_FIELD)
            if isinstance(theirs, Mapping):
                own |= theirs
            return {**extra, _GEMINIS_FIELD: own}
        return {**own, **extra}

    def _set(self) -> dict[str, object]:
        values = {field.name: getattr(self, field.name) for field in fields(Sampling)}
        return {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in values.items()
            if value not in (None, ())
        }


@dataclass(frozen=True, slots=True, repr=False)
class ModelSettings(HidesSecrets, Sampling):
    """The model that writes: where it is, and how it is asked.

    Attributes:
        name: `local` (the bundled model), the path of a .gguf file, or the id of a model at `base_url`;
            beside a `base_url` you may leave it out if that server has only one model.
        base_url: the address of the server.
        api: the API of the server; `auto` is `chat` (OpenAI's chat completions), unless the native web search
            needs another.
        api_key: the key of the server; without one, Pixi sends any key, which your own servers accept.
        temperature: how freely the model chooses its words; without it, the server decides.
        max_tokens: how many tokens a reply may have; without it, the server decides.
        context_tokens: how many tokens the model can hold, prompt and reply together; without it, what the
            server tells, or a safe guess.
        parameters: how many parameters the model has, in billions: below 0.7 its prompt is short, and below 3
            it gets no tools; without it, its file, its server or its name tells.
        extra_body: fields for the body of each request, as they are.
        tools: how tools are offered: by the server's API, as text in the prompt, not at all, or what suits
            the model's size and turns out to work.
        grammar: the form of a grammar that the server takes, which keeps a small model to the command
            language; `auto` is for a tiny model on llama.cpp alone.
        vision: whether the model can see pictures.
        first_seconds: how long to wait for the first piece of a reply; without it 30, and 300 for a server in
            your own network, or more if the prompt is long.
        gap_seconds: how long to wait between two pieces of a reply.
        prices: what the model costs; without it, the cost of a reply is not known.
        fallback: models that Pixi asks in turn if this one cannot answer, with the same keys.
    """

    name: str = "local"
    base_url: str = "https://api.openai.com/v1"
    api: ApiForm = "auto"
    api_key: Secret | None = None
    temperature: Annotated[float, Meta(ge=0, le=5)] | None = None
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    context_tokens: Annotated[int, Meta(ge=512, le=100_000_000)] | None = None
    parameters: Annotated[float, Meta(ge=0.001, le=100_000)] | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    tools: ToolMode = "auto"
    grammar: GrammarForm = "auto"
    vision: bool = False
    first_seconds: _Seconds | None = None
    gap_seconds: _Seconds = 20.0
    prices: Prices | None = None
    fallback: tuple["ModelSettings", ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class EmbeddingSettings(HidesSecrets):
    """A model that turns text into vectors, by which documents are found by their meaning.

    Attributes:
        name: the id of the model at `base_url`.
        base_url: the address of the server; without it, that of `[model]`.
        api_key: the key of the server; without it, that of `[model]` where the address is the same.
        extra_body: fields for the body of each request, as they are.
        prices: what the model costs.
    """

    name: str
    base_url: str = "https://api.openai.com/v1"
    api_key: Secret | None = None
    extra_body: Mapping[str, Any] = field(default_factory=dict)
    prices: Prices | None = None


@dataclass(frozen=True, slots=True)
class PersonaSettings:
    """The persona that answers.

    Attributes:
        default: the persona that answers unless you name another: a name from `pixi-persona personas`, or a
            file.
        folder: your folder of personas; they come before the included ones.
    """

    default: str = "pixi"
    folder: Path = Path("personas")


@dataclass(frozen=True, slots=True)
class ReplySettings:
    """Style and pace of replies.

    Attributes:
        prose: whether text outside every command is sent, dropped, or sent only if the reply has no command.
        pace: how fast messages follow each other in a chat with people; `persona` follows each persona's
            file.
        gather_seconds: how long to wait for more messages before the first is answered.
        gather_messages: how many messages one reply answers at most; the others wait for the next reply.
        waiting_messages: how many messages may wait in one channel; the persona only overhears further ones.
    """

    prose: ProsePolicy = "auto"
    pace: PaceSetting = "persona"
    gather_seconds: Annotated[float, Meta(ge=0, le=60)] = 0.0
    gather_messages: Annotated[int, Meta(ge=1, le=100)] = 6
    waiting_messages: Annotated[int, Meta(ge=1, le=100_000)] = 200


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """Summaries of talks that are too long for the model.

    Attributes:
        summarize: whether the helper model summarizes what falls out of the talk; the bundled model cannot.
        summary_tokens: how many tokens a summary may have.
    """

    summarize: bool = True
    summary_tokens: Annotated[int, Meta(ge=100, le=4_000)] = 500


@dataclass(frozen=True, slots=True)
class DatabaseSettings:
    """Folders of documents that personas can search.

    Attributes:
        folder: the folder of databases; each folder in it is a database.
        names: the databases to use; without it, all of them.
    """

    folder: Path = Path("databases")
    names: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class StoreSettings(HidesSecrets):
    """Place where talks are kept.

    Attributes:
        url: a file, or a PostgreSQL server as `postgresql://user:password@host:5432/database`.
        keep_days: after how many days Pixi forgets what was said; without it, never.
    """

    url: str = "sqlite:///pixi.db"
    keep_days: Annotated[int, Meta(ge=1, le=36_500)] | None = None


@dataclass(frozen=True, slots=True)
class LimitSettings(Limits):
    """Limits of one turn, and of use in a day and a month.

    Attributes:
        person_messages: how many messages of one person are answered in a day; without it, any number.
        person_tokens: how many tokens one person may use in a day.
        person_writes: how many changes tools may make for one person in a day.
        channel_messages: how many messages of one channel are answered in a day.
        channel_tokens: how many tokens one channel may use in a day.
        channel_writes: how many changes tools may make in one channel in a day.
        guild_messages: how many messages of one server are answered in a day.
        guild_tokens: how many tokens one server may use in a day.
        guild_writes: how many changes tools may make in one server in a day.
        month_dollars: how many dollars all models may cost in a month, after which nobody is answered; each
            model needs a price then.
    """

    person_messages: _Count | None = None
    person_tokens: _Tokens | None = None
    person_writes: _Count | None = None
    channel_messages: _Count | None = None
    channel_tokens: _Tokens | None = None
    channel_writes: _Count | None = None
    guild_messages: _Count | None = None
    guild_tokens: _Tokens | None = None
    guild_writes: _Count | None = None
    month_dollars: Annotated[float, Meta(ge=0.01, le=1_000_000)] | None = None

    @property
    def budgets(self) -> Budgets:
        """Return what may be used in a day and a month."""
        return Budgets(
            Allowance(self.person_messages, self.person_tokens, self.person_writes),
            Allowance(self.channel_messages, self.channel_tokens, self.channel_writes),
            Allowance(self.guild_messages, self.guild_tokens, self.guild_writes),
            self.month_dollars,
        )


@dataclass(frozen=True, slots=True)
class DiscordSettings(Rules):
    """The Discord bot: its token, where it goes, and the rules that it keeps.

    Attributes:
        token: the token of the bot; it belongs in `.env` as `DISCORD_TOKEN`.
        api_url: the address of another server that speaks Discord's protocol; empty: Discord.
    """

    token: Secret | None = None
    api_url: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class McpSettings(HidesSecrets):
    """An MCP server whose tools personas may use; it has a `command` or a `url`.

    Attributes:
        command: the program of a server that runs on this machine.
        args: the arguments of the program.
        env: further variables for the environment of the program.
        folder: the folder in which the program runs; without it, Pixi's.
        url: the address of a server on the network.
        type: the transport of that server: streamable HTTP, or the older SSE.
        headers: headers of each request.
        tools: the tools that personas may use, by their own names; without it, all.
        reads: the tools that change nothing, where `*` is all; without it, those of which the server says so.
        approval: which tools the person who asks must agree to, each time.
        seconds: how long one call may take.
        personas: the personas that may use the server; without it, all.
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
    seconds: Annotated[float, Meta(ge=0.1, le=3_600)] = 20.0
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class WebSearchSettings(HidesSecrets):
    """The search of the web.

    Attributes:
        engine: who searches: the model's provider (`native`), a tool of an MCP server, DuckDuckGo, a SearXNG
            server, or nobody.
        url: the address of the SearXNG server.
        tool: the tool of an MCP server, as `SERVER.TOOL`.
        results: how many results a search gives.
        price: the price of one search, in dollars; without it, the price is unknown.
        personas: the personas that may search; without it, all.
    """

    engine: Literal["off", "native", "mcp", "duckduckgo", "searxng"] = "off"
    url: str = ""
    tool: str = ""
    results: Annotated[int, Meta(ge=1, le=20)] = 5
    price: Annotated[float, Meta(ge=0, le=100)] | None = None
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class WebPagesSettings:
    """Pages of the web, which personas read by their addresses.

    Attributes:
        read: whether a persona may read pages.
        robots: whether Pixi obeys the robots.txt of a site.
        megabytes: how large a page may be.
        characters: how much of a page's text the model gets at once.
        seconds: how long a page may take to arrive.
        personas: the personas that may read pages; without it, all.
        contact: your mail address, or that of a page about your bot; Pixi sends it to every server from which
            it fetches a page, a wiki or a picture.
    """

    read: bool = False
    robots: bool = True
    megabytes: Annotated[float, Meta(ge=0.1, le=100)] = 5.0
    characters: Annotated[int, Meta(ge=500, le=1_000_000)] = 20_000
    seconds: Annotated[float, Meta(ge=0.5, le=600)] = 15.0
    personas: tuple[str, ...] | None = None
    contact: str = ""


@dataclass(frozen=True, slots=True, repr=False)
class WikiSettings(HidesSecrets):
    """A wiki that runs MediaWiki, which personas may search and read.

    Attributes:
        url: the address of any page of the wiki; empty: Wikipedia, in the persona's language.
        about: what the wiki is about, in a line for the model.
        personas: the personas that may read the wiki; without it, all.
    """

    url: str = ""
    about: str = ""
    personas: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, repr=False)
class GifSettings(HidesSecrets):
    """Moving pictures, which personas send with `[GIF: …]`.

    Attributes:
        engine: the source of the pictures: a service, a folder, or nothing.
        api_key: the key of the service.
        folder: the folder of pictures; each file name says what the picture shows, such as `excited cat.gif`.
        rating: the strongest rating that a service may give.
    """

    engine: Literal["off", "klipy", "giphy", "folder"] = "off"
    api_key: Secret | None = None
    folder: Path = Path("gifs")
    rating: Literal["g", "pg", "pg-13", "r"] = "pg"


@dataclass(frozen=True, slots=True)
class JwtSettings:
    """Tokens (JWT) of the application whose page people talk from.

    Attributes:
        issuer: who must have made a token (`iss`); without it, Pixi takes no token.
        audience: for whom a token must be made (`aud`).
        keys: the public keys of the issuer (JWKS), as an address or a file.
        user: the claim that names the person.
    """

    issuer: str = ""
    audience: str = ""
    keys: str = ""
    user: str = "sub"


@dataclass(frozen=True, slots=True)
class HttpSettings(HttpRules):
    """The server for programs and web pages, and the rules that it keeps.

    Attributes:
        host: the address at which the server listens; on any but this machine's, callers need a key.
        port: the port at which it listens; 0 is any free one.
        open_webui_secret: the secret with which Open WebUI signs its users.
        jwt: the section `[http.jwt]`.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8642
    open_webui_secret: Secret | None = None
    jwt: JwtSettings = field(default_factory=JwtSettings)


@dataclass(frozen=True, slots=True)
class StudioSettings:
    """The studio: pages for operators.

    Attributes:
        private: whether the studio also shows private talks; Pixi records each opening of one.
    """

    private: bool = False


@dataclass(frozen=True, slots=True, repr=False)
class MonitoringSettings(HidesSecrets):
    """Monitoring from outside: a port for metrics and health checks, and traces.

    Attributes:
        host: the address at which the port is open; whoever reaches it needs no key.
        port: the port for `/metrics`, `/healthz` and `/readyz`, where 0 is any free one; without it, there is
            none, and `serve` has these paths on its own port.
        traces: the address of an OpenTelemetry collector that takes OTLP over HTTP; empty: what
            `OTEL_EXPORTER_OTLP_ENDPOINT` names, if it is set.
        words: whether traces also hold what people and personas say and what tools get and give, private
            talks too.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] | None = None
    traces: str = ""
    words: bool = False


SECTIONS: Mapping[str, type[Any]] = {
    "model": ModelSettings,
    "helper_model": ModelSettings,
    "embedding_model": EmbeddingSettings,
    "persona": PersonaSettings,
    "reply": ReplySettings,
    "history": HistorySettings,
    "databases": DatabaseSettings,
    "store": StoreSettings,
    "discord": DiscordSettings,
    "limits": LimitSettings,
    "mcp": McpSettings,
    "web_search": WebSearchSettings,
    "web_pages": WebPagesSettings,
    "wiki": WikiSettings,
    "gifs": GifSettings,
    "http": HttpSettings,
    "http.jwt": JwtSettings,
    "studio": StudioSettings,
    "monitoring": MonitoringSettings,
}
"""Sections but `[prices]`, whose keys are models' names, and `[models.NAME]`, which goes by `model`.
Those of `NAMED` stand here with the keys that each of them has."""


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
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)
    addons: tuple[Path, ...] = ()
    addon: Mapping[str, Mapping[str, Given]] = field(default_factory=dict, repr=False)
    origin: Path | None = None
    sources: Mapping[str, str] = field(default_factory=dict)

    @property
    def model_is_set(self) -> bool:
        """Return True if somebody chose a model, be it the bundled one. A key alone chooses none."""
        return "model.name" in self.sources or self.model.name != ModelSettings().name
