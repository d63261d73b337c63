"""Who a request comes from: keys, scopes, users of an application, this machine, and everybody else."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from pixi.channels.http.access import (
    Access,
    Principal,
    Problem,
    address_of,
    bearer_of,
    checked_user_id,
    digest_of,
)
from pixi.settings.rules import origin_of
from pixi.store.kept import ApiKey

HERE, AWAY = "127.0.0.1", "203.0.113.9"
SECRET, PLAIN = f"pixi_sk_{'Ss' * 21}0", f"pixi_sk_{'Pp' * 21}1"  # the same in each process that runs tests
SHOP = ApiKey("shop", digest_of(SECRET), ("chat", "chat:on-behalf", "approve", "operate"), ("pixi",))
CLIENT = ApiKey("client", digest_of(PLAIN), ("chat",))


class Keys:
    """Keys by their digests; counts how often it was asked."""

    def __init__(self, *keys: ApiKey) -> None:
        self.kept = {key.digest: key for key in keys}
        self.asked = 0

    async def key_of(self, digest: str) -> ApiKey | None:
        self.asked += 1
        return self.kept.get(digest)


async def claims(token: str) -> Mapping[str, Any]:
    user, _, name = token.split(".")
    return {"sub": user, "name": name}


def access(**more: Any) -> Access:
    return Access(Keys(SHOP, CLIENT).key_of, **{"jwt": claims} | more)


def sent(token: str, **more: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", **more}


async def refusal(headers: Mapping[str, str], remote: str | None = AWAY, user: str = "", **more: Any) -> int:
    with pytest.raises(Problem) as caught:
        await access(**more).identify(headers, remote, user_id=user)
    assert SECRET not in str(caught.value.detail)
    return caught.value.status


async def test_a_key_lets_in_with_its_scopes_and_personas() -> None:
    who = await access().identify(sent(SECRET), AWAY)
    assert who == Principal("web:shop", "shop", "shop", frozenset(SHOP.scopes), frozenset({"pixi"}))
    assert (who.knows("pixi"), who.knows("rex")) == (True, False)
    assert (await access().identify(sent(PLAIN), AWAY)).knows("rex")


async def test_a_user_is_named_by_a_key_that_may() -> None:
    who = await access().identify(sent(SECRET), AWAY, user_id="42", user_name=" Mo\n[x] ")
    assert (who.id, who.name, who.key) == ("web:shop:42", "Mo [x]", "shop")
    assert who.scopes == {"chat", "chat:on-behalf", "approve"}, "an operator's scope is not lent"
    assert (await access().identify(sent(SECRET), AWAY, user_id="mo")).name == "mo"


async def test_a_user_is_named_by_nobody_else() -> None:
    assert await refusal(sent(PLAIN), user="42") == 403
    assert await refusal({}, HERE, user="42") == 401
    assert await refusal({}, AWAY, user="42") == 401
    assert await refusal(sent("mo.x.y"), user="42") == 403
    assert await refusal(sent("mo.x.Mo"), user="42") == 403


@pytest.mark.parametrize("user", ["x" * 129, "a\nb", "a\0", "\u202e42", "a\u2028b", "\ud800"])
async def test_a_user_id_is_printable_and_short(user: str) -> None:
    assert await refusal(sent(SECRET), user=user) == 400
    with pytest.raises(Problem):
        checked_user_id(user)


@pytest.mark.parametrize("remote", [HERE, "127.8.8.8", "::1", "::ffff:127.0.0.1"])
async def test_who_is_at_this_machine_needs_no_key(remote: str) -> None:
    who = await access().identify({}, remote)
    assert who == Principal("web:local", "user", scopes=frozenset({"chat", "approve"}))


@pytest.mark.parametrize("remote", [AWAY, "10.0.0.1", "::2", "", None, "localhost", "127.0.0.1.example"])
async def test_who_is_elsewhere_needs_one(remote: str | None) -> None:
    assert await refusal({}, remote) == 401


@pytest.mark.parametrize("header", ["Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"])
async def test_what_a_proxy_passes_on_comes_from_elsewhere(header: str) -> None:
    assert await refusal({header: "x"}, HERE) == 401


async def test_this_machine_can_be_asked_for_a_key_too() -> None:
    assert await refusal({}, HERE, local=False) == 401


@pytest.mark.parametrize(
    "token",
    [
        PLAIN[:-1] + "2",
        SECRET[:-1],
        SECRET.swapcase(),
        f"pixi_sk_{digest_of(SECRET)}",
        SECRET.replace("_sk_", "_pk_"),
        SECRET.replace("_sk_", "_vt_"),
        "x" * 9_000,
        "ä",
        f"{SECRET} {SECRET}",
    ],
)
@pytest.mark.parametrize("remote", [HERE, AWAY])
async def test_a_wrong_key_is_refused_and_falls_back_to_nothing(token: str, remote: str) -> None:
    assert await refusal(sent(token), remote) == 401


async def test_what_programs_send_that_insist_on_a_key_counts_for_nothing() -> None:
    for token in ("none", "sk-not-needed", digest_of(SECRET)):
        assert (await access().identify(sent(token), HERE)).id == "web:local"
        assert await refusal(sent(token), AWAY) == 401
        assert await refusal(sent(token), HERE, local=False) == 401
        assert await refusal(sent(token), HERE, user="42") == 401


@pytest.mark.parametrize("given", ["", "Bearer", "Bearer ", "Basic dTpw", SECRET, f"Token {SECRET}"])
async def test_another_authorization_is_refused(given: str) -> None:
    assert await refusal({"Authorization": given}, HERE) == 401


def test_the_scheme_is_read_in_any_case() -> None:
    assert bearer_of({"Authorization": " bEARER  abc "}) == "abc"
    assert bearer_of({}) == ""


async def test_a_revoked_key_is_refused_at_once() -> None:
    keys = Keys(SHOP)
    door = Access(keys.key_of)
    await door.identify(sent(SECRET), AWAY)
    keys.kept.clear()
    with pytest.raises(Problem):
        await door.identify(sent(SECRET), AWAY)
    assert keys.asked == 2


async def test_what_is_refused_says_how_to_be_let_in() -> None:
    with pytest.raises(Problem) as caught:
        await access().identify({}, AWAY)
    assert caught.value.headers["WWW-Authenticate"] == 'Bearer realm="pixi"'
    with pytest.raises(Problem) as caught:
        (await access().identify(sent(PLAIN), AWAY)).require("approve")
    assert (caught.value.status, "--scopes approve" in caught.value.detail) == (403, True)


async def test_a_user_of_the_host_application_is_a_person_of_their_own() -> None:
    who = await access().identify(sent("mo.x.Mo"), AWAY)
    assert who == Principal("web:jwt:mo", "Mo", scopes=frozenset({"chat", "approve"}))
    assert await refusal(sent(".x.y")) == 401
    assert await refusal(sent("mo.x.y"), jwt=None) == 401
    assert await refusal(sent("mo.x.y"), jwt_user="email") == 401


def test_a_talk_has_an_address_that_is_its_persons_alone() -> None:
    address = address_of("web:shop:42", "pixi", "one")
    assert address == address_of("web:shop:42", "pixi", "one")
    scheme, digest, persona = address.split(":")
    assert (scheme, len(digest), persona) == ("http", 32, "pixi")
    others = [
        ("web:shop:43", "pixi", "one"),
        ("web:shop:4", "2pixi", "one"),
        ("web:shop:42", "pixi", "on\ud800"),
    ]
    assert len({address, *(address_of(*each) for each in others)}) == 4


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("https://example.org", "https://example.org"),
        ("HTTPS://Example.ORG:443/", "https://example.org"),
        ("http://localhost:3000", "http://localhost:3000"),
        ("http://[::1]:80", "http://[::1]"),
        ("https://example.org/page", None),
        ("https://me@example.org", None),
        ("https://*.example.org", None),
        ("https://example.org?x", None),
        ("https://exämple.org", None),
        ("https://example.org:0", None),
        ("https://example.org:99999", None),
        ("https://a b", None),
        ("https://", None),
        ("example.org", None),
        ("file:///x", None),
        ("null", None),
        ("*", None),
        ("", None),
    ],
)
def test_an_origin_is_read_as_browsers_send_it(text: str, origin: str | None) -> None:
    assert origin_of(text) == origin


def test_a_key_does_not_know_its_secret() -> None:
    assert SECRET not in repr(replace(SHOP, name="x"))
