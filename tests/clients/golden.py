"""The bytes of each face for some turns, and what real clients make of them: both kept in `streams/`.

`python -m tests.clients.golden` writes them anew; then read in the difference what has changed for clients.
"""

import asyncio
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pixi.channels.http.faces.ag_ui import AgUiStream
from pixi.channels.http.faces.ai_sdk import AiSdkStream
from pixi.channels.http.faces.chat_completions import ChatCompletionStream, CompletionOptions
from pixi.channels.http.faces.native import NativeStream
from pixi.channels.http.streams import Face
from tests.clients.client import client
from tests.clients.scenes import SCENES

STREAMS = Path(__file__).parent / "streams"


@dataclass(frozen=True)
class Kept:
    """A face, and who reads it.

    Attributes:
        face: makes one for a turn.
        end: stands in the last frame of a turn that did not fail, and nowhere before it.
        clients: who reads it: the scripts, with their arguments.
    """

    face: Callable[[], Face]
    end: bytes
    clients: tuple[tuple[str, ...], ...] = ()


def _completion() -> Face:
    wishes = CompletionOptions(strict=True)  # what fails is told as an error
    return ChatCompletionStream(answer_id="chatcmpl-7", model="pixi", created=7, options=wishes, usage=True)


KEPT: Mapping[str, Kept] = {
    "native": Kept(lambda: NativeStream(tools=True), b'"event":"turn_end"'),
    "openai": Kept(_completion, b'"finish_reason":"', (("openai.mjs", ""),)),
    "ai-sdk": Kept(
        lambda: AiSdkStream(tools=True, notes=True),
        b'"messageMetadata":{"finish":',
        (("ai_sdk.mjs", "ai5", ""), ("ai_sdk.mjs", "ai6", ""), ("ai_sdk.mjs", "ai", "")),
    ),
    "ai-sdk-6": Kept(
        lambda: AiSdkStream(newer=True, tools=True, notes=True),
        b'"messageMetadata":{"finish":',
        (("ai_sdk.mjs", "ai6", ""), ("ai_sdk.mjs", "ai", "")),
    ),
    "ag-ui": Kept(
        lambda: AgUiStream("kitchen", "run", tools=True, notes=True), b'"RUN_FINISHED"', (("ag_ui.mjs", ""),)
    ),
}


def stream(face: str, scene: str) -> bytes:
    """What a client is sent."""
    made = KEPT[face].face()
    return b"".join(made.feed(event) for event in SCENES[scene]) + made.close()


def stream_path(face: str, scene: str) -> Path:
    """Where it is kept."""
    return STREAMS / f"{scene}.{face}.sse"


def told_path(face: str, script: tuple[str, ...]) -> Path:
    """Where is kept what a client makes of the streams of a face, by scene."""
    return STREAMS / f"{face}.{name_of(script)}.json"


def name_of(script: tuple[str, ...]) -> str:
    """The name of a client."""
    return "-".join(script).removesuffix("-").replace(".mjs", "")


async def parsed(script: tuple[str, ...], face: str) -> dict[str, Any]:
    """What a client makes of the kept streams of a face, by scene."""
    async with client(*script) as program:
        return {
            scene: await program.do("parse", path=str(stream_path(face, scene).resolve())) for scene in SCENES
        }


async def _write() -> None:
    STREAMS.mkdir(exist_ok=True)
    for face, kept in KEPT.items():
        for scene in SCENES:
            stream_path(face, scene).write_bytes(stream(face, scene))
        for script in kept.clients:
            told = {scene: each["told"] for scene, each in (await parsed(script, face)).items()}
            text = json.dumps(told, ensure_ascii=False, indent=1)
            told_path(face, script).write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    asyncio.run(_write())
