"""Files that people send, over real sockets: what is kept, what is given back, and to whom."""

import asyncio
import hashlib
import io
import os
import time
import zipfile
from collections.abc import AsyncIterator
from email.message import Message as Headers
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import aiohttp
import pytest
from PIL import Image as Pillow
from yarl import URL

from pixi.channels.http import files, requests, server
from pixi.channels.http.files import Files, Sniffer, files_folder, shown_name
from pixi.settings.rules import HttpRules
from pixi.store.sqlite import SqliteStore
from tests.channels.http.served import Served, served
from tests.waiting import until, within

TEXT = b"Flour, eggs and milk.\n"
DOCX = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"


def picture(kind: str = "PNG", side: int = 8, **more: Any) -> bytes:
    file = io.BytesIO()
    Pillow.new("RGB", (side, side), "red").save(file, kind, **more)
    return file.getvalue()


def zipped(**inside: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in inside.items():
            archive.writestr(name, data)
    return file.getvalue()


async def send(
    here: Served,
    data: bytes,
    name: str = "notes.txt",
    kind: str = "text/plain",
    path: str = "/api/files",
    **headers: str,
) -> tuple[int, Any]:
    """Send a file as a browser does; gives the status, and the answer."""
    with aiohttp.MultipartWriter("form-data") as form:
        part = form.append(io.BytesIO(data), {"Content-Type": kind})
        part.set_content_disposition("form-data", name="file", filename=name)
        async with here.http.post(here.url + path, data=form, headers=headers) as answer:
            return answer.status, await answer.json(content_type=None)


async def fetched(here: Served, url: str, **headers: str) -> tuple[aiohttp.ClientResponse, bytes]:
    async with here.http.get(here.url + url, headers=headers) as answer:
        return answer, await answer.read()


def lying(folder: Path) -> list[str]:
    return sorted(os.listdir(folder)) if folder.exists() else []


async def test_a_file_is_kept_and_given_back(tmp_path: Path) -> None:
    async with served(files=tmp_path / "files") as here:
        status, told = await send(here, TEXT, "notes.txt")
        assert status == 200
        assert told == {
            "id": told["id"],
            "url": f"/api/files/{told['id']}",
            "mediaType": "text/plain",
            "size": len(TEXT),
            "name": "notes.txt",
        }
        answer, data = await fetched(here, told["url"])
    assert data == TEXT
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "sandbox; default-src 'none'"
    assert answer.headers["Content-Disposition"].startswith("attachment;")
    assert answer.headers["Cache-Control"] == "no-store"
    (name,) = lying(tmp_path / "files")
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "files" / name).stat().st_mode & 0o777 == 0o600


async def test_a_file_is_its_persons_alone() -> None:
    async with served() as here:
        shop = await here.key("shop", "chat", "chat:on-behalf")
        other = await here.key("other", "chat", "chat:on-behalf")
        status, told = await send(here, TEXT, path="/api/files?userId=mo", **shop)
        assert status == 200
        url = told["url"]
        assert (await fetched(here, f"{url}?userId=mo", **shop))[1] == TEXT
        for asked, headers in (
            (f"{url}?userId=ann", shop),
            (url, shop),
            (url, {}),
            (f"{url}?userId=mo", other),
        ):
            answer, data = await fetched(here, asked, **headers)
            assert answer.status == 404
            assert TEXT not in data
            async with here.http.delete(here.url + asked, headers=headers) as deleted:
                assert deleted.status == 404
            said = {"message": "hi", "attachments": [{"id": told["id"]}]}
            person = {"userId": asked.partition("userId=")[2]} if "userId" in asked else {}
            assert (await here.post("/api/chat", said | person, **headers))[0] == 404
        assert (await fetched(here, url, Authorization="Bearer pixi_sk_no"))[0].status == 401


