"""Arguments of a tool: mended where it is plain what was meant, else refused in words a model can act on."""

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pixi.core.errors import ToolError
from pixi.core.llm import ToolCall
from pixi.core.untrusted import clipped, data_without_halves, without_halves
from pixi.toolbox.schema import Schema, Signature

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_LONGEST_WORDS = 1_500
_LONGEST_VALUE = 60
_WRAPPINGS = frozenset({"arguments", "args", "parameters", "params", "kwargs", "input"})
_NUMBERS = frozenset({"integer", "number"})
_FORMATS = {
    "date-time": "a date and time such as 2026-01-31T12:00:00Z",
    "date": "a date such as 2026-01-31",
    "time": "a time such as 12:30",
    "duration": "a duration such as PT15M",
    "uri": "an address such as https://example.org",
    "uuid": "a UUID",
}


def arguments_in(call: ToolCall) -> dict[str, Any]:
    """Return the arguments that a model wrote; nothing at all counts as none.

    Raises:
        ToolError: they are no JSON object.
    """
    text = re.sub(r"\A```\w*\s*|\s*```\Z", "", call.arguments.strip())
    try:
        arguments = _read(text) if text else {}
        if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
            arguments = _read(arguments)  # written twice over
    except RecursionError:
        raise ToolError(f"The arguments of {call.name} are nested too deeply.") from None
    except ValueError as error:
        raise ToolError(
            f"The arguments of {call.name} are not JSON ({error}). Call it again with one JSON object."
        ) from None
    if arguments is None:
        return {}
    if not isinstance(arguments, dict):
        raise ToolError(
            f"The arguments of {call.name} must be one JSON object, not {type(arguments).__name__}."
        )
    return arguments


def _read(text: str) -> Any:
    """Return JSON, in which a line break in a text is one, and which can be written as JSON again.

    Raises:
        ValueError: it is none.
        RecursionError: it is nested too deeply.
    """
    read = json.loads(text, strict=False, parse_constant=_finite, parse_float=_finite)
    return data_without_halves(read) if "\\ud" in text.lower() else read


def _finite(written: str) -> float:
    number = float(written)
    if not math.isfinite(number):
        raise ValueError(f"{written[:20]} is no number there")
    return number


def checked(signature: Signature, arguments: Mapping[str, Any]) -> "dict[str, Any]":
    """Return the values for the function's parameters, by name.

    Raises:
        ToolError: they do not fit; says what is wrong with each, and what the tool takes.
    """
    import pydantic

    meant = mended(arguments, signature.schema.parameters, signature.nullable)
    try:
        model = signature.model.model_validate(meant)
    except pydantic.ValidationError as error:
        raise ToolError(_refusal(signature, error)) from None
    except RecursionError:
        raise ToolError(f"The arguments of {signature.schema.name} are nested too deeply.") from None
    return {name: getattr(model, f"field_{number}") for number, name in enumerate(signature.parameters)}


def mended(arguments: Mapping[str, Any], schema: Schema, nullable: Collection[str] = ()) -> dict[str, Any]:
    """Return arguments as they were meant; null, but for those that take it, is as good as left out."""
    required = schema.get("required", ())
    return {
        name: shaped(value, schema.get("properties", {}).get(name, {}))
        for name, value in _unwrapped(arguments, schema).items()
        if value is not None or name in required or name in nullable
    }


def _unwrapped(arguments: Mapping[str, Any], schema: Schema) -> Mapping[str, Any]:
    """Unwrap an object round all of it, which some models write."""
    match list(arguments.items()):
        case [(str(name), value)] if name in _WRAPPINGS and name not in schema.get("properties", {}):
            inner = _parsed(value) if isinstance(value, str) else value
            return inner if isinstance(inner, dict) else arguments
    return arguments


def shaped(value: Any, schema: Schema) -> Any:
    """Return a value in the shape that the schema wants, where it plainly was meant so.

    JSON that was written as a text is read, a single value becomes a list of one, a choice is found whatever
    its case. What remains is for the check.
    """
    kinds = _kinds(schema)
    if isinstance(value, str) and "string" not in kinds and kinds & {"object", "array"}:
        value = _parsed(value)
    if kinds == {"array"} and not isinstance(value, list) and value is not None:
        item = _kinds(schema.get("items", {}))
        if isinstance(value, str) and item and item <= _NUMBERS:
            value = [part for part in re.split(r"[\s,;]+", value) if part]
        else:
            value = [value]
    match value:
        case list() if "items" in schema:
            return [shaped(each, schema["items"]) for each in value]
        case dict() if "properties" in schema:
            inner = schema["properties"]
            return {name: shaped(each, inner.get(name, {})) for name, each in value.items()}
        case str() if "enum" in schema:
            return _choice(value, schema["enum"])
        case _:
            return value


def _kinds(schema: Schema) -> set[str]:
    """Return the JSON types that it takes; none where it does not say."""
    if "anyOf" in schema:
        return {kind for each in schema["anyOf"] for kind in _kinds(each)}
    kind = schema.get("type", ())
    return {kind} if isinstance(kind, str) else set(kind)


