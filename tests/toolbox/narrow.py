"""The narrowest rules that any model server has for a tool: what keeps them is taken everywhere."""

import json
import re
from collections.abc import Mapping
from typing import Any

NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
PROPERTY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
KEYWORDS = {
    "string": {"type", "description", "enum", "minLength", "maxLength"},
    "integer": {"type", "description", "minimum", "maximum"},
    "number": {"type", "description", "minimum", "maximum"},
    "boolean": {"type", "description"},
    "array": {"type", "description", "items", "minItems", "maxItems"},
    "object": {"type", "description", "properties", "required"},
}


def faults_of(parameters: Mapping[str, Any]) -> list[str]:
    """Everything that some server would refuse."""
    faults = list(_faults(parameters, "", 0))
    if parameters.get("type") != "object" or "properties" not in parameters:
        faults.append("the top is no object")
    text = json.dumps(parameters, ensure_ascii=False, allow_nan=False)
    text.encode("utf-8")
    if len(text) > 16_000:
        faults.append(f"{len(text)} characters")
    return faults


def _faults(node: Any, place: str, depth: int) -> Any:
    if not isinstance(node, dict):
        yield f"{place}: {node!r} is no schema"
        return
    if depth > 10:
        yield f"{place}: too deep"
    if not isinstance(node.get("description", ""), str):
        yield f"{place}: its description is no text"
    if "anyOf" in node:
        if not node.keys() <= {"anyOf", "description"} or len(node["anyOf"]) < 2:
            yield f"{place}: {sorted(node)}"
        for number, each in enumerate(node["anyOf"]):
            yield from _faults(each, f"{place}|{number}", depth + 1)
        return
    kind = node.get("type")
    if not isinstance(kind, str) or kind not in KEYWORDS:
        yield f"{place}: type {kind!r}"
        return
    if more := node.keys() - KEYWORDS[kind]:
        yield f"{place}: {more} of {kind}"
    for low, high in (("minimum", "maximum"), ("minLength", "maxLength"), ("minItems", "maxItems")):
        bounds = [node[key] for key in (low, high) if key in node]
        if bounds != sorted(bounds) or any(isinstance(each, bool) or abs(each) > 2**53 for each in bounds):
            yield f"{place}: {bounds}"
    if kind == "array":
        yield from _faults(node.get("items"), f"{place}[]", depth + 1)
    if "enum" in node and (
        not node["enum"]
        or len(node["enum"]) != len(set(node["enum"]))
        or len(node["enum"]) > 100
        or not all(isinstance(each, str) and each for each in node["enum"])
    ):
        yield f"{place}: enum {node['enum']!r}"
    if kind == "object":
        properties = node.get("properties")
        if not isinstance(properties, dict):
            yield f"{place}: no properties"
            return
        if not set(node.get("required", ())) <= properties.keys() or node.get("required") == []:
            yield f"{place}: required {node.get('required')}"
        for name, each in properties.items():
            if not PROPERTY.fullmatch(name):
                yield f"{place}: property {name!r}"
            yield from _faults(each, f"{place}.{name}", depth + 1)
