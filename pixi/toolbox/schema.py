"""A function's signature and docstring as a tool's schema, and names that every model server takes."""

import inspect
import re
import unicodedata
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from pixi.core.errors import ConfigError
from pixi.core.llm import ToolSchema

if TYPE_CHECKING:
    from pydantic import BaseModel

ToolFunction = Callable[..., Awaitable[Any]]
Schema = Mapping[str, Any]
"""A JSON Schema."""
_NAME = re.compile(r"[A-Za-z_][\w-]{0,63}", re.ASCII)  # every server takes these
_SECTION = re.compile(r"(Args|Arguments|Parameters|Raises):")
_ARGUMENT = re.compile(r"(\w+)\s*(?:\([^)]*\))?:\s*(.*)")
LONGEST_NAME = 64
"""Characters of a tool's name, and of a parameter's."""
_SAFE = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_MARK = 7  # characters of `_` and a mark


class Signature(Struct, frozen=True):
    """Parameters of a tool.

    Attributes:
        schema: as a model sees it: references are written out, and that null is allowed is not told.
        model: checks arguments. Its fields are numbered and known by alias, so that no parameter's name
            meets one of pydantic's own.
        parameters: the names, in the order of the numbers.
        nullable: those that take null.
    """

    schema: ToolSchema
    model: "type[BaseModel]"
    parameters: tuple[str, ...]
    nullable: frozenset[str] = field(default_factory=frozenset)


def signature_of(function: ToolFunction) -> Signature:
    """Read `async def name(context, ...)`. A parameter is described by its hint, or under `Args:`.

    Raises:
        ConfigError: it is not `async def`, has no docstring or a name that cannot be called, does not take
            the context first, or a parameter has no type hint, or one that JSON cannot carry.
    """
    # Imported here: pydantic takes a while, and a persona without tools needs none of it.
    import pydantic

    name = function.__name__
    description, told = _docstring(function)
    fields = _fields(function)
    numbered: dict[str, Any] = {
        f"field_{number}": (hint, pydantic.Field(default, alias=parameter))
        for number, (parameter, (hint, default)) in enumerate(fields.items())
    }
    config = pydantic.ConfigDict(extra="forbid", coerce_numbers_to_str=True, allow_inf_nan=False)
    try:
        model = pydantic.create_model(name, __config__=config, **numbered)
        schema = model.model_json_schema()
    except (pydantic.errors.PydanticUserError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error, pydantic.errors.PydanticSchemaGenerationError):
            # Its advice is for classes of pydantic.
            unknown = reason.partition(". Set ")[0].rpartition(" schema for ")[2]
            reason = f"{unknown}; write a dataclass in its place."
        raise ConfigError(f"tool {name!r}: a type hint that JSON cannot carry: {reason}") from None
    described = schema.get("properties", {})
    nullable = frozenset(parameter for parameter, its in described.items() if _takes_null(its))
    schema = simplified(schema)
    for parameter in told.keys() & described.keys():
        if "description" not in described[parameter]:  # else the hint itself says it; a type's own is less
            schema["properties"][parameter]["description"] = told[parameter]
    return Signature(ToolSchema(name, description, schema), model, tuple(fields), nullable)


def _docstring(function: ToolFunction) -> tuple[str, dict[str, str]]:
    """Return the description, and what is said of parameters."""
    name = function.__name__
    if not inspect.iscoroutinefunction(function):
        raise ConfigError(f"tool {name!r}: write it as `async def {name}(context, ...)`.")
    if not _NAME.fullmatch(name):
        raise ConfigError(f"tool {name!r}: name it with letters a to z, digits and _, 64 at most.")
    kept: list[str] = []
    told: dict[str, str] = {}
    section = parameter = ""
    indent = 0
    for line in inspect.cleandoc(function.__doc__ or "").splitlines():
        found = _SECTION.fullmatch(line.rstrip())
        if found:
            section, parameter, indent = found[1], "", 0
        elif section and line[:1].strip():
            section = ""
        if not section:
            kept.append(line)
        elif not found and section != "Raises" and line.strip():
            depth = len(line) - len(line.lstrip())
            indent = indent or depth
            begins = _ARGUMENT.fullmatch(line.strip()) if depth <= indent else None
            if begins:
                parameter, told[begins[1]] = begins[1], begins[2].strip()
            elif parameter:
                told[parameter] = f"{told[parameter]} {line.strip()}".strip()
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
    if not description:
        raise ConfigError(f"tool {name!r}: give it a docstring; the model reads it.")
    return description, told


