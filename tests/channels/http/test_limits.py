"""How often somebody may ask: by person, by key, and for visitors by where they are."""

from collections.abc import Awaitable, Mapping

import pytest

from pixi.channels.http import visitors
from pixi.channels.http.access import Principal, Problem
from pixi.channels.http.visitors import HttpLimits, RequestLimit, network_of
from pixi.core.spending import Rate, RateKey
from pixi.settings.rules import HttpRules
from tests.channels.http.served import served

PAGE = "https://site.example"


class Clock:
    def __init__(self) -> None:
        self.now = 50.0

    def __call__(self) -> float:
        return self.now


def visitor(name: str, network: str = "203.0.113.1") -> Principal:
    return Principal(f"web:visitor:site:{name}", "visitor", "site", network=network)


async def refused(use: Awaitable[None]) -> Problem:
    with pytest.raises(Problem) as caught:
        await use
    assert caught.value.status == 429
    return caught.value


async def test_a_bucket_empties_and_fills_again_and_says_when() -> None:
    clock = Clock()
    limit = RequestLimit("said", 2, seconds=86_400, what="messages", clock=clock)
    await limit.use("mo")
    await limit.use("mo")
    await limit.use("ann")
    problem = await refused(limit.use("mo"))
    assert problem.headers == {
        "Retry-After": "43200",
        "RateLimit-Policy": '"messages";q=2;w=86400',
        "RateLimit": '"messages";r=0;t=43200',
    }
    assert problem.detail == "At most 2 messages a day are taken. Try again in 43200 s."
    clock.now += 43_000
    await refused(limit.use("mo"))
    clock.now += 201
    await limit.use("mo")
    await refused(limit.use("mo"))


async def test_all_who_come_by_one_key_share_what_it_has() -> None:
    limits = HttpLimits(HttpRules(requests_per_minute=2, key_requests_per_minute=3), Clock())
    ana, bo = (Principal(f"web:app:{name}", name, "app") for name in ("ana", "bo"))
    await limits.request(ana)
    await limits.request(ana)
    for _ in range(3):
        await refused(limits.request(ana))
    await limits.request(bo)
    await refused(limits.request(bo))
    await limits.request(Principal("web:other:ana", "ana", "other"))
    await limits.request(Principal("web:jwt:ana", "ana"))


async def test_a_visitor_has_less_and_shares_with_those_of_the_same_address() -> None:
    rules = HttpRules(visitor_requests_per_minute=2, visitor_messages_per_day=1, visitors_per_address=2)
    limits = HttpLimits(rules, Clock())
    for name in "ab":
        await limits.request(visitor(name))
        await limits.request(visitor(name))
        await refused(limits.request(visitor(name)))
        await limits.message(visitor(name))
        await refused(limits.message(visitor(name)))
    await refused(limits.request(visitor("c")))
    await refused(limits.message(visitor("c")))
    await refused(limits.knock("203.0.113.1"))
    await limits.request(visitor("d", "203.0.113.2"))
    await limits.message(visitor("d", "203.0.113.2"))
    await limits.new_visitor("203.0.113.1")
    await limits.new_visitor("203.0.113.1")
    assert "2 visitors an hour" in (await refused(limits.new_visitor("203.0.113.1"))).detail
    await limits.new_visitor("203.0.113.2")


async def test_what_others_say_is_not_counted_here() -> None:
    limits = HttpLimits(HttpRules(visitor_messages_per_day=1), Clock())
    for _ in range(3):
        await limits.message(Principal("web:site:visitor", "visitor", "site"))


@pytest.mark.parametrize(
    ("remote", "told", "network"),
    [
        ("203.0.113.9", "", "203.0.113.9"),
        ("::ffff:203.0.113.9", "", "203.0.113.9"),
        ("2001:db8:1:2:3::4", "", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "", "fe80::/64"),
        ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
        ("127.0.0.1", "10.0.0.1, 198.51.100.7", "198.51.100.7"),
        ("127.0.0.1", "[2001:db8::1]", "2001:db8::/64"),
        ("127.0.0.1", "198.51.100.7, ", "127.0.0.1"),
        ("127.0.0.1", "unknown", "127.0.0.1"),
        (None, "", ""),
    ],
)
def test_where_a_request_comes_from(remote: str | None, told: str, network: str) -> None:
    assert network_of(remote, told) == network


