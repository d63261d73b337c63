"""Why a reply is as it is: the request as it was sent, what came to mind, and what became of each act.

All of it is made again from history and record, see `pixi.app.looking_back`; what was forgotten is gone
from it too.
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct, convert, field, to_builtins
from msgspec.structs import asdict

from pixi.app.looking_back import RebuiltRequest, look_back
from pixi.app.service import BotService
from pixi.app.studio.rows import may_read, operator_route
from pixi.core.language import NOTE, REACT, SEND, CommandEnded
from pixi.core.llm import (
    AssistantLine,
    Cited,
    Line,
    ToolCall,
    ToolLine,
    UserLine,
    estimate,
    estimate_all,
    estimate_tools,
    sources_in,
)
from pixi.core.masking import hidden_in
from pixi.core.message import Message
from pixi.core.reading import commands_in, written
from pixi.core.routes import AddonRoute, Caller, RouteError
from pixi.core.stamps import LinePart, parts_of
from pixi.store.kept import Effect


class WhyPart(Struct):
    """A part of a line of people: `stamp`, `words`, `memory`, `notice`, `document` or `summary`."""

    kind: str
    text: str


class WhyLine(Struct):
    """A line of the request. `tokens` are estimated; `name` is that of the tool whose answer it is."""

    role: str
    text: str
    tokens: int
    parts: list[WhyPart] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    images: int = 0
    name: str = ""


class WhyTurn(Struct):
    """A turn of the window, by its number."""

    turn: int
    lines: list[WhyLine]


class WhyTool(Struct):
    """A tool that was offered."""

    name: str
    description: str
    parameters: dict[str, Any]
    tokens: int


class WhyCommand(Struct):
    """A command that the prompt tells of; `choices` are all that its argument can be, e.g. stickers."""

    name: str
    form: str
    description: str
    choices: list[str]


class WhyReminder(Struct):
    """Something that came to mind: a `memory`, a `notice` of an addon, or what a `document` says.

    `about` is of whom it tells, or where it is from. `words` are those of the message for which it is found,
    and `score` how well it fits, where 1 is one telling word: both as they come out now. `known`: it is still
    remembered.
    """

    kind: str
    about: str
    text: str
    words: list[str]
    score: float | None = None
    known: bool = True


class WhyRequest(Struct):
    """A request of the turn: of so many lines, with tools or without. `tokens` are estimated."""

    step: int
    lines: int
    tokens: int
    tools: bool


class WhyAct(Struct):
    """The outcome of a command, or of an act of a tool.

    `command` is as the history holds it, "" where a tool acted, or where it was not delivered; `kind` is of
    the act, "" where there was none, as of a note; `outcome` is `done`, `refused` or `unknown`.
    """

    command: str
    kind: str
    text: str
    outcome: str
    parts: int = 1


class WhyUsage(Struct):
    """Tokens as the server counted them."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


class WhyAnswer(Struct):
    """A turn that is over.

    `hidden`: it is in private, and its words are not shown. `certain` is `same` where the request below is
    the one that was sent, to the byte; `changed` where some parts of it are not, which `changed` names
    (`prefix`, `history`, `said`, `tools`); `unknown` where nothing was put on record by which to tell;
    `forgotten`. `tokens` are estimated, of each part; `raw` is what the model wrote to the letter, where it
    was only just now.
    """

    turn: int
    conversation: str
    persona: str
    model: str
    began: float
    finish: str
    steps: int
    usage: WhyUsage
    cost: float | None
    hidden: bool
    certain: str
    changed: list[str] = field(default_factory=list)
    persona_now: str = ""
    model_now: str = ""
    prefix: list[WhyLine] = field(default_factory=list)
    summary: WhyLine | None = None
    history: list[WhyTurn] = field(default_factory=list)
    said: WhyLine | None = None
    reply: list[WhyLine] = field(default_factory=list)
    requests: list[WhyRequest] = field(default_factory=list)
    tools: list[WhyTool] = field(default_factory=list)
    tools_gone: list[str] = field(default_factory=list)
    commands: list[WhyCommand] = field(default_factory=list)
    reminders: list[WhyReminder] = field(default_factory=list)
    acts: list[WhyAct] = field(default_factory=list)
    sources: list[Cited] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    raw: list[str] = field(default_factory=list)


