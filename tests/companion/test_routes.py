"""The routes by which an app submits spots, and its admins decide about them."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace
from yarl import URL

from pixi.companion.data import CompanionData, NewDraft, Unavailable, Uncertain
from pixi.companion.routes import routes_of
from pixi.companion.tools import HOUR, WRITES, Companion
from pixi.core.errors import OverQuota
from pixi.fetching.web import Web
from pixi.store.kept import Deed, Quota
from pixi.store.sqlite import SqliteStore
from tests.channels.http.served import Served, served
from tests.companion.conftest import tables

SPOT = {"name": "Skatepark", "type": "street", "city": "Wexcombe", "userId": "7"}
DRAFT = "/api/spots/draft"


@asynccontextmanager
async def serving(
    data: CompanionData, *, writes: int = 100, store: SqliteStore | None = None
) -> AsyncGenerator[Served, None]:
    async with Web() as web:
        companion = Companion(data, web, writes_per_hour=writes)
        async with served(routes=routes_of(companion), store=store) as here:
            yield here


async def asked(here: Served, method: str, path: str, body: object = None, **headers: str) -> tuple[Any, ...]:
    async with here.http.request(method, here.url + path, json=body, headers=headers) as answer:
        return answer.status, await answer.json(), answer.headers


async def test_only_the_same_spot_of_the_same_person_is_the_same_draft() -> None:
    async with tables() as data, serving(data) as here:
        key = await here.key("app", "chat", "chat:on-behalf", "approve")
        ids = []
        for other in ({}, {}, {"city": "Lanten"}, {"description": "By the river."}, {"userId": "8"}):
            status, draft = await here.post(DRAFT, SPOT | other, **key)
            assert status == 200
            ids.append(draft["_id"])
        assert ids[0] == ids[1]
        assert len(set(ids)) == 4
        assert [draft.city for draft in await data.drafts()].count("Lanten") == 1
        status, problem = await here.post(f"{DRAFT}?userId=8", SPOT, **key)
        assert (status, problem["detail"]) == (400, "'userId' is no parameter here. There is: none.")


async def test_a_key_that_came_before_with_another_spot_is_refused() -> None:
    async with tables() as data, serving(data) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        once = {**key, "Idempotency-Key": "order-1"}
        _, first = await here.post(DRAFT, SPOT, **once)
        for other in ({"name": "Other"}, {"description": "x"}, {"latitude": 1, "longitude": 2}):
            status, problem = await here.post(DRAFT, SPOT | other, **once)
            assert (status, problem["title"]) == (422, "Used before")
            assert "'Skatepark'" in problem["detail"]
        assert await here.post(DRAFT, SPOT, **once) == (200, first)
        status, theirs = await here.post(DRAFT, SPOT | {"userId": "8"}, **once)
        assert status == 200
        assert theirs["_id"] != first["_id"]


async def test_the_sixth_spot_of_a_person_within_an_hour_waits() -> None:
    store = await SqliteStore.open(":memory:")
    async with tables() as data, serving(data, writes=5, store=store) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        at_once = await asyncio.gather(
            *(asked(here, "POST", DRAFT, SPOT | {"name": f"n{number}"}, **key) for number in range(7))
        )
        assert sorted(status for status, *_ in at_once) == [200] * 5 + [429] * 2
        status, problem, headers = await asked(here, "POST", DRAFT, SPOT | {"name": "late"}, **key)
        assert (status, problem["title"]) == (429, "Changed too often")
        assert "At most 5 changes" in problem["detail"]
        assert 3_500 < int(headers["Retry-After"]) <= 3_600
        assert len(await data.drafts()) == 5
        made = next(draft for status, draft, _ in at_once if status == 200)
        again = await here.post(DRAFT, SPOT | {"name": made["name"]}, **key)
        assert again == (200, made), "the same request again is not another"
        assert (await here.post(DRAFT, SPOT | {"userId": "8"}, **key))[0] == 200
        kept = await store.audit(20)
        assert [(each.deed.tool, each.deed.person, each.outcome) for each in kept] == [
            *[("create_spot_draft", "web:app:7", "done")] * 5,
            ("create_spot_draft", "web:app:8", "done"),
        ]
        assert json.loads(kept[0].deed.arguments)["request"]["city"] == "Wexcombe"
    await store.close()


async def test_what_tools_made_for_a_person_counts_too() -> None:
    store = await SqliteStore.open(":memory:")
    quota = Quota(5, HOUR, WRITES)
    async with tables() as data, serving(data, writes=5, store=store) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        deed = Deed("http:x:kit", "", 0, "Kit", "web:app:7", "create_tricklist", "{}")
        for tool in ("create_tricklist", "create_spot_draft", "create_tricklist"):
            number = await store.audit_begin(replace(deed, tool=tool), quota=quota)
            await store.audit_end(number, "done", 0.1)
        told = [(await here.post(DRAFT, SPOT | {"name": name}, **key))[0] for name in "abc"]
        assert told == [200, 200, 429]
        with pytest.raises(OverQuota):
            await store.audit_begin(deed, quota=quota)
    await store.close()


async def test_what_was_refused_does_not_count() -> None:
    async with tables() as data, serving(data, writes=1) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        for _ in range(3):
            assert (await here.post(DRAFT, SPOT | {"city": ""}, **key))[0] == 422
        assert (await here.post(DRAFT, SPOT, **key))[0] == 200
        assert (await here.post(DRAFT, SPOT | {"city": "Lanten"}, **key))[0] == 429


async def test_what_an_app_answered_to_nobody_may_be_sent_again_and_counts() -> None:
    tried: list[str] = []

    class Losing:
        async def create_draft(self, person: str, new: NewDraft, key: str) -> object:
            tried.append(key)
            raise Unavailable("away") if new.city == "Lanten" else Uncertain("lost")

    losing: Any = Losing()
    async with serving(losing, writes=1) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        assert (await here.post(DRAFT, SPOT | {"city": "Lanten"}, **key))[0] == 503
        for _ in range(2):
            status, problem = await here.post(DRAFT, SPOT, **key)
            assert (status, problem["title"]) == (504, "Nobody knows whether it was done")
        assert tried[1] == tried[2] != tried[0]
        assert (await here.post(DRAFT, SPOT | {"name": "Other"}, **key))[0] == 429


async def test_a_key_that_may_approve_and_no_more_decides() -> None:
    async with tables() as data, serving(data) as here:
        made = [
            (await data.create_draft("discord:7", NewDraft(name, "diy", "Wexcombe"), name)).id
            for name in "ab"
        ]
        key = await here.key("admins", "approve")
        _, waiting = await here.get("/api/spots/drafts", **key)
        assert waiting["count"] == 2
        for draft, verb, became in ((made[0], "approve", "approved"), (made[1], "reject", "rejected")):
            status, decided, _ = await asked(here, "PUT", f"/api/spots/drafts/{draft}/{verb}", {}, **key)
            assert (status, decided["status"], decided["decidedBy"]) == (200, became, "web:admins")
        status, problem, _ = await asked(here, "PUT", f"/api/spots/drafts/{made[1]}/approve", {}, **key)
        assert (status, problem["title"]) == (409, "Decided before")
        assert "was rejected before, by web:admins on 2" in problem["detail"]
        assert (await here.post(DRAFT, {**SPOT, "userId": None}, **key))[0] == 403
        assert (await here.post("/api/chat", {"message": "hi"}, **key))[0] == 403
        talks = await here.key("talks", "chat")
        assert (await here.get("/api/spots/drafts", **talks))[0] == 403


async def test_drafts_are_listed_page_by_page() -> None:
    async with tables() as data, serving(data) as here:
        for number in range(5):
            await data.create_draft("discord:7", NewDraft(f"n{number}", "diy", "Wexcombe"), f"k{number}")
        key = await here.key("admins", "approve")
        _, whole = await here.get("/api/spots/drafts", **key)
        assert (whole["count"], whole["more"]) == (5, False)
        pages, after = [], ""
        while True:
            _, page = await here.get(f"/api/spots/drafts?limit=2&after={after}", **key)
            pages.append(page)
            if not page["more"]:
                break
            after = page["drafts"][-1]["_id"]
        assert [page["count"] for page in pages] == [2, 2, 1]
        assert [each for page in pages for each in page["drafts"]] == whole["drafts"]
        assert (await here.get("/api/spots/drafts?limit=5", **key))[1]["more"] is False
        for wrong, status in (("limit=0", 422), ("limit=501", 422), ("limit=-1", 422), ("after=x", 404)):
            assert (await here.get(f"/api/spots/drafts?{wrong}", **key))[0] == status


async def test_what_is_too_large_or_half_a_character_is_a_bad_request() -> None:
    async with tables() as data, serving(data) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        for more in (
            {"latitude": 10**400, "longitude": 1},
            {"latitude": 1, "longitude": -(10**400)},
            {"latitude": 10**4_000, "longitude": 10**4_000},
            {"description": "\x00" * 20 + "x" * 2_001},
        ):
            assert (await here.post(DRAFT, SPOT | more, **key))[0] in (400, 422)
        for name in ("name", "description", "mapsUrl", "userId"):
            body = json.dumps(SPOT | {name: "a\ud800b"})
            headers = {**key, "Content-Type": "application/json"}
            async with here.http.post(here.url + DRAFT, data=body, headers=headers) as answer:
                assert answer.status in (400, 422), name
        assert await data.drafts() == ()


async def test_a_key_that_is_no_text_is_a_bad_request() -> None:
    async with tables() as data, serving(data) as here:
        key = await here.key("app", "chat", "chat:on-behalf")
        body = json.dumps(SPOT).encode()
        head = (
            f"POST {DRAFT} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: {key['Authorization']}\r\n".encode()
        )
        head += b"Content-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n" % len(body)
        for bad in (b"k\xff", b"\xed\xa0\x80", "k\u00a0k".encode()):
            reader, writer = await asyncio.open_connection("127.0.0.1", URL(here.url).port)
            writer.write(head + b"Idempotency-Key: " + bad + b"\r\n\r\n" + body)
            assert (await reader.readline()).split()[1] == b"400"
            writer.close()
        assert await data.drafts() == ()
