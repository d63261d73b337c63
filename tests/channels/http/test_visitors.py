"""Visitors of web pages: what their tokens are good for, what they may do, and what nobody gets by them."""

import base64
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import aiohttp
import jwt
import pytest
from yarl import URL

from pixi.channels.http.access import PUBLISHABLE, VISITING, Problem, address_of, digest_of, new_key
from pixi.channels.http.feed import Channels
from pixi.channels.http.visitors import RENEWED_SECONDS, TOKEN_SECONDS, Visitors
from pixi.core.llm import ToolCall
from pixi.core.persona import Persona
from pixi.core.spending import Allowance, Budgets
from pixi.settings.rules import HttpRules
from pixi.store.kept import ApiKey
from pixi.toolbox.addon import Addon
from pixi.toolbox.context import Context
from tests.channels.http.served import PERSONAS, Served, served
from tests.channels.http.test_access import Keys

PAGE, OTHER_PAGE = "https://site.example", "https://other.example"
PUBLIC, OTHER = f"{PUBLISHABLE}{'a' * 43}", f"{PUBLISHABLE}{'b' * 43}"
SITE = ApiKey("site", digest_of(PUBLIC), (), ("pixi",), (PAGE, "http://here:8642"), signs="11" * 32)
ELSEWHERE = ApiKey("elsewhere", digest_of(OTHER), (), (), (OTHER_PAGE, PAGE), signs="22" * 32)
FROM_PAGE = {"Origin": PAGE}


class Door:
    """Visitors of two sites, at a time of our choosing."""

    def __init__(self) -> None:
        self.now = 1_000_000.0
        self.keys = Keys(SITE, ELSEWHERE)
        self.visitors = Visitors(self.keys.key_of, lambda: self.now)

    async def token(self, public: str = PUBLIC, before: str = "", origin: str = PAGE) -> str:
        headers = {"Origin": origin}
        admitted, _ = await self.visitors.begin(
            await self.visitors.key_for_page(public, headers), headers, before
        )
        return admitted.token

    async def who(self, token: str, **headers: str) -> str:
        return (await self.visitors.verified(token, headers or FROM_PAGE)).id

    async def refuses(self, token: str, **headers: str) -> bool:
        with pytest.raises(Problem) as caught:
            await self.who(token, **headers)
        assert SITE.signs not in caught.value.detail
        return caught.value.status == 401


async def test_a_token_names_one_visitor_for_a_day_on_its_page() -> None:
    door = Door()
    token, another = await door.token(), await door.token()
    visitor = await door.visitors.verified(token, FROM_PAGE)
    assert visitor.id.startswith("web:visitor:site:")
    assert (visitor.scopes, visitor.personas, visitor.key) == (
        frozenset({"chat"}),
        frozenset({"pixi"}),
        "site",
    )
    assert await door.who(another) != visitor.id
    door.now += TOKEN_SECONDS - 1
    assert await door.who(token) == visitor.id
    door.now += 1
    assert await door.refuses(token)


async def test_a_page_that_is_open_for_days_keeps_its_visitor() -> None:
    door = Door()
    token = await door.token()
    visitor = await door.who(token)
    for _ in range(3):
        door.now += TOKEN_SECONDS * 2
        token = await door.token(before=token)
        assert await door.who(token) == visitor
    door.now += TOKEN_SECONDS + RENEWED_SECONDS
    assert await door.who(await door.token(before=token)) != visitor


async def test_nobody_stays_a_visitor_by_the_token_of_another_site() -> None:
    door = Door()
    theirs = await door.token(OTHER)
    assert (await door.who(await door.token(before=theirs))).startswith("web:visitor:site:")
    there = await door.token(OTHER, before=theirs, origin=OTHER_PAGE)
    assert await door.who(there, Origin=OTHER_PAGE) != await door.who(theirs), "another page, another visitor"


async def test_a_token_is_good_on_no_other_page() -> None:
    door = Door()
    token = await door.token(OTHER)
    assert await door.refuses(token, Origin=OTHER_PAGE), "of the same key"
    assert await door.refuses(token, Origin="https://evil.example")
    assert await door.refuses(token, Origin="null")
    assert await door.refuses(token, Host="site.example")
    assert await door.refuses(token, **{"Sec-Fetch-Site": "same-origin", "Host": "evil.example"})


