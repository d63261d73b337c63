"""What a call of a tool gave, from the SDK's values into ours. Every text of it is a stranger's."""

import base64
import binascii
import json

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    TextResourceContents,
)

from pixi.core.message import Image
from pixi.core.untrusted import clipped, prompt_name
from pixi.mcp.offers import CallFailed, CallResult

_LONGEST_WORDS = 1_500  # of a server that says what went wrong
_LONGEST_ADDRESS = 500


def called(server: str, result: CallToolResult) -> CallResult:
    """The parts of a result.

    Raises:
        CallFailed: it is an error; holds the server's own words.
    """
    parts = [part for block in result.content if (part := _part(block)) != ""]
    if result.is_error:
        texts = "\n".join(part for part in parts if isinstance(part, str))
        said = clipped(texts, _LONGEST_WORDS) or "without a word why"
        raise CallFailed(f"{server} could not do it: {said}")
    structured = result.structured_content
    if structured is not None and not any(_says(part, structured) for part in parts):
        parts.append(json.dumps(structured, ensure_ascii=False))
    return CallResult(tuple(parts) or ("Done.",), structured)


def _says(part: str | Image, value: object) -> bool:
    """Return True if a text is that value as JSON, or the value in so many words."""
    if not isinstance(part, str):
        return False
    if isinstance(value, dict) and list(value) == ["result"] and part == value["result"]:
        return True  # how the SDK's servers wrap a plain text
    try:
        return bool(json.loads(part) == value)
    except (ValueError, RecursionError):
        return False


def _part(block: ContentBlock) -> str | Image:
    match block:
        case TextContent():
            return block.text
        case ImageContent():
            return _picture(block.data, block.mime_type)
        case AudioContent():
            return f"(a sound that you cannot hear: {prompt_name(block.mime_type)}, {_amount(block.data)})"
        case ResourceLink():
            return _link(block)
        case EmbeddedResource():
            return _resource(block.resource)


def _link(link: ResourceLink) -> str:
    about = clipped(" ".join((link.description or "").split()), _LONGEST_WORDS)
    told = f"(a link: {prompt_name(link.title or link.name)}, {_address(link.uri)}"
    kind = f", {prompt_name(link.mime_type)}" if link.mime_type else ""
    return f"{told}{kind}){f' {about}' if about else ''}"


def _resource(resource: TextResourceContents | BlobResourceContents) -> str | Image:
    if isinstance(resource, TextResourceContents):
        return f"({_address(resource.uri)})\n{resource.text}"
    kind = resource.mime_type or ""
    if kind.startswith("image/"):
        return _picture(resource.blob, kind)
    told = prompt_name(kind) or "of no known kind"
    return f"(a file: {_address(resource.uri)}, {told}, {_amount(resource.blob)})"


def _address(uri: str) -> str:
    return clipped("".join(uri.split()), _LONGEST_ADDRESS)


def _picture(data: str, kind: str) -> str | Image:
    try:
        return Image(kind, base64.b64decode(data, validate=True))
    except (binascii.Error, ValueError):
        return "(a picture that cannot be read)"


def _amount(data: str) -> str:
    """How much is in so much base64."""
    size = len(data) * 3 // 4
    return f"{size:,} bytes" if size < 10_000 else f"{size // 1_000:,} kB"
