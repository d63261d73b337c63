"""The persona that a name means: the page, run under node, finds the same as the server."""

import asyncio
import json
from pathlib import Path

import pytest

from pixi.channels.http import pages
from pixi.channels.http.access import persona_named
from pixi.core.persona import Persona
from tests.page.test_conversation import NODE
from tests.waiting import within

NAMES = {
    "sage": "Moss",
    "moss": "Sage",
    "straße": "Road",
    "café": "Bar",
    "kit": "The  Kit",
    "ilk": "Ilk Two",
    "one": "Twin",
    "two": "twin",
    "up": "Top",
    "UP": "Tip",
}
"""The personas' own names, by the names of their files."""

CASES = {
    "sage": "sage",
    "SAGE": "sage",
    " Sage\t": "sage",
    "Moss": "moss",
    "STRASSE": "straße",
    "STRAẞE": "straße",
    "cafe\u0301": "café",
    "CAFÉ": "café",
    "the kit": "kit",
    "THE\u00a0\u3000KIT\x1f\x85": "kit",
    "\ufeffkit": "",
    "ILK": "ilk",
    "ılk": "",
    "twin": "",
    "UP": "UP",
    "Up": "",
    "top": "up",
    "nobody": "",
    " ": "",
}
"""Names as people write them, and whose file is meant; "": nobody's."""


def test_the_server_finds_the_persona() -> None:
    personas = {file: Persona(name, "") for file, name in NAMES.items()}
    assert {name: persona_named(name, personas, ()) for name in CASES} == CASES


@pytest.mark.skipif(NODE is None, reason="no node")
async def test_the_page_finds_the_same() -> None:
    assert NODE is not None
    source = (Path(pages.__file__).parent / "page" / "lib" / "api.js").read_text(encoding="utf-8")
    personas = json.dumps([{"id": file, "name": name} for file, name in NAMES.items()])
    script = (
        f"{source}\nconst found = (name) => [name, personaNamed({personas}, name)?.id ?? ''];"
        f"\nconsole.log(JSON.stringify(Object.fromEntries({json.dumps(list(CASES))}.map(found))));"
    )
    running = await asyncio.create_subprocess_exec(
        NODE, "--input-type=module", "--eval", script, stdout=asyncio.subprocess.PIPE
    )
    async with within("node's answer"):
        told, _ = await running.communicate()
    assert json.loads(told) == CASES


def test_the_file_of_another_persona_is_not_taken_for_a_persona_of_that_name() -> None:
    personas = {"sage": Persona("Moss", ""), "other": Persona("Sage", "")}
    assert persona_named("sage", personas, {"other"}) == ""
    assert persona_named("Sage", personas, {"other"}) == "other"