async def test_a_page_of_this_server_reads_without_an_origin() -> None:
    door = Door()
    token = await door.token(origin="http://here:8642")
    own = {"Sec-Fetch-Site": "same-origin", "Host": "here:8642"}
    assert await door.who(token, **own) == await door.who(token, Origin="http://here:8642")
    assert await door.refuses(token, **{**own, "Sec-Fetch-Site": "cross-site"})


async def test_no_scope_reaches_a_visitor() -> None:
    door = Door()
    door.keys.kept[SITE.digest] = replace(SITE, scopes=("chat", "approve", "operate", "chat:on-behalf"))
    assert (await door.visitors.verified(await door.token(), FROM_PAGE)).scopes == {"chat"}


async def test_a_key_that_was_revoked_ends_its_tokens() -> None:
    door = Door()
    token = await door.token()
    del door.keys.kept[SITE.digest]
    assert await door.refuses(token)
    with pytest.raises(Problem):
        await door.token(before=token)
    again = replace(SITE, digest=digest_of("again"), signs="33" * 32)  # of the same name
    door.keys.kept[again.digest] = again
    assert await door.refuses(token)


def _said(token: str) -> list[Any]:
    payload = token.removeprefix(VISITING).partition(".")[0]
    said: list[Any] = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return said


def _forged(token: str, **changes: Any) -> str:
    """The token with other words, under the signature of the old ones."""
    names = ("key", "visitor", "origin", "expires")
    said = dict(zip(names, _said(token), strict=True)) | changes
    payload = base64.urlsafe_b64encode(json.dumps(list(said.values())).encode()).decode().rstrip("=")
    return f"{VISITING}{payload}.{token.partition('.')[2]}"


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda t: t[:-1], id="truncated"),
        pytest.param(lambda t: t[: len(t) // 2], id="cut in half"),
        pytest.param(lambda t: t.partition(".")[0], id="no signature"),
        pytest.param(lambda t: t.partition(".")[0] + ".", id="empty signature"),
        pytest.param(lambda t: t + "A", id="longer"),
        pytest.param(lambda t: t + "=", id="padded"),
        pytest.param(lambda t: t + "." + t, id="twice"),
        pytest.param(lambda t: t.removeprefix(VISITING), id="no beginning"),
        pytest.param(lambda t: VISITING, id="nothing else"),
        pytest.param(lambda t: VISITING + ".", id="a dot"),
        pytest.param(lambda t: VISITING + "ä.ö", id="not ASCII"),
        pytest.param(lambda t: VISITING + "\ud800.x", id="half a character"),
        pytest.param(lambda t: VISITING + "[" * 5_000, id="brackets"),
        pytest.param(
            lambda t: VISITING + base64.urlsafe_b64encode(b"[" * 6_000).decode() + ".x", id="deep nesting"
        ),
        pytest.param(lambda t: VISITING + "bnVsbA." + t.partition(".")[2], id="null"),
        pytest.param(lambda t: _forged(t, visitor="somebody"), id="another visitor"),
        pytest.param(lambda t: _forged(t, expires=2**40), id="another end"),
        pytest.param(lambda t: _forged(t, expires=True), id="an end that is no number"),
        pytest.param(lambda t: _forged(t, expires=10**400), id="an end beyond all numbers"),
        pytest.param(lambda t: _forged(t, key=ELSEWHERE.digest), id="another key"),
        pytest.param(lambda t: _forged(t, key="nobody's"), id="an unknown key"),
        pytest.param(lambda t: _forged(t, more=1), id="more words"),
        pytest.param(
            lambda t: VISITING + jwt.encode({"sub": "x"}, "", algorithm="none"), id="a JWT that nobody signed"
        ),
        pytest.param(
            lambda t: (
                t.partition(".")[0] + "." + jwt.encode({}, SITE.digest, algorithm="HS256").rpartition(".")[2]
            ),
            id="signed with what is public",
        ),
    ],
)
async def test_a_forged_token_is_refused_and_keeps_no_visitor(spoil: Callable[[str], str]) -> None:
    door = Door()
    token = await door.token()
    visitor = await door.who(token)
    forged = spoil(token)
    assert await door.refuses(forged)
    assert await door.who(await door.token(before=forged)) != visitor