def _parsed(text: str) -> Any:
    try:
        return _read(text) if text.lstrip()[:1] in ("{", "[") else text
    except (ValueError, RecursionError):
        return text


def _choice(value: str, choices: Sequence[Any]) -> Any:
    if value in choices:
        return value
    alike = [each for each in choices if str(each).casefold() == value.strip().casefold()]
    return alike[0] if len(alike) == 1 else value


# Faults in words.


def _refusal(signature: Signature, error: "ValidationError") -> str:
    schema = signature.schema.parameters
    problems = [_problem(each, schema) for each in error.errors(include_url=False)]
    return refusal(signature.schema.name, problems, schema)


def refusal(tool: str, problems: Iterable[str], schema: Schema) -> str:
    """Tell a model why its arguments do not fit: what is wrong with each, and what the tool takes."""
    told = f"Wrong arguments for {tool}: {'; '.join(dict.fromkeys(problems))}. It takes {_taken(schema)}."
    return clipped(told, _LONGEST_WORDS)


def _taken(schema: Schema) -> str:
    required = schema.get("required", ())
    named = [
        f"{name} ({expected(its)}{'' if name in required else '; may be left out'})"
        for name, its in schema.get("properties", {}).items()
    ]
    return ", ".join(named) or "no arguments"


def _problem(error: "ErrorDetails", schema: Schema) -> str:
    path, its = _place(error["loc"], schema)
    wanted = expected(its)
    match error["type"]:
        case "missing":
            return f"{path} is missing: {wanted}" if wanted else f"{path} is missing"
        case "extra_forbidden":
            near = _nearest(path, schema.get("properties", {}))
            return f"there is no argument {path}{near}"
        case "value_error" | "assertion_error":
            return f"{path}: {error['msg'].partition(', ')[2] or error['msg']}"
        case _ if wanted:
            return f"{path} must be {wanted}, not {shown(error['input'])}"
        case _:
            return f"{path}: {error['msg']}"


def _place(loc: Sequence[int | str], schema: Schema) -> tuple[str, Schema]:
    """Return where in the arguments it is, as one writes it, and what is wanted there."""
    path = ""
    for part in loc:
        if isinstance(part, int):
            path, schema = f"{path}[{part}]", schema.get("items", {})
        elif part in schema.get("properties", {}):
            path, schema = f"{path}.{part}" if path else part, schema["properties"][part]
        elif isinstance(schema.get("additionalProperties"), dict):
            path, schema = f"{path}.{part}", schema["additionalProperties"]
        elif "anyOf" not in schema:  # else it names the choice that was tried
            path, schema = f"{path}.{part}" if path else part, {}
    return path or "arguments", schema


def _nearest(name: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def shown(value: object) -> str:
    """Return a value as JSON, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=lambda other: type(other).__name__)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return clipped(text, _LONGEST_VALUE)


def expected(schema: Schema, *, depth: int = 0) -> str:
    """Return what a schema takes, in words; "" where that cannot be said shortly."""
    if "enum" in schema:
        return f"one of {', '.join(map(shown, schema['enum']))}"
    if "const" in schema:
        return shown(schema["const"])
    if "anyOf" in schema:
        choices = [expected(each, depth=depth) for each in schema["anyOf"]]
        return " or ".join(choices) if all(choices) else ""
    match schema.get("type"):
        case "string":
            return _expected_text(schema)
        case "integer":
            return f"a whole number{_range(schema)}"
        case "number":
            return f"a number{_range(schema)}"
        case "boolean":
            return "true or false"
        case "array":
            each = expected(schema.get("items", {}), depth=depth + 1)
            return f"a list, each of it {each}" if each else "a list"
        case "object" if "properties" in schema and depth < 2:
            required = schema.get("required", ())
            inner = [
                f"{name} ({expected(its, depth=depth + 1)}{'' if name in required else ', optional'})"
                for name, its in schema["properties"].items()
            ]
            return f"an object with {', '.join(inner)}"
        case "object":
            return "an object"
    return ""


def _expected_text(schema: Schema) -> str:
    if schema.get("format") in _FORMATS:
        return _FORMATS[schema["format"]]
    words = "a text"
    if "pattern" in schema:
        words += f" that matches {schema['pattern']}"
    if schema.get("minLength", 0) > 1:
        words += f" of {schema['minLength']} characters or more"
    elif schema.get("minLength"):
        words += " that is not empty"
    if "maxLength" in schema:
        words += f" of {schema['maxLength']} characters at most"
    return words


def _range(schema: Schema) -> str:
    match schema:
        case {"minimum": low, "maximum": high}:
            return f" from {low} to {high}"
        case {"minimum": low}:
            return f", {low} or more"
        case {"maximum": high}:
            return f", {high} or less"
        case {"exclusiveMinimum": low}:
            return f" above {low}"
        case {"exclusiveMaximum": high}:
            return f" below {high}"
        case _:
            return ""


def plain_text(text: object, longest: int) -> str:
    """Return a stranger's description: no control characters, and cut where it is long."""
    if not isinstance(text, str):
        return ""
    text = without_halves(text[: longest + 1_000])
    return clipped("".join(c if c.isprintable() or c == "\n" else " " for c in text), longest)