async def test_the_server_counts_what_visitors_do() -> None:
    rules = HttpRules(visitor_requests_per_minute=5, visitor_messages_per_day=1, visitors_per_address=2)
    async with served("[SEND: one]", "[SEND: two]", rules=rules) as here:
        for limit in vars(here.server.limits).values():
            limit.clock = Clock()  # nothing is allowed anew while this takes
        public = await here.site("site", PAGE)
        mine, theirs = await here.visitor(public, PAGE), await here.visitor(public, PAGE)
        used = {"Authorization": f"Bearer {public}", "Origin": PAGE}
        assert (await here.post("/api/visitors", {}, **used))[0] == 429, "a third one from here"
        known = {"token": mine["Authorization"].removeprefix("Bearer ")}
        assert (await here.post("/api/visitors", known, **used))[0] == 200, "who is known is not new"
        body = {"message": "hi", "conversation": "a"}
        once = {**mine, "Idempotency-Key": "1"}
        for _ in range(2):
            status, answer = await here.post("/api/chat", body, **once)
            assert (status, answer["text"]) == (200, "one"), "the same again is not counted"
        async with here.http.post(f"{here.url}/api/chat", json=body, headers=mine) as answer:
            assert answer.status == 429
            assert answer.headers["RateLimit-Policy"] == '"messages";q=1;w=86400'
            assert "RateLimit" in answer.headers["Access-Control-Expose-Headers"]
        statuses = [(await here.get("/api/personas", **mine))[0] for _ in range(3)]
        assert statuses == [200, 200, 429], "the fourth, fifth and sixth request"
        statuses = [(await here.get("/api/personas", **theirs))[0] for _ in range(2)]
        assert statuses == [200, 429], "the tenth and eleventh from this address"


async def test_behind_a_proxy_the_address_is_the_one_that_it_tells() -> None:
    rules = HttpRules(visitors_per_address=1, address_header="X-Forwarded-For")
    async with served(rules=rules) as here:
        public = await here.site("site", PAGE)
        used = {"Authorization": f"Bearer {public}", "Origin": PAGE}
        for told, status in (("9.9.9.9, 1.1.1.1", 200), ("8.8.8.8, 1.1.1.1", 429), ("1.1.1.1, 2.2.2.2", 200)):
            headers = {**used, "X-Forwarded-For": told}
            assert (await here.post("/api/visitors", {}, **headers))[0] == status


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/api/personas"), ("DELETE", "/api/studio/session"), ("GET", "/metrics")]
)
async def test_wrong_keys_from_one_network_are_refused_and_right_ones_are_not(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    monkeypatch.setattr(visitors, "_WRONG_KEYS", 1)
    async with served() as here:
        right = await here.key("shop", "chat")
        told = []
        for n in range(3):
            wrong = {"Authorization": f"Bearer pixi_sk_{n}"}
            async with here.http.request(method, here.url + path, headers=wrong) as answer:
                told.append(answer.status)
        assert told == [401, 429, 429]
        assert (await here.get("/api/personas", **right))[0] == 200


async def test_what_anybody_may_send_without_a_key_is_counted_on_this_server_alone() -> None:
    async def count(rates: Mapping[RateKey, Rate]) -> float:
        counted.extend(rates)
        return 0.0

    counted = list[RateKey]()
    limits = HttpLimits(HttpRules())
    limits.share(count)
    await limits.refused("203.0.113.1")
    await limits.knock("203.0.113.1")
    assert counted == []
    await limits.request(Principal("web:app:ana", "ana"))
    assert counted == [("http", "person", "web:app:ana")]