@pytest.mark.filterwarnings("ignore::jwt.warnings.InsecureKeyLengthWarning")
async def test_a_key_without_a_signature_of_its_own_lets_nobody_in() -> None:
    door = Door()
    door.keys.kept[SITE.digest] = replace(SITE, signs="")
    with pytest.raises(Problem):
        await door.token()
    payload = _forged(f"{VISITING}{base64.urlsafe_b64encode(b'[1,2,3,4]').decode()}.", key=SITE.digest)
    assert await door.refuses(payload)


def test_a_talk_of_a_visitor_is_known_by_its_address_after_a_restart() -> None:
    channels = Channels()
    theirs = channels.at(address_of("web:visitor:site:x", "pixi", "a"))
    assert not theirs.abilities.changes
    assert channels.at(address_of("web:site:x", "pixi", "a")).abilities.changes
    assert address_of("web:visitor:site:x", "pixi", "a").split(":", 2)[-1] == "pixi"


# At the server.


async def _asked(here: Served, method: str, path: str, **headers: str) -> aiohttp.ClientResponse:
    async with here.http.request(method, URL(here.url + path, encoded=True), headers=headers) as answer:
        await answer.read()
        return answer


async def test_a_page_gets_a_token_and_its_visitor_talks() -> None:
    async with served("[SEND: hey]", "[SEND: hello]", rules=HttpRules(local=False)) as here:
        public = await here.site("site", PAGE, personas=("edda",))
        asked = await _asked(here, "OPTIONS", "/api/visitors", Origin=PAGE)
        assert (asked.status, asked.headers["Access-Control-Allow-Origin"]) == (204, PAGE)
        allowed = set(asked.headers["Access-Control-Allow-Headers"].split(", "))
        assert {"Authorization", "X-Pixi-Conversation", "X-Pixi-Errors", "X-Stainless-Retry-Count"} <= allowed
        headers = {"Authorization": f"Bearer {public}", "Origin": PAGE}
        status, told = await here.post("/api/visitors", None, **headers)
        assert (status, told["known"], told["default"]) == (200, False, "edda")
        assert [each["name"] for each in told["personas"]] == ["Edda"]
        mine = {"Authorization": f"Bearer {told['token']}", "Origin": PAGE}
        status, answer = await here.post("/api/chat", {"message": "hi", "conversation": "a"}, **mine)
        assert (status, answer["text"]) == (200, "hey")
        asked = await _asked(here, "GET", "/api/chat/a/messages", **mine)
        assert asked.headers["Access-Control-Allow-Origin"] == PAGE
        theirs = await here.visitor(public, PAGE)
        assert (await here.get("/api/chat/a/messages", **theirs))[0] == 404
        assert (await here.post("/api/chat/a/stop", {}, **theirs))[0] == 404
        assert (await here.post("/api/chat/a/reset", {}, **theirs))[0] == 404
        status, again = await here.post("/api/visitors", {"token": told["token"]}, **headers)
        assert (again["known"], again["visitor"]) == (True, told["visitor"])
        mine = {"Authorization": f"Bearer {again['token']}", "Origin": PAGE}
        assert (await here.get("/api/chat/a/messages", **mine))[1]["messages"][1]["text"] == "hey"
        body = {"message": "hi", "persona": "pixi"}
        assert (await here.post("/api/chat", body, **mine))[0] == 404, "a persona of others"


async def test_no_route_tells_others_of_a_visitors_talk() -> None:
    rules = HttpRules(visitor_requests_per_minute=999, requests_per_minute=999)
    async with served("[SEND: the answer]", rules=rules) as here:
        site = await here.site("site", PAGE)
        mine = await here.visitor(site, PAGE)
        body = {"message": "my secret", "conversation": "a"}
        assert (await here.post("/api/chat", body, **mine))[0] == 200
        assert "my secret" in str(await here.get("/api/chat/a/messages", **mine))
        assert "my secret" in str(await here.get("/api/me/export", **mine))
        elsewhere = PAGE.replace("://", "://other.")
        others = {
            "another visitor": await here.visitor(site, PAGE),
            "a visitor of another page": await here.visitor(await here.site("other", elsewhere), elsewhere),
            "an application": await here.key("app", "chat", "chat:on-behalf", "approve"),
            "this machine": {},
        }
        paths = (await here.get("/openapi.json"))[1]["paths"]
        asked = [
            (path, method)
            for path, methods in paths.items()
            for method in methods
            if path.startswith("/api/") and "studio" not in path
        ]
        assert len(asked) > 15
        for role, headers in others.items():
            for path, method in asked:
                at = path.replace("{id}", "a").replace("{aid}", "1").replace("{name}", "a")
                sent: dict[str, str] | None = {} if method == "post" else None
                async with here.http.request(method, here.url + at, headers=headers, json=sent) as answer:
                    told = await answer.text()
                    assert not any(word in told for word in ("secret", "the answer")), (role, method, path)
                    if "/chat/{id}" in path:
                        assert answer.status in (403, 404, 422), (role, method, path)
            kept = await here.get("/api/chat/a/messages", **mine)
            assert "my secret" in str(kept), f"taken away by {role}"


