"""What goes with a message: how the persona is told of it, in the turn and in the history."""

import base64
import dataclasses
import io
import zlib
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from msgspec.structs import replace
from PIL import Image as Pillow

from pixi.channels.http import attachments
from pixi.channels.http.access import Problem
from pixi.channels.http.attachments import attachments_in
from pixi.core.llm import UserLine
from pixi.settings.rules import HttpRules
from pixi.store.sqlite import SqliteStore
from tests.channels.http.served import Served, served
from tests.channels.http.test_files import TEXT, lying, picture, send, zipped
from tests.documents.test_office import document, line, pdf
from tests.servers.staged_web import Stage, StagedWeb
from tests.servers.staged_web import served as fetched_from


def data_url(data: bytes, kind: str = "text/plain") -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def asked(here: Served, turn: int = -1) -> UserLine:
    """What a person said last in a request to the model, without the marks of a quotation."""
    lines = reversed(here.model.requests[turn].lines)
    found = next(line for line in lines if isinstance(line, UserLine))
    return replace(found, text=found.text.replace("\n> ", "\n"))


async def say(here: Served, text: str, *files: dict[str, Any], **more: str) -> tuple[int, Any]:
    return await here.post("/api/chat", {"message": text, "attachments": list(files), **more})


def word() -> bytes:
    file = io.BytesIO()
    made = document()
    made.add_paragraph("The oven is warm.")
    made.save(file)
    return file.getvalue()


async def test_a_document_is_told_with_the_words(tmp_path: Path) -> None:
    documents = (
        (TEXT, "notes.txt", "Flour, eggs and milk."),
        (b"def f():\n    return 1\n", "a.py", "def f():\n    return 1"),
        (b'{"flour": 2}', "a.json", '{"flour": 2}'),
        ("caf\u00e9".encode("utf-16"), "b.txt", "caf\u00e9"),
        (b"<html><h1>Milk</h1><p>warm</p>", "a.htm", "warm"),
        (pdf(line("Two spoons of sugar.")), "a.pdf", "Two spoons of sugar."),
        (word(), "a.docx", "The oven is warm."),
    )
    async with served(*["[SEND: a]"] * 14, files=tmp_path) as here:
        for number, (data, name, told) in enumerate(documents, 1):
            _, sent = await send(here, data, name)
            assert (await say(here, "what is this?", {"id": sent["id"]}))[0] == 200
            by_id = asked(here).text
            assert f'what is this?\n[file "{name}":]\n' in by_id
            assert told in by_id, name
            assert f'\n[end of "{name}"]' in by_id
            assert (await say(here, "what is this?", {"url": data_url(data), "name": name}))[0] == 200
            assert asked(here).text.partition("what is")[2] == by_id.partition("what is")[2]
            assert len(lying(tmp_path)) == number, "what stood in the request is not kept"


async def test_a_picture_is_shown_to_a_model_that_sees_and_stays_in_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "_SIDE", 256)
    db = tmp_path / "pixi.db"
    store = await SqliteStore.open(db)
    async with served("[SEND: a cat]", store=store, files=tmp_path / "files", vision=True) as here:
        _, sent = await send(here, picture("PNG", 400), "cat.png")
        assert (await say(here, "", {"id": sent["id"]}, conversation="k"))[0] == 200
        (image,) = asked(here).images
        assert Pillow.open(io.BytesIO(image.data)).size == (256, 256)
        assert asked(here).text.endswith('[picture "cat.png"]')
        async with here.http.delete(here.url + sent["url"]) as answer:
            assert answer.status == 200
    await store.close()
    store = await SqliteStore.open(db)
    async with served("[SEND: still]", store=store, files=tmp_path / "files", vision=True) as here:
        assert (await say(here, "and now?", conversation="k"))[0] == 200
        first = next(line for line in here.model.requests[0].lines if isinstance(line, UserLine))
        assert first.images == (image,)
        _, told = await here.get("/api/chat/k/messages")
        assert told["messages"][0]["text"] == ""
        (shown,) = told["messages"][0]["attachments"]
        assert (shown["name"], shown["picture"]) == ("cat.png", True)
        async with here.http.get(here.url + shown["url"]) as answer:
            assert Pillow.open(io.BytesIO(await answer.read())).size == (256, 256)
    await store.close()