def routes(service: BotService) -> Sequence[AddonRoute]:
    """Return the way in to the screen."""

    async def answer(caller: Caller, asked: None) -> WhyAnswer:
        number = caller.path["turn"]
        is_number = number.isdecimal() and len(number) < 19
        made = await look_back(service.engine, service.store, int(number)) if is_number else None
        if made is None:
            raise RouteError(404, "No such turn", f"There is no turn {number[:20]} that has ended.")
        if not await may_read(service, caller, made.looked_back.trunk, "why"):
            return figures(made, hidden=True)
        told = hidden_in(to_builtins(await why(service, made)), service.mask.hide)
        return convert(told, WhyAnswer)

    return [operator_route("GET", "/api/studio/why/{turn}", answer, "See why a reply is as it is")]


def figures(made: RebuiltRequest, *, hidden: bool) -> WhyAnswer:
    """Return what is known of a turn without a word of it."""
    record, role = made.looked_back.record, made.session.role
    usage = record.usage
    if made.said is None:
        certain = "forgotten"
    elif made.changed is None:
        certain = "unknown"
    else:
        certain = "changed" if made.changed else "same"
    return WhyAnswer(
        turn=record.id,
        conversation=record.conversation,
        persona=record.persona,
        model=record.model,
        began=record.began,
        finish=record.finish or "",
        steps=record.steps,
        usage=WhyUsage(usage.prompt_tokens, usage.cached_tokens, usage.completion_tokens),
        cost=record.cost,
        hidden=hidden,
        certain=certain,
        changed=sorted(made.changed or ()),
        persona_now=role.persona.name,
        model_now=role.model.name,
        limits=list(made.looked_back.framing.limits) if made.looked_back.framing else [],
    )


async def why(service: BotService, made: RebuiltRequest) -> WhyAnswer:
    """Return all that is known of a turn, with secrets that stand in it."""
    told = figures(made, hidden=False)
    record = made.looked_back.record
    told.prefix = [_line(line) for line in made.prefix]
    told.commands = [
        WhyCommand(each.name, each.form, each.description, list(each.choices))
        for each in made.session.capabilities.help
    ]
    told.tools = [WhyTool(**asdict(tool), tokens=estimate_tools([tool])) for tool in made.tools]
    told.tools_gone = list(made.gone)
    if made.said is None:
        return told
    told.summary = None if made.summary is None else _line(made.summary)
    told.history = [WhyTurn(turn.id, [_line(line) for line in turn.lines]) for turn in made.window]
    told.said = _line(made.said)
    told.reply = [_line(line) for line in record.lines[1:]]
    told.requests = [
        WhyRequest(step, len(request.lines), estimate_all(request.lines), bool(request.tools))
        for step, request in enumerate(made.requests(), 1)
    ]
    told.reminders = await _reminders(service, made, parts_of(made.said))
    told.acts = _acts(made)
    notes = (command.argument for command in _commands(made) if command.name == NOTE)
    told.sources = [*sources_in(notes)]
    told.tokens = {
        "prefix": estimate_all(made.prefix),
        "tools": estimate_tools(made.tools),
        "history": estimate_all(made.history),
        "said": estimate(made.said),
        "reply": estimate_all(record.lines[1:]),
    }
    told.raw = service.hub.text_of(record.conversation, record.id)
    return told