async def test_a_visitor_does_no_more_than_talk() -> None:
    async with served("[SEND: hey]") as here:
        mine = await here.visitor(await here.site("site", PAGE), PAGE)
        body = {"message": "hi", "conversation": "a"}
        assert (await here.post("/api/chat", {**body, "userId": "ana"}, **mine))[0] == 403
        assert (await here.get("/api/chat/a/messages?userId=ana", **mine))[0] == 403
        assert (await here.post("/api/chat", body, **mine))[0] == 200
        assert (await here.post("/api/chat/a/approvals/x", {"approved": True}, **mine))[0] == 403
        said = {"model": "pixi", "messages": [{"role": "user", "content": "### Task:\ntitle"}]}
        for path in ("/v1/chat/completions", "/chat/completions"):
            status, answer = await here.post(path, said, **mine)
            assert (status, answer["error"]["type"]) == (403, "permission_error")
        assert (await here.get("/v1/models", **mine))[0] == 403
        assert here.backend.helped == []
        assert len(here.model.requests) == 1


async def test_pages_with_visitors_call_for_nobody_else() -> None:
    """In a browser on this machine, such a page would else be the person who sits here."""
    async with served() as here:
        public, _ = await here.site("site", PAGE), await here.site("elsewhere", OTHER_PAGE)
        key = await here.key("app", "chat")
        mine = await here.visitor(public, PAGE)
        for headers in (
            FROM_PAGE,
            {**key, **FROM_PAGE},
            {"Authorization": f"Bearer {public}", **FROM_PAGE},
            {"Authorization": "Bearer none", **FROM_PAGE},
            {"Authorization": f"Bearer a.b.{VISITING}", **FROM_PAGE},
        ):
            answer = await _asked(here, "GET", "/api/personas", **headers)
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (403, PAGE)
        assert (await here.get("/api/personas", **{**mine, "Origin": OTHER_PAGE}))[0] == 401
        without = {"Authorization": mine["Authorization"]}
        assert (await here.get("/api/personas", **without))[0] == 401
        for token in (mine["Authorization"], key["Authorization"], f"Bearer {public}"):
            headers = {"Authorization": token, "Origin": "https://evil.example"}
            answer = await _asked(here, "GET", "/api/personas", **headers)
            assert answer.status == 403
            assert "Access-Control-Allow-Origin" not in answer.headers
        assert (await here.get("/api/personas", **mine))[0] == 200


async def test_a_publishable_key_is_no_secret_key_and_the_other_way_round() -> None:
    async with served(rules=HttpRules(allowed_origins=("https://app.example",))) as here:
        public = await here.site("site", PAGE)
        await here.site("elsewhere", OTHER_PAGE)
        key = await here.key("app", "chat", "operate")
        used = {"Authorization": f"Bearer {public}"}
        status, told = await here.get("/api/personas", **used)
        assert (status, "POST /api/visitors" in told["detail"]) == (401, True)
        for status, headers in (
            (401, {**key, **FROM_PAGE}),
            (401, {"Authorization": f"Bearer {PUBLIC}", **FROM_PAGE}),
            (401, {"Authorization": f"Bearer {public[:-1]}", **FROM_PAGE}),
            (401, FROM_PAGE),
            (401, await here.visitor(public, PAGE)),
            (403, used),
            (403, {**used, "Origin": OTHER_PAGE}),
            (403, {**used, "Origin": "https://app.example"}),
            (403, {**used, "Origin": f"{PAGE}:444"}),
            (403, {**used, "Origin": PAGE.upper()}),
            (403, {**used, "Origin": "null"}),
        ):
            assert (await here.post("/api/visitors", {}, **headers))[0] == status, headers
        wrong = {**used, **FROM_PAGE}
        assert (await here.post("/api/visitors", {"token": 1}, **wrong))[0] == 422
        assert (await here.post("/api/visitors", {"token": "x" * 2_001}, **wrong))[0] == 422
        assert (await here.post("/api/visitors", {"userId": "ana"}, **wrong))[0] == 422