async def test_a_picture_is_only_named_to_a_model_that_does_not_see() -> None:
    async with served("[SEND: a]") as here:
        await say(here, "look", {"url": data_url(picture()), "name": "cat.png"})
        assert asked(here).text.endswith('look\n[picture "cat.png"; you cannot see pictures here]')
        assert not asked(here).images


async def test_pictures_beyond_the_fourth_are_only_named() -> None:
    async with served("[SEND: a]", vision=True) as here:
        await say(here, "look", *[{"url": data_url(picture())}] * 5)
        assert asked(here).text.count('[picture "file"]') == 4
        assert asked(here).text.count('[picture "file"; there are more than can be shown]') == 1


UNREADABLE = (
    (b"\x89PNG\r\n\x1a\n\x00", "it cannot be read]"),
    (b"%PDF-1.7 and nothing", "not read: it is broken"),
    (b"\x00\x01", ", 0.1 kB, not read]"),
    (b" \n ", "without text]"),
    (zipped(a=bytes(1_000)), "not read]"),
    (zipped(**{"word/document.xml": bytes(5_000_000)}), "not read: it"),
)
UNPACKS_TO_MUCH = ((pdf(zlib.compress(line("a") * 200_000), packed=True), ""),)


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(UNREADABLE, id="broken"),
        pytest.param(UNPACKS_TO_MUCH, id="a page that unpacks to much", marks=pytest.mark.nightly),
    ],
)
async def test_what_cannot_be_read_is_named(
    files: tuple[tuple[bytes, str], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    limits = dataclasses.replace(attachments._READING, unpacked_bytes=1_000_000)
    monkeypatch.setattr(attachments, "_READING", limits)
    rules = HttpRules(file_characters=1_000)
    async with served(*["[SEND: a]"] * 6, vision=True, rules=rules) as here:
        for data, told in files:
            status, answer = await say(here, "look", {"url": data_url(data), "name": "x"})
            assert (status, answer["text"]) == (200, "a")
            assert told in asked(here).text
            assert len(asked(here).text) < 2_000


async def test_a_long_text_is_told_in_part() -> None:
    async with served("[SEND: a]", rules=HttpRules(file_characters=100)) as here:
        await say(here, "look", {"url": data_url(b"word " * 1_000), "name": "x"})
        assert "more characters, not read]" in asked(here).text


NO_FILES: tuple[tuple[str, int, Any], ...] = (
    ("nothing", 422, [{}]),
    ("both", 422, [{"id": "a", "url": "data:,a"}]),
    ("unknown", 404, [{"id": "0" * 32}]),
    ("an unknown address", 404, [{"url": f"/api/files/{'0' * 32}"}]),
    ("web", 422, [{"url": "https://example.org/cat.png"}]),
    ("disk", 422, [{"url": "file:///etc/passwd"}]),
    ("traversal", 422, [{"url": "/api/files/../../etc/passwd"}]),
    ("metadata", 422, [{"url": "http://169.254.169.254/latest"}]),
    ("an empty URL", 422, [{"url": "data:"}]),
    ("an empty file", 422, [{"url": "data:,"}]),
    ("no base64", 422, [{"url": "data:image/png;base64,###"}]),
    ("no ASCII", 422, [{"url": "data:image/png;base64,é"}]),
    ("too large", 413, [{"url": data_url(bytes(3_000))}]),
    ("too many", 422, [{"url": "data:,a"}] * 9),
    ("a number", 422, [{"url": 5}]),
    ("no list", 422, "data:,a"),
    ("an unknown field", 422, [{"url": "data:,a", "path": "/etc/passwd"}]),
)


async def test_what_is_no_file_is_refused_and_nothing_is_fetched() -> None:
    async with served("[SEND: a]", rules=HttpRules(max_file_bytes=2_000)) as here:
        for name, status, files in NO_FILES:
            got, told = await here.post("/api/chat", {"message": "hi", "attachments": files})
            assert (got, told["status"]) == (status, status), name
            assert not here.model.requests, name
        status, told = await here.post("/api/chat", {"message": ""})
        assert (status, told["errors"]) == (422, [{"pointer": "/message", "detail": "it is empty"}])
        assert (await here.say("hi"))["text"] == "a", "nothing of it waits"


async def test_the_same_request_is_the_same_turn_also_when_the_file_is_gone() -> None:
    async with served("[SEND: a]") as here:
        _, sent = await send(here, TEXT)
        said = {"message": "read this", "attachments": [{"id": sent["id"]}]}
        key = {"Idempotency-Key": "once"}
        _, first = await here.post("/api/chat", said, **key)
        await here.http.delete(here.url + sent["url"])
        status, again = await here.post("/api/chat", said, **key)
        assert (status, again["turn"]) == (200, first["turn"])
        assert (await here.post("/api/chat", said | {"message": "other"}, **key))[0] == 422


def v1(*messages: Any) -> dict[str, Any]:
    roles = ("user", "assistant")
    return {
        "model": "pixi",
        "messages": [{"role": roles[n % 2], "content": content} for n, content in enumerate(messages)],
    }


def shown(text: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"type": "text", "text": text}, *more]


CAT = {"type": "image_url", "image_url": {"url": data_url(picture(), "image/png")}}


async def test_a_chat_program_sends_pictures_and_files_and_goes_on() -> None:
    async with served("[SEND: a cat]", "[SEND: red]", "[SEND: flour]", vision=True) as here:
        status, told = await here.post("/v1/chat/completions", v1(shown("what is this?", CAT)))
        assert (status, told["choices"][0]["message"]["content"]) == (200, "a cat")
        assert len(asked(here).images) == 1
        talk = v1(shown("what is this?", CAT), "a cat", "which colour?")
        assert (await here.post("/v1/chat/completions", talk))[0] == 200
        assert "told by" not in asked(here).text
        history = [line for line in here.model.requests[1].lines if isinstance(line, UserLine)]
        assert [len(line.images) for line in history] == [1, 0], "it is the same talk"
        file = {"type": "file", "file": {"file_data": data_url(TEXT), "filename": "notes.txt"}}
        talk = v1(shown("what is this?", CAT), "a cat", "which colour?", "red", shown("", file))
        assert (await here.post("/v1/chat/completions", talk))[0] == 200
        assert '[file "notes.txt":]\nFlour' in asked(here).text
        assert len(here.model.requests[2].lines) > len(here.model.requests[1].lines)


async def test_a_chat_program_gets_a_clear_error_for_an_address() -> None:
    async with served() as here:
        cat = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
        status, told = await here.post("/v1/chat/completions", v1(shown("what is this?", cat)))
        assert (status, told["error"]["type"]) == (422, "invalid_request_error")
        assert "Nothing is fetched" in told["error"]["message"]


async def test_a_file_is_fetched_from_a_host_that_the_operator_named(tmp_path: Path) -> None:
    async def note(request: web.Request) -> web.StreamResponse:
        return web.Response(body=TEXT, content_type="text/plain")

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": request.query["to"]})

    stage = Stage({"inner.pixi-web.net": [["10.0.0.1"]]})
    async with fetched_from({"/note.txt": note, "/go": elsewhere}) as port:
        media, other = stage.put("media.pixi-web.net", port), stage.put("other.pixi-web.net", port)
        rules = HttpRules(attachment_hosts=("Media.pixi-web.net", "inner.pixi-web.net"))
        async with served("[SEND: flour]", files=tmp_path, rules=rules, web=StagedWeb(stage)) as here:
            status, told = await say(here, "look", {"url": f"{media}/note.txt?x=1"})
            assert status == 200, told
            assert '[file "note.txt":]\nFlour' in asked(here).text
            assert lying(tmp_path) == []
            for url, told in (
                (f"{other}/note.txt", "Nothing is fetched from that address"),
                ("http://127.0.0.1/note.txt", "Nothing is fetched from that address"),
                (
                    "http://media.pixi-web.net@other.pixi-web.net/note.txt",
                    "Nothing is fetched from that address",
                ),
                (
                    f"{media}/go?to={other}/note.txt",
                    "It leads to other.pixi-web.net, from where nothing is fetched",
                ),
                (f"{media}/go?to=http://127.0.0.1/", "cannot be fetched"),
                ("http://inner.pixi-web.net/note.txt", "is not on the public internet"),
                (f"{media}/missing", "cannot be fetched"),
                ("http://[::1", "Nothing is fetched from that address"),
                ("ftp://media.pixi-web.net/x", "Send the file as a data: URL"),
            ):
                status, problem = await say(here, "look", {"url": url})
                assert (status, told in problem["detail"]) == (422, True), problem
            assert len(here.model.requests) == 1


@pytest.mark.parametrize("kind", ["its address", "a data URL"])
async def test_a_page_by_ai_sdk_sends_files(kind: str) -> None:
    async with served("[SEND: flour]", "[SEND: again]", "[SEND: other]") as here:
        _, sent = await send(here, TEXT)
        url = here.url + sent["url"] if kind == "its address" else data_url(TEXT)
        file = {"type": "file", "mediaType": "text/plain", "filename": "notes.txt", "url": url}
        message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "look"}, file]}
        body = {"id": "k", "messages": [message], "trigger": "submit-message"}
        for more in ({}, {}, {"trigger": "regenerate-message"}, {"messageId": "m1"}):
            async with here.http.post(f"{here.url}/api/chat", json=body | more) as answer:
                assert answer.status == 200
                assert "data: [DONE]" in await answer.text()
        assert len(here.model.requests) == 2, "the same message is the same turn, also with its files"
        for turn in (0, 1):
            assert 'look\n[file "notes.txt":]\nFlour' in asked(here, turn).text
        lost = file | {"url": "https://example.org/a.txt"}
        message = {"id": "m2", "role": "user", "parts": [lost]}
        async with here.http.post(f"{here.url}/api/chat", json=body | {"messages": [message]}) as answer:
            assert answer.status == 422
            assert "Nothing is fetched" in await answer.text()