def _line(line: Line) -> WhyLine:
    told = WhyLine("system", line.text, estimate(line))
    match line:
        case UserLine(images=images):
            told.role, told.images = "user", len(images)
            told.parts = [WhyPart(part.kind, part.text) for part in parts_of(line)]
        case AssistantLine(_, calls):
            told.role, told.calls = "assistant", list(calls)
        case ToolLine(_, name, _, images):
            told.role, told.name, told.images = "tool", name, len(images)
        case _:
            pass
    return told


async def _reminders(
    service: BotService, made: RebuiltRequest, said: Iterable[LinePart]
) -> list[WhyReminder]:
    """Return the memories that came up and the words that called them, found anew in today's memories."""
    parts = [part for part in said if part.kind in ("memory", "notice", "document")]
    persona = made.session.role.persona.name
    known = {
        part.people: [memory.text for memory in await service.store.memories(part.people[0], persona)]
        for part in parts
        if part.kind == "memory"
    }
    return await asyncio.to_thread(_found, parts, known, made.looked_back.messages)


def _found(
    parts: Iterable[LinePart], known: dict[tuple[str, ...], list[str]], messages: Sequence[Message]
) -> list[WhyReminder]:
    from pixi.text.relevance import matching_words, most_relevant

    found: list[WhyReminder] = []
    meant = [message for message in messages if message.addressed]
    for part in parts:
        theirs = [message for message in meant if part.kind == "document" or message.author.id in part.people]
        asked = "\n".join(message.text for message in theirs)
        remembered = known.get(part.people, [])
        scores: dict[str, float] = {}
        if part.kind == "memory":
            texts = list(dict.fromkeys([*remembered, *part.facts]))
            scores = {texts[one.place]: one.score for one in most_relevant(asked, texts)}
        for fact in part.facts:
            score = scores.get(fact)
            found.append(
                WhyReminder(
                    part.kind,
                    part.about,
                    fact,
                    [] if part.kind == "notice" else matching_words(asked, fact),
                    None if score is None else round(score, 2),
                    part.kind != "memory" or fact in remembered,
                )
            )
    return found


def _commands(made: RebuiltRequest) -> Iterator[CommandEnded]:
    """Yield the commands that the history of the turn holds, in order."""
    names = made.session.capabilities.names
    for line in made.looked_back.record.lines:
        if isinstance(line, AssistantLine):
            yield from commands_in(line.text, names)


def _acts(made: RebuiltRequest) -> list[WhyAct]:
    """Return the outcome of each command, in order; behind them the acts that no command shows."""
    names = made.session.capabilities.names
    left: list[list[Effect]] = []  # those of one command together; of a tool each by itself
    by_command: dict[int, list[Effect]] = {}
    for effect in made.looked_back.record.effects:
        if effect.command in by_command:
            by_command[effect.command].append(effect)
            continue
        left.append([effect])
        if effect.command is not None:
            by_command[effect.command] = left[-1]
    acts: list[WhyAct] = []
    for command in _commands(made):
        text = written(command.name, command.argument, names, command.target)
        own = [effects for effects in left if _is_of(command, effects)]
        if own:
            left.remove(own[0])
            acts.append(_act(text, own[0]))
        else:
            acts.append(WhyAct(text, "", "", "done"))
    return [*acts, *(_act("", effects) for effects in left)]


def _is_of(command: CommandEnded, effects: Sequence[Effect]) -> bool:
    """Return True if acts may be those of a command that was delivered."""
    if effects[0].command is None or not any(effect.outcome == "done" for effect in effects):
        return False
    kind = effects[0].kind
    return kind == command.name if {kind, command.name} & {SEND, REACT} else command.name != NOTE


def _act(command: str, effects: Sequence[Effect]) -> WhyAct:
    """Return the outcome of one command or act; of several parts, of the first that was not done."""
    outcome = "done"
    for effect in effects:
        if effect.outcome != "done":
            outcome = effect.outcome or "unknown"
            break
    text = "".join(each.payload for each in effects)
    return WhyAct(command, effects[0].kind, text, outcome, len(effects))
