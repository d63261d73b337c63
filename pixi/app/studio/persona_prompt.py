"""A persona's text, looked at before it is saved: what is wrong with it, and the prompt that it makes."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec

from pixi.app.checking import missing_in, persona_form, with_missing
from pixi.app.household import Household
from pixi.app.studio.persona_files import personas_in
from pixi.channels.http.feed import HttpChannel
from pixi.core.persona import Persona
from pixi.core.prompt import fill, prefix
from pixi.core.tokens import estimate_text, estimate_tools
from pixi.core.untrusted import prompt_name
from pixi.engine.capabilities import Capabilities, capabilities_of, missing_names
from pixi.engine.context import prompt_template
from pixi.personas.files import LARGEST, LoadedPersona, shown
from pixi.personas.shelf import BrokenPersona, Found

_LONGEST = 100_000  # characters of a section that are shown


class PersonaFault(msgspec.Struct):
    """Something that is wrong, or hardly meant. `line` counts from 1; None: it belongs to none.

    Attributes:
        stops: the file is no persona before this is mended.
    """

    line: int | None
    text: str
    stops: bool


class PromptSection(msgspec.Struct):
    """A part of the prompt. `title`: its heading there, "" for the persona's own words."""

    title: str
    text: str
    tokens: int


class OfferedTool(msgspec.Struct):
    """A tool that the model is told of."""

    name: str
    tokens: int


class Prompt(msgspec.Struct):
    """What the model is told before the talk.

    Attributes:
        sections: its parts, in order.
        tools: which it is offered; of many, some are chosen for each turn.
        tokens: of all of it, estimated.
        context_tokens: how many the model can hold.
        model: that it is written for.
        small: the short prompt for tiny models.
    """

    sections: list[PromptSection]
    tools: list[OfferedTool]
    tokens: int
    context_tokens: int
    model: str
    small: bool


class PersonaForm(msgspec.Struct):
    """A file as `pixi-persona personas --json` tells of it; of a broken one only the faults are known."""

    name: str | None
    file: str
    about: str | None
    language: str | None
    databases: list[str] | None
    tools: list[str] | None
    examples: int | None
    faults: list[str]
    remarks: list[dict[str, int | str]]


def form_of(found: Found) -> PersonaForm:
    """Tell of a file."""
    return PersonaForm(**persona_form(found))


def looked_at(house: Household, path: Path, text: str) -> Found:
    """Look at a text as if the file held it, with the faults that `personas --check` would tell of."""
    if len(text.encode("utf-8", "replace")) > LARGEST:
        return BrokenPersona(
            path, (f"{shown(path)}: this is too large for a persona; keep it under 256 KB.",)
        )
    for each in personas_in(house.settings, {path: text}):
        if each.path == path:
            return with_names(house, each)
    return BrokenPersona(path, (f"{shown(path)}: another persona of an earlier folder has its names.",))


def with_names(house: Household, found: Found) -> Found:
    """Add what the persona names and what is not there."""
    loaded = found if isinstance(found, LoadedPersona) else found.loaded
    if loaded is None:
        return found
    missing = missing_in(loaded, house.engine.commands, house.engine.tools, house.library)
    return with_missing(found, missing, house.settings)


def problems_of(found: Found) -> list[PersonaFault]:
    """List what is wrong with a file, by line."""
    if isinstance(found, LoadedPersona):
        return [PersonaFault(remark.line, remark.text, stops=False) for remark in found.remarks]
    start = re.escape(shown(found.path))
    problems = []
    for fault in found.faults:
        placed = re.match(rf"{start}:(?:(\d+):)? ?(.*)", fault, re.DOTALL)
        line = int(placed[1]) if placed and placed[1] else None
        problems.append(PersonaFault(line, placed[2] if placed else fault, stops=True))
    return sorted(problems, key=lambda problem: problem.line or 0)


def prompt_of(house: Household, persona: Persona, person: str) -> Prompt:
    """Write the prompt as a talk over HTTP with this person begins. Names that are not there are left out."""
    model = house.model
    known = _with_known_names(house, persona)
    able = capabilities_of(
        known,
        house.engine.commands,
        house.engine.tools,
        small=model.traits.small,
        searches=model.traits.searches,
        abilities=HttpChannel().abilities,
    )
    sections = [*_sections(known, able, person or "somebody", small=model.traits.small)]
    tools = [OfferedTool(each.name, estimate_tools([each])) for each in able.schemas]
    if not model.traits.tools:
        tools = []
    return Prompt(
        sections,
        tools,
        tokens=sum(each.tokens for each in sections) + sum(each.tokens for each in tools),
        context_tokens=model.traits.context_tokens,
        model=model.name,
        small=model.traits.small,
    )


def _with_known_names(house: Household, persona: Persona) -> Persona:
    missing = missing_names(persona, house.engine.commands, house.engine.tools)
    gone = {(each.key, each.name) for each in missing}

    def there(key: str, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(name for name in names if (key, name) not in gone)

    return replace(
        persona,
        commands=None if persona.commands is None else there("commands", persona.commands),
        tools=there("tools", persona.tools),
        confirm=there("confirm", persona.confirm),
        databases=there("databases", persona.databases),
    )


def _sections(persona: Persona, able: Capabilities, person: str, *, small: bool) -> Iterator[PromptSection]:
    template = prompt_template(small=small)
    system, *turns = prefix(template, persona, able.help, person=person, small=small, unserved=able.unserved)
    if small:
        yield _section("", system.text)
        if turns:
            yield _section("Examples", "\n\n".join(line.text for line in turns))
        return
    text, title = system.text, ""
    # The persona's own words may hold such headings, too: they are looked for behind those words.
    names = {"user": prompt_name(person), "char": persona.name, "persona": persona.name}
    begin, place = 0, len(fill(persona.prompt, names).strip())
    for heading in (line for line in template.split("\n") if line.startswith("## ")):
        found = text.find(f"\n\n{heading}\n", place)
        if found < 0:
            continue  # there is nothing to say below it
        yield _section(title, text[begin:found])
        title = heading.removeprefix("## ")
        begin = place = found + 2 + len(heading)
    yield _section(title, text[begin:])


def _section(title: str, text: str) -> PromptSection:
    text = text.strip()
    return PromptSection(title, text[:_LONGEST], estimate_text(text) if text else 0)