async def test_a_deleted_file_is_gone(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        _, told = await send(here, TEXT)
        async with here.http.delete(here.url + told["url"]) as answer:
            assert await answer.json() == {"done": True}
        assert (await fetched(here, told["url"]))[0].status == 404
        assert lying(tmp_path) == []


async def test_a_picture_is_drawn_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_PICTURE_SIDE", 256)
    exif = Pillow.Exif()
    exif[0x010E] = "canary"
    async with served(files=tmp_path) as here:
        _, told = await send(here, picture("JPEG", 400, exif=exif), "x.jpg", "image/jpeg")
        assert told["mediaType"] == "image/jpeg"
        answer, data = await fetched(here, told["url"])
    assert b"canary" not in data
    assert len(data) == told["size"]
    assert Pillow.open(io.BytesIO(data)).size == (256, 256)
    assert answer.headers["Content-Disposition"].startswith("inline;")
    assert answer.content_type == "image/jpeg"


PAGE = b"<!DOCTYPE html><script>alert(1)</script>"
LIES: tuple[tuple[str, bytes, str, str, str | None], ...] = (
    ("a page called a picture", PAGE, "cat.png", "image/png", "text/html"),
    ("a text called a picture", TEXT, "cat.jpg", "image/jpeg", "text/plain"),
    ("svg", b"<svg onload=alert(1)>", "a.svg", "image/svg+xml", "text/plain"),
    ("the begin of a picture", b"\x89PNG\r\n\x1a\n", "a.txt", "text/plain", None),
    ("pdf called a page", b"%PDF-1.7\n", "a.html", "text/html", "application/pdf"),
    ("zip called docx", zipped(a=b"b"), "a.docx", DOCX, "application/zip"),
    ("docx", zipped(**{"word/document.xml": b"x"}), "a.zip", "application/zip", DOCX),
    ("program", b"MZ\x00\x01", "a.txt", "text/plain", "application/octet-stream"),
    ("UTF-16", b"\xff\xfeh\x00i\x00", "a", "", "text/plain"),
    ("an old encoding", b"caf\xe9", "a", "image/gif", "text/plain"),
    ("nothing but NUL", b"\x00" * 9, "../a", "a/b; c", "application/octet-stream"),
    ("a page that begins as a picture", b"GIF89a" + PAGE, "a.gif", "image/gif", None),
    ("a rare picture", picture("BMP"), "a.bmp", "image/bmp", "application/octet-stream"),
)
"""How each file lies, its bytes, name and type as told, and the type that is found; None: it is refused."""


async def test_what_it_is_is_told_by_what_is_in_it(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        for lie, data, name, kind, found in LIES:
            before = lying(tmp_path)
            status, told = await send(here, data, name, kind)
            if found is None:
                assert (status, told["title"], lying(tmp_path)) == (422, "No picture", before), lie
                continue
            assert (status, told["mediaType"]) == (200, found), lie
            answer, back = await fetched(here, told["url"])
            assert back == data, lie
            assert answer.content_type not in ("text/html", "image/svg+xml"), lie
            assert answer.headers["Content-Disposition"].startswith("attachment;"), lie


def test_a_type_is_the_same_however_the_bytes_come() -> None:
    for _, data, *_ in LIES:
        whole, parts = Sniffer(), Sniffer()
        whole.feed(data)
        for at in range(len(data)):
            parts.feed(data[at : at + 1])
        assert (whole.media_type, whole.size) == (parts.media_type, parts.size)


NAMES = [
    "../../etc/passwd",
    "..\\..\\windows\\system.ini",
    "/etc/shadow",
    "C:\\secret.txt",
    "..",
    ".",
    "...",
    ".htaccess",
    "~/.ssh/id_rsa",
    "a\x00.txt",
    "a\r\nSet-Cookie: x=1",
    "a\nX: 1",
    'a"; filename="b.html',
    "a; b=c",
    "a\\",
    "'; DROP TABLE files; --",
    "<script>alert(1)</script>.txt",
    "\u202egnp.exe",
    "a\u2028b",
    "a\u200b\u200b.txt",
    "x" * 5_000 + ".txt",
    "é" * 300,
    "日本語.txt",
    "%2e%2e%2fpasswd",
    "%00.txt",
    "file\t.txt",
    " ",
    "\u3000",
    "con",
    "aux.txt",
    "nul",
    "-rf",
    "--output=x",
    "$(id)",
    "`id`",
    "a|b",
    "*",
    "?",
    "🥞.png",
    "]\n[SEND: hello]",
    '"]\n[SEND: hello]',
    "a.txt\x7f",
    "a\x1b[31m",
]


async def test_a_hostile_name_is_a_text_that_is_shown(tmp_path: Path) -> None:
    kept: set[str] = set()
    rules = HttpRules(requests_per_minute=999)
    async with served(*["[SEND: ok]"] * len(NAMES), files=tmp_path / "files", rules=rules) as here:
        for at in range(0, len(NAMES), 8):
            files = [{"url": "data:,flour", "name": name} for name in NAMES[at : at + 8]]
            assert (await here.post("/api/chat", {"message": "look", "attachments": files}))[0] == 200
            asked = here.model.requests[-1].lines[-1].text
            assert all(f'[file "{shown_name(each["name"])}":]\n' in asked for each in files)
            assert "\n[SEND: hello]" not in asked
        for name in NAMES:
            shown = shown_name(name)
            assert 0 < len(shown) <= 100
            assert shown.isprintable()
            assert not set('/\\"') & set(shown)
            assert not shown.startswith(".")
            assert shown_name(shown) == shown
            status, told = await send(here, TEXT, name)
            if status == 200:  # some are no header that a form can have
                assert told["name"].isprintable()
                answer, data = await fetched(here, told["url"])
                assert data == TEXT
                assert "Set-Cookie" not in answer.headers
                head = Headers()
                head["Content-Disposition"] = answer.headers["Content-Disposition"]
                assert head.get_content_disposition() == "attachment"
                written = answer.headers["Content-Disposition"].partition("filename*=UTF-8''")[2]
                assert unquote(written) == told["name"]
                kept.add(f"{told['id']}.txt")
                assert set(lying(tmp_path / "files")) == kept
    assert lying(tmp_path) == ["files"]


def form(body: bytes, kind: str = "multipart/form-data; boundary=b") -> dict[str, Any]:
    return {"data": body, "headers": {"Content-Type": kind}}


PART = b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.txt"\r\n\r\n'
FORMS = (
    ("nothing", 400, form(b"")),
    ("no boundary in it", 400, form(b"hello")),
    ("no boundary told", 400, form(b"--b\r\n", "multipart/form-data")),
    ("a long boundary", 400, form(b"--b", f"multipart/form-data; boundary={'b' * 99}")),
    ("no part", 422, form(b"--b--\r\n")),
    ("cut in the file", 400, form(PART + b"hello")),
    ("cut in a header", 400, form(PART + b"hello\r\n--b\r\nContent-Dis")),
    ("a long header", 400, form(b"--b\r\nA: " + b"a" * 70_000 + b"\r\n\r\n")),
    ("many headers", 400, form(b"--b\r\n" + b"A: a\r\n" * 5_000)),
    ("no header", 400, form(b"--b\r\nno header\r\n\r\n")),
    ("length", 400, form(PART.replace(b"\r\n\r\n", b"\r\nContent-Length: 99\r\n\r\n") + b"a\r\n--b--")),
    ("below 0", 400, form(PART.replace(b"\r\n\r\n", b"\r\nContent-Length: -1\r\n\r\n") + b"a\r\n--b--")),
    ("no file", 422, form(PART.replace(b'; filename="a.txt"', b"") + b"a\r\n--b--")),
    ("an empty file", 422, form(PART + b"\r\n--b--\r\n")),
    ("two files", 422, form(PART + b"a\r\n" + PART + b"b\r\n--b--\r\n")),
    ("nested", 422, form(b"--b\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\n--c\r\n\r\na\r\n--c--")),
    ("JSON", 415, form(b"{}", "application/json")),
    ("plain text", 415, form(TEXT, "text/plain")),
    ("a form of words", 415, form(b"file=a", "application/x-www-form-urlencoded")),
    ("too large", 413, form(PART + b"a" * 200_000 + b"\r\n--b--\r\n")),
    (
        "a page of another site",
        403,
        {**form(PART + b"a\r\n--b--"), "headers": {"Origin": "https://evil.example"}},
    ),
)


async def test_a_form_that_is_wrong_is_refused(tmp_path: Path) -> None:
    async with served(rules=HttpRules(max_file_bytes=100_000), files=tmp_path) as here:
        for name, status, sent in FORMS:
            async with here.http.post(f"{here.url}/api/files", **sent) as answer:
                told = await answer.json(content_type=None)
                assert answer.status == told["status"] == status, (name, told)
                assert ".py" not in told["detail"], name
            assert lying(tmp_path) == [], name
        assert (await send(here, TEXT))[0] == 200


@pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionHeader")
@pytest.mark.filterwarnings("ignore::aiohttp.BadContentDispositionParam")
async def test_a_form_cut_at_any_byte_is_no_file(tmp_path: Path) -> None:
    with_length = PART.replace(b"\r\n\r\n", b"\r\nContent-Length: 6\r\n\r\n")
    forms = [part + b"hello\n\r\n--b--\r\n" for part in (PART, with_length)]
    async with served(rules=HttpRules(requests_per_minute=1_000), files=tmp_path) as here:
        for whole, end in ((each, end) for each in forms for end in range(len(each) + 1)):
            async with here.http.post(f"{here.url}/api/files", **form(whole[:end])) as answer:
                told = await answer.json(content_type=None)
            if answer.status == 200:
                assert (told["size"], end >= whole.index(b"--b--") + 3) == (6, True), whole[:end]
            else:
                assert answer.status in (400, 422), (whole[:end], told)
        assert all(len(name) == 36 for name in lying(tmp_path)), "nothing half"


async def test_a_file_without_an_end_is_cut_off_where_it_is_too_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_SHUTDOWN_SECONDS", 0.01)  # the client sends on

    async def endless() -> AsyncIterator[bytes]:
        yield PART
        while True:
            yield b"a" * 65_536

    async with served(rules=HttpRules(max_file_bytes=1_000_000), files=tmp_path) as here:
        try:
            async with (
                within("the rest of the file is not waited for"),
                here.http.post(f"{here.url}/api/files", **form(b"") | {"data": endless()}) as answer,
            ):
                assert answer.status == 413
        except aiohttp.ClientConnectionError:
            pass  # the connection may be closed while the rest is still sent
        await until(lambda: lying(tmp_path) == [], "what came is deleted")


async def begin_upload(here: Served, length: int, data: bytes) -> asyncio.StreamWriter:
    url = URL(here.url)
    _, writer = await asyncio.open_connection(url.host, url.port)
    head = f"POST /api/files HTTP/1.1\r\nHost: {url.host}:{url.port}\r\nContent-Length: {length}\r\n"
    writer.write(f"{head}Content-Type: multipart/form-data; boundary=b\r\n\r\n".encode() + data)
    await writer.drain()
    return writer


async def test_an_upload_that_is_cut_leaves_nothing(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        writer = await begin_upload(here, 1_000_000, PART + b"a" * 300_000)
        await until(lambda: lying(tmp_path), "the file begins to come")
        writer.close()
        await until(lambda: lying(tmp_path) == [], "what came is deleted")
        assert (await send(here, TEXT))[0] == 200


async def test_an_upload_that_stops_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requests, "BODY_SECONDS", 0.05)
    async with served(files=tmp_path) as here:
        writer = await begin_upload(here, 1_000_000, PART + b"a" * 300_000)
        await until(lambda: lying(tmp_path), "the file begins to come")
        await until(lambda: lying(tmp_path) == [], "what came is deleted")
        writer.close()


async def test_so_many_files_at_once_and_no_more(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        writers = [await begin_upload(here, 1_000_000, PART + b"a" * 300_000) for _ in range(4)]
        await until(lambda: len(lying(tmp_path)) == 4, "four are on their way")
        assert (await send(here, TEXT))[0] == 429
        shop = await here.key("shop", "chat")
        assert (await send(here, TEXT, **shop))[0] == 200
        for writer in writers:
            writer.close()
        await until(lambda: len(lying(tmp_path)) == 1, "what came is deleted")
        assert (await send(here, TEXT))[0] == 200


async def test_files_of_a_person_have_room_together() -> None:
    async with served(rules=HttpRules(file_bytes_per_person=2 * len(TEXT) + 1)) as here:
        _, first = await send(here, TEXT)
        assert (await send(here, TEXT))[0] == 200
        status, told = await send(here, TEXT)
        assert (status, told["title"]) == (413, "No room")
        assert (await send(here, TEXT, **await here.key("shop", "chat")))[0] == 200
        async with here.http.delete(here.url + first["url"]) as answer:
            assert answer.status == 200
        assert (await send(here, TEXT))[0] == 200


async def test_a_picture_that_unpacks_to_too_much_is_refused(tmp_path: Path) -> None:
    bomb = bytearray(picture("PNG"))
    bomb[16:24] = (60_000).to_bytes(4, "big") * 2  # it says so of itself
    async with served(files=tmp_path) as here:
        status, told = await send(here, bytes(bomb), "cat.png", "image/png")
        assert (status, told["title"]) == (422, "No picture")
        assert lying(tmp_path) == []


async def test_the_same_key_is_the_same_file(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        key = {"Idempotency-Key": "order-66"}
        _, first = await send(here, TEXT, **key)
        _, again = await send(here, TEXT, **key)
        assert again == first
        status, told = await send(here, b"another", **key)
        assert (status, told["title"]) == (422, "Used before")
        shop = await here.key("shop", "chat")
        _, theirs = await send(here, TEXT, **shop, **key)
        assert theirs["id"] != first["id"]
        both = await asyncio.gather(*(send(here, TEXT, **{"Idempotency-Key": "at once"}) for _ in range(3)))
        assert len({told["id"] for _, told in both}) == 1
        assert (await send(here, TEXT, **{"Idempotency-Key": "k" * 200}))[0] == 400
        assert len(lying(tmp_path)) == 3


async def test_no_id_leads_anywhere_else(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        (tmp_path / ("coming-" + "0" * 32)).write_text("canary")
        for file_id in ("..%2f..%2fetc%2fpasswd", "%00", "coming-" + "0" * 32, "a" * 5_000, "*"):
            answer, data = await fetched(here, f"/api/files/{file_id}")
            assert answer.status == 404, file_id
            assert b"canary" not in data, file_id


async def test_files_outlive_a_restart_and_what_was_forgotten_is_swept(tmp_path: Path) -> None:
    folder, db = tmp_path / "files", tmp_path / "pixi.db"
    store = await SqliteStore.open(db)
    async with served(store=store, files=folder) as here:
        shop = await here.key("shop", "chat")
        _, mine = await send(here, TEXT)
        _, theirs = await send(here, picture(), "cat.png", **shop)
    await store.close()
    stranger = folder / "readme.txt"
    stranger.write_text("of somebody else")
    young, old = (folder / f"coming-{letter * 32}" for letter in "ab")
    for path in (young, old):
        path.write_text("a part")
    os.utime(old, (time.time() - 9_999,) * 2)

    store = await SqliteStore.open(db)
    await store.forget("web:local")
    async with served(store=store, files=folder) as here:
        await until(lambda: len(lying(folder)) == 3, "it is swept")
        assert lying(folder) == sorted([theirs["id"], young.name, stranger.name])
        assert (await fetched(here, mine["url"]))[0].status == 404
        assert (await fetched(here, theirs["url"], **shop))[0].status == 200
        await store.forget_old(time.time() + 1)
        assert (await fetched(here, theirs["url"], **shop))[0].status == 404
        assert await Files(store, folder, HttpRules()).sweep() == 1
        assert await Files(store, folder, HttpRules()).sweep() == 0
    await store.close()


async def test_a_server_goes_on_sweeping(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "SWEEP_SECONDS", 0.01)
    async with served(files=tmp_path) as here:
        await send(here, TEXT)
        assert len(lying(tmp_path)) == 1
        await here.backend.store.forget("web:local")
        await until(lambda: lying(tmp_path) == [], "it is swept")


async def test_what_is_lost_is_told(tmp_path: Path) -> None:
    async with served(files=tmp_path) as here:
        _, told = await send(here, TEXT)
        (tmp_path / f"{told['id']}.txt").unlink()
        answer, data = await fetched(here, told["url"])
        assert (answer.status, answer.content_type) == (404, "application/problem+json")
        assert b"send it again" in data


async def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "files").write_text("in the way")
    async with served(files=tmp_path / "files") as here:
        status, told = await send(here, TEXT)
        assert (status, told["detail"]) == (503, "Files cannot be kept just now. Try again later.")


def test_each_store_has_a_folder_of_its_own(tmp_path: Path) -> None:
    urls = ("sqlite:///a.db", "sqlite:///b.db", "sqlite://", "postgresql://me:secret@host/db")
    folders = {files_folder(tmp_path, url) for url in urls}
    assert len(folders) == 4
    assert {folder.parent for folder in folders} == {tmp_path}
    assert files_folder(tmp_path, "postgresql://me:other@host/db") in folders


async def test_a_large_file_is_never_whole_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pieces: list[int] = []
    feed = Sniffer.feed

    def watched(self: Sniffer, piece: bytes) -> None:
        pieces.append(len(piece))
        feed(self, piece)

    monkeypatch.setattr(Sniffer, "feed", watched)
    data = b"a line of text\n" * 300_000
    async with served(files=tmp_path) as here:
        _, told = await send(here, data)
        _, back = await fetched(here, told["url"])
    assert hashlib.sha256(back).digest() == hashlib.sha256(data).digest()
    assert sum(pieces) == len(data)
    assert max(pieces) <= 262_144