async def test_a_page_by_ag_ui_sends_files() -> None:
    parts: tuple[dict[str, Any], ...] = (
        {"type": "binary", "mimeType": "text/plain", "data": "ZmxvdXI="},
        {"type": "binary", "mimeType": "text/plain", "url": data_url(b"flour")},
        {"type": "document", "source": {"type": "data", "value": "ZmxvdXI=", "mimeType": "text/plain"}},
        {"type": "image", "source": {"type": "url", "value": data_url(b"flour")}},
    )
    async with served("[SEND: flour]") as here:
        message = {"id": "m1", "role": "user", "content": parts}
        body = {"threadId": "k", "runId": "r", "messages": [message], "state": {}, "tools": [], "context": []}
        async with here.http.post(f"{here.url}/api/agui", json=body) as answer:
            assert answer.status == 200
            assert "RUN_FINISHED" in await answer.text()
        assert asked(here).text.count('[file "file":]\nflour') == 4


async def test_a_visitor_keeps_no_file_and_sends_small_ones(tmp_path: Path) -> None:
    async with served("[SEND: flour]", files=tmp_path) as here:
        page = await here.visitor(await here.site("site", "https://shop.example"), "https://shop.example")
        assert (await send(here, TEXT, **page))[0] == 403
        said = {"message": "look", "attachments": [{"url": data_url(TEXT)}]}
        assert (await here.post("/api/chat", said, **page))[0] == 200
        assert "Flour" in asked(here).text
        assert lying(tmp_path) == []


@pytest.mark.parametrize(
    "part",
    [
        {"type": "image_url"},
        {"type": "file", "file": 5},
        {"type": "file", "file": {}},
        {"type": "image_url", "image_url": {"url": ["data:,a"]}},
    ],
    ids=range(4),
)
def test_a_part_that_is_no_file_is_refused(part: dict[str, Any]) -> None:
    with pytest.raises(Problem):
        attachments_in([part])


def test_other_parts_are_passed_over() -> None:
    assert attachments_in("text") == attachments_in([{"type": "text"}, 5, {"type": "input_audio"}]) == ()
    assert attachments_in([{"type": "image_url", "image_url": "data:,a"}])[0].url == "data:,a"
