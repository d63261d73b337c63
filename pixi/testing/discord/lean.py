"""What a server that only speaks like Discord leaves out or does otherwise, as Spacebar was seen to do."""

from __future__ import annotations

import zlib

from pixi.testing.discord.faults import Form, Json, RefusedCall

_TAKEN = frozenset({"name", "description", "type", "required", "choices", "value", "options"})
"""What an option of a slash command may hold there."""


def message(payload: Json) -> Json:
    """A message as REST and the gateway give it."""
    payload.setdefault("thread", None)
    payload["interaction"] = payload["poll"] = None
    if found := payload.get("reactions"):
        payload["reactions"] = [{"count": each["count"], "emoji": each["emoji"]} for each in found]
    return payload


def fetched(payload: Json) -> Json:
    """A message that was asked for by its id."""
    del payload["mentions"]
    return payload


def updated(payload: Json) -> Json:
    """A message that was edited."""
    author = {key: value for key, value in payload["author"].items() if key != "id"}
    return payload | {"author": author}


def member(payload: Json) -> Json:
    """A membership: its roles are told whole."""
    payload["roles"] = [{"id": role, "name": "a role"} for role in payload["roles"]]
    return payload


def check_options(options: object) -> None:
    """Raises `RefusedCall`: an option of a slash command has a field that is not known there."""
    form = Form()
    for at, option in enumerate(options if isinstance(options, list) else ()):
        if set(option) - _TAKEN:
            form.wrong(("options", at), "BASE_TYPE_BAD", "must NOT have additional properties")
    form.check()


def no_webhook() -> RefusedCall:
    """What executing a webhook gives; nothing is posted."""
    return RefusedCall(500, 0, "Internal Server Error")


class OneByOne:
    """Each message of the gateway is a stream, or a frame, of its own."""

    def __init__(self, compress: str) -> None:
        self._zstd = compress == "zstd-stream"

    def pack(self, data: bytes) -> bytes:
        """Nothing goes on in the next one."""
        if not self._zstd:
            return zlib.compress(data)
        blocks = [data[start : start + (1 << 17)] for start in range(0, len(data), 1 << 17)]
        packed = [
            ((len(block) << 3) | (at == len(blocks) - 1)).to_bytes(3, "little") + block
            for at, block in enumerate(blocks)
        ]
        return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(packed)
