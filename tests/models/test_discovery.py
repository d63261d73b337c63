"""Model servers on this machine: what is found on a port, and what strangers there cannot do."""

import json
import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest

from pixi.core.providers import PROVIDERS, providers_with_key
from pixi.models.machine import FoundServer, KnownServer, find_servers, names_in
from tests.held_clock import HeldClock
from tests.servers.scripted_openai import Flood, Hang, Reply, ScriptedOpenAI, answer, error, head, page
from tests.waiting import LIMIT


def listing(*names: str) -> Reply:
    return answer(200, {"object": "list", "data": [{"id": name} for name in names]})


def known(kind: str, server: ScriptedOpenAI, path: str = "/v1/models") -> KnownServer:
    return KnownServer(kind, urlsplit(server.base_url).port or 0, path)


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else is given."""
    with closing(socket.socket()) as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


async def test_what_each_server_lists_is_found_and_nobody_is_sent_a_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-for-you")
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # the discard port: whoever goes there fails
    tags = answer(200, {"models": [{"name": "qwen3:8b", "model": "qwen3:8b"}]})
    async with ScriptedOpenAI(tags) as ollama, ScriptedOpenAI(listing("one", "two", "one")) as other:
        with closed_port() as nobody:
            wanted = [known("Ollama", ollama, "/api/tags"), KnownServer("Jan", nobody), known("vLLM", other)]
            found = await find_servers(wanted, seconds=LIMIT)
        assert found == (
            FoundServer("Ollama", ollama.base_url, ("qwen3:8b",)),
            FoundServer("vLLM", other.base_url, ("one", "two")),
        )
        (request,) = ollama.requests
        assert request.path == "/api/tags"
        assert {*request.headers} == {"host", "accept", "accept-encoding", "user-agent"}


async def test_a_server_that_wants_a_key_is_told_apart() -> None:
    async with ScriptedOpenAI(error(401, "Your key, please")) as server:
        (found,) = await find_servers([known("Jan", server)], seconds=LIMIT)
    assert (found.state, found.models) == ("locked", ())


async def test_a_server_that_never_answers_is_silent_and_the_others_are_found(clock: HeldClock) -> None:
    async with ScriptedOpenAI(Reply((Hang(),))) as dead, ScriptedOpenAI(listing("here")) as alive:
        begun = clock.time()
        found = await find_servers([known("Ollama", dead), known("Jan", alive)])
        assert clock.time() - begun <= 0.31
    assert [(each.kind, each.state, each.models) for each in found] == [
        ("Ollama", "silent", ()),
        ("Jan", "lists", ("here",)),
    ]


@pytest.mark.parametrize(
    "reply",
    [
        page(),
        answer(200, {"rows": []}),
        answer(200, "[" * 100_000),
        answer(302, "", location="http://127.0.0.1:9/v1/models"),
        page(404),
        Reply((b"SSH-2.0-OpenSSH\r\n",)),
        Reply((head(), b'{"data": [', Flood(b'{"id": "x"},', 50_000_000))),
    ],
    ids=["a page", "other JSON", "deep JSON", "a redirect", "nothing there", "no HTTP", "no end"],
)
async def test_what_is_no_listing_is_no_server(reply: Reply) -> None:
    async with ScriptedOpenAI(reply) as server:
        assert await find_servers([known("Ollama", server)], seconds=LIMIT) == ()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ('{"data": null}', ()),
        ('{"models": []}', ()),
        ('{"models": [{"name": "a"}], "object": "list", "data": [{"id": "b"}]}', ("b",)),
        ('{"data": [{"id": "fine"}, {"id": "\\u001b[2J"}, {"id": "a\\nb"}, {"id": "\\u202eb"}]}', ("fine",)),
        (
            json.dumps({"data": [{"id": "x" * 201}, {"id": " y"}, {"id": ""}, {"id": "x" * 200}]}),
            ("x" * 200,),
        ),
        ('{"data": [{"id": 7}]}', None),
        ("", None),
    ],
)
def test_the_names_in_a_listing_are_those_that_can_be_shown_as_they_are(
    body: str, names: tuple[str, ...] | None
) -> None:
    assert names_in(body.encode()) == names


def test_a_listing_without_end_gives_so_many_names() -> None:
    rows = [{"id": f"model {number}"} for number in range(5_000)]
    assert len(names_in(json.dumps({"data": rows}).encode()) or ()) == 200


def test_providers_are_found_by_their_keys() -> None:
    found = providers_with_key({"GROQ_API_KEY": "gsk", "OPENAI_API_KEY": " ", "HOME": "/"})
    assert [each.title for each in found] == ["Groq"]
    assert all(each.base_url.startswith("https://") for each in PROVIDERS)