async def test_a_revoked_key_closes_the_page_at_once() -> None:
    async with served("[SEND: hey]") as here:
        mine = await here.visitor(await here.site("site", PAGE), PAGE)
        assert (await here.post("/api/chat", {"message": "hi"}, **mine))[0] == 200
        await here.backend.store.revoke_key("site", 1.0)
        answer = await _asked(here, "GET", "/api/personas", **mine)
        assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (403, None)
        assert (await _asked(here, "OPTIONS", "/api/chat", Origin=PAGE)).status == 403


async def test_for_a_visitor_nothing_is_changed_and_nobody_says_yes() -> None:
    done: list[str] = []

    def setup(addon: Addon) -> None:
        @addon.tool(writes=True)
        async def book(context: Context) -> str:
            """Book a table."""
            done.append("book")
            return "booked"

        @addon.tool(approval=True)
        async def look(context: Context) -> str:
            """Look at the tables."""
            done.append("look")
            return "all free"

    personas = PERSONAS | {"pixi": Persona("Pixi", "You are Pixi.", tools=("book", "look"))}
    called = [ToolCall("1", "book", "{}"), ToolCall("2", "look", "{}")]
    async with served(
        called, "[SEND: I may not]", called[:1], "[SEND: booked]", addons=[setup], personas=personas
    ) as here:
        mine = await here.visitor(await here.site("site", PAGE), PAGE)
        status, answer = await here.post("/api/chat", {"message": "a table!"}, **mine)
        assert (status, answer["text"], done) == (200, "I may not", [])
        assert here.model.requests[0].tools == ()
        answered = str(here.model.requests[1].lines)
        assert "There is no tool 'book'" in answered
        assert "There is no tool 'look'" in answered
        assert (await here.say("a table!"))["text"] == "booked"
        assert done == ["book"], "for others it is"


async def test_a_visitor_is_a_person() -> None:
    async with served("[SEND: hey]") as here:
        public = await here.site("site", PAGE)
        mine = await here.visitor(public, PAGE)
        me = (
            await here.post(
                "/api/visitors",
                {"token": mine["Authorization"][7:]},
                **{**mine, "Authorization": f"Bearer {public}"},
            )
        )[1]["visitor"]
        here.backend.engine.settings.budgets = Budgets(person=Allowance(messages=1))
        body = {"message": "a secret", "conversation": "a"}
        for _ in range(2):
            assert (await here.post("/api/chat", body, **mine))[0] == 200
        assert len(here.model.requests) == 1, "the budget is used up"
        assert "a secret" in str(await here.backend.engine.export(me))
        await here.backend.engine.forget(me)
        assert "a secret" not in str(await here.backend.engine.export(me))
        assert (await here.get("/api/chat/a/messages", **mine))[0] == 404


def test_keys_of_both_kinds_are_told_apart() -> None:
    assert new_key(PUBLISHABLE).startswith("pixi_pk_")
    assert "11" * 32 not in repr(SITE)


async def test_a_page_of_this_server_lets_visitors_in_by_every_key() -> None:
    door = Door()
    own = {"Origin": "http://pixi.example:8642", "Host": "Pixi.example:8642"}
    admitted, _ = await door.visitors.begin(await door.visitors.key_for_page(OTHER, own), own)
    assert await door.who(admitted.token, **own) == admitted.person.id
    assert await door.refuses(admitted.token, Origin=PAGE, Host=own["Host"]), "it is no token for other pages"
    for other in ({**own, "Origin": "http://pixi.example"}, {**own, "Origin": "null"}, {"Host": own["Host"]}):
        with pytest.raises(Problem, match="on the pages that it was made for"):
            await door.visitors.key_for_page(OTHER, other)