def _fields(function: ToolFunction) -> dict[str, tuple[Any, Any]]:
    """Return the parameters after the context: name to (hint, default), `...` where there is none."""
    name = function.__name__
    try:
        parameters = list(inspect.signature(function, eval_str=True).parameters.values())
    except NameError as error:
        raise ConfigError(f"tool {name!r}: a type hint names {error.name!r}, which is not known.") from None
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    ):
        raise ConfigError(f"tool {name!r}: its first parameter is the context.")
    fields: dict[str, tuple[Any, Any]] = {}
    for parameter in parameters[1:]:
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise ConfigError(f"tool {name!r}: {parameter} cannot be described to a model; name each one.")
        if parameter.annotation is parameter.empty:
            raise ConfigError(f"tool {name!r}: parameter {parameter.name!r} needs a type hint.")
        default = ... if parameter.default is parameter.empty else parameter.default
        fields[parameter.name] = (parameter.annotation, default)
    return fields


def _takes_null(schema: Schema) -> bool:
    """Return whether null is a value for it, which a schema that says nothing takes as well."""
    kinds = [each.get("type") for each in schema.get("anyOf", ())]
    return "null" in kinds or not {"type", "anyOf", "$ref", "enum", "const", "allOf", "oneOf"} & schema.keys()


class _Recursive(Exception):
    """A type that holds itself."""


def simplified(schema: Schema) -> dict[str, Any]:
    """Return a schema as weak models and narrow servers read it best.

    Types of their own are written out where they are used, unless one holds itself; titles are left out;
    that a value may be null is left out too, since leaving the argument out says the same.
    """
    try:
        return _simplified(schema, schema.get("$defs", {}), frozenset())
    except _Recursive:
        return {key: value for key, value in schema.items() if key != "title"}


def _simplified(schema: Schema, defined: Schema, within: frozenset[str]) -> dict[str, Any]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name in within:
            raise _Recursive
        rest = {key: value for key, value in schema.items() if key != "$ref"}
        return _simplified({**defined[name], **rest}, defined, within | {name})
    plain: dict[str, Any] = {}
    for key, value in schema.items():
        match key, value:
            case "title" | "$defs" | "discriminator", _:
                pass
            case "properties", _:
                plain[key] = {name: _simplified(each, defined, within) for name, each in value.items()}
            case "items" | "additionalProperties", dict():
                plain[key] = _simplified(value, defined, within)
            case "anyOf" | "oneOf" | "allOf" | "prefixItems", _:
                plain[key] = [_simplified(each, defined, within) for each in value]
            case _:
                plain[key] = value
    return _without_null(plain)


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    if len(choices) == len(schema.get("anyOf", ())):
        return schema
    rest = {key: value for key, value in schema.items() if key != "anyOf"}
    if rest.get("default", ...) is None:
        del rest["default"]
    return {**choices[0], **rest} if len(choices) == 1 else {"anyOf": choices, **rest}


def safe_names(names: Iterable[str], *, before: str = "") -> dict[str, str]:
    """Give each name one of letters a to z, digits, `_` and `-`, all different, with `before` in front.

    A name that is such a one stays. What is Latin in another stays, accents dropped; one in another script is
    called after the script. Which name each gets follows from the names alone, not from their order.
    """
    names = sorted(set(names))
    room = LONGEST_NAME - len(before)
    plain = {name: _plain(name, begins=not before) for name in names}
    wanted = Counter(each[:room] for each in plain.values())
    safe: dict[str, str] = {}
    taken: set[str] = set()
    # A name that stays as it is has it, whoever else comes near.
    for name in sorted(names, key=lambda name: (plain[name] != name or len(name) > room, name)):
        chosen = plain[name][:room]
        alike = chosen != name and (len(plain[name]) > room or wanted[chosen] > 1)
        if alike or chosen in taken:
            chosen = _marked(name, chosen, room, taken)
        taken.add(chosen)
        safe[name] = before + chosen
    return safe


def mark_of(name: str) -> str:
    """Return six characters that are always the same for a name."""
    return blake2b(name.encode("utf-8", "surrogatepass"), digest_size=3).hexdigest()


def _marked(name: str, chosen: str, room: int, taken: set[str]) -> str:
    head = chosen[: max(0, room - _MARK)]
    marked = (f"{head}_{mark_of(name + '#' * more)}"[-room:] for more in count())
    return next(each for each in marked if each not in taken)


def _plain(name: str, *, begins: bool) -> str:
    """Return the name without unsafe characters; `begins`: it must begin with a letter or `_`."""
    if re.fullmatch(_SAFE if begins else r"[A-Za-z0-9_-]+", name):
        return name
    letters = [c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c)]
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "_-") else " " for c in letters)
    plain = "_".join(kept.split())
    whole = sum(c.isalnum() for c in letters)
    if not plain.strip("_-") or 2 * sum(c.isalnum() for c in plain) < whole:
        return f"{_script(name)}_{mark_of(name)}"
    return plain if not begins or _SAFE.fullmatch(plain) else f"_{plain}"


def _script(name: str) -> str:
    """Return the script of its first letter, in one word: `cjk`, `arabic`, `cyrillic`."""
    letter = next((c for c in name if c.isalpha() and not c.isascii()), "")
    word = unicodedata.name(letter, "NAME").split()[0].split("-")[0].lower() if letter else "name"
    return word if _SAFE.fullmatch(word) else "name"
