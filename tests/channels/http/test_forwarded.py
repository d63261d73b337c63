"""Whom Open WebUI says that it speaks for: in headers, or in a token that it signs."""

import time
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from pixi.channels.http.access import Problem
from pixi.channels.http.jwt import ForwardedUsers
from tests.channels.http.served import Served, served

SECRET, OTHER = "5a" * 32, "5b" * 32
HI = {"model": "pixi", "messages": [{"role": "user", "content": "hi"}]}


def token(key: Any = SECRET, algorithm: str = "HS256", **changes: Any) -> str:
    now = int(time.time())
    claims = {"sub": "u-1", "name": "Ana", "role": "user", "iss": "open-webui", "iat": now, "exp": now + 300}
    claims = {name: value for name, value in (claims | changes).items() if value is not None}
    return jwt.encode(claims, key, algorithm=algorithm)


def test_a_token_tells_who_it_is_about() -> None:
    users = ForwardedUsers(SECRET)
    assert users.verified(token()) == ("u-1", "Ana")
    assert users.verified(token(name=None)) == ("u-1", "")
    assert users.verified(token(exp=int(time.time()) - 5)) == ("u-1", "Ana"), "clocks differ"


@pytest.mark.parametrize(
    "forge",
    [
        pytest.param(lambda: "", id="none"),
        pytest.param(lambda: "a.b.c", id="no token"),
        pytest.param(lambda: token()[:-2], id="truncated"),
        pytest.param(lambda: token().rpartition(".")[0] + ".", id="without its signature"),
        pytest.param(lambda: token(OTHER), id="another secret"),
        pytest.param(lambda: token("", "none"), id="alg none"),
        pytest.param(lambda: token(algorithm="HS512"), id="another algorithm"),
        pytest.param(lambda: token(rsa.generate_private_key(65_537, 2_048), "RS256"), id="a key pair"),
        pytest.param(lambda: token(exp=int(time.time()) - 100), id="expired"),
        pytest.param(lambda: token(exp=None), id="without an end"),
        pytest.param(lambda: token(iss="somebody"), id="another issuer"),
        pytest.param(lambda: token(iss=None), id="without an issuer"),
        pytest.param(lambda: token(sub=None), id="about nobody"),
        pytest.param(lambda: token(sub=5), id="about a number"),
        pytest.param(lambda: token(nbf=int(time.time()) + 900), id="not yet"),
    ],
)
def test_a_forged_token_is_refused(forge: Any) -> None:
    with pytest.raises(Problem) as caught:
        ForwardedUsers(SECRET).verified(forge())
    assert caught.value.status == 401
    assert SECRET not in caught.value.detail


async def _people(here: Served) -> set[str]:
    """Who of those that were named has a talk."""
    ids = {f"web:owui{user}" for user in ("", ":u-1", ":u-2", ":u-3")}
    return {each for each in ids if await here.backend.store.talks(each, "", 9)}


async def test_without_a_secret_the_headers_are_believed_of_a_key_that_may() -> None:
    async with served(*["[SEND: hey]"] * 4) as here:
        key, plain = await here.key("owui", "chat", "chat:on-behalf"), await here.key("other", "chat")
        sent = {"X-OpenWebUI-User-Id": "u-1", "X-OpenWebUI-User-Name": "Ana%20%C3%96"}
        assert (await here.post("/v1/chat/completions", HI, **key, **sent))[0] == 200
        assert "Ana Ö" in str(await here.backend.engine.export("web:owui:u-1"))
        body = {**HI, "user": "u-2"}
        assert (await here.post("/v1/chat/completions", body, **key, **sent))[0] == 200
        assert await _people(here) == {"web:owui:u-1"}, "users of Open WebUI can add fields to the body"
        assert (await here.post("/v1/chat/completions", body, **key))[0] == 200
        assert await _people(here) == {"web:owui:u-1", "web:owui:u-2"}
        assert (await here.post("/v1/chat/completions", HI, **plain, **sent))[0] == 200
        assert await here.backend.store.talks("web:other", "", 9)
        signed = {"X-OpenWebUI-User-Jwt": token()}
        status, answer = await here.post("/v1/chat/completions", HI, **key, **signed)
        assert (status, "PIXI_HTTP__OPEN_WEBUI_SECRET" in answer["error"]["message"]) == (401, True)


async def test_with_a_secret_nothing_counts_but_the_token() -> None:
    async with served(*["[SEND: hey]"] * 4, forwarded=ForwardedUsers(SECRET)) as here:
        key, plain = await here.key("owui", "chat", "chat:on-behalf"), await here.key("other", "chat")
        chat = {"X-OpenWebUI-Chat-Id": "c"}
        for sent in (
            {"X-OpenWebUI-User-Id": "u-3"},
            chat,
            {"x-openwebui-user-jwt": token(OTHER)},
            {"X-OpenWebUI-User-Jwt": token("", "none"), "X-OpenWebUI-User-Id": "u-3"},
        ):
            body = {**HI, "user": "u-3"}
            assert (await here.post("/v1/chat/completions", body, **key, **sent))[0] == 401
        assert await _people(here) == set()
        sent = {**chat, "X-OpenWebUI-User-Jwt": token(), "X-OpenWebUI-User-Id": "u-3"}
        for _ in range(2):  # the same again, as long as it is good: a request may be sent anew
            assert (await here.post("/v1/chat/completions", {**HI, "user": "u-3"}, **key, **sent))[0] == 200
        assert await _people(here) == {"web:owui:u-1"}
        assert (await here.post("/v1/chat/completions", {**HI, "user": "u-2"}, **key))[0] == 200
        assert await _people(here) == {"web:owui:u-1", "web:owui:u-2"}, "other programs name theirs"
        assert (await here.post("/v1/chat/completions", HI, **plain, **sent))[0] == 200
        assert await here.backend.store.talks("web:other", "", 9), "a key that may not names nobody"
        for sent in ({"X-OpenWebUI-User-Jwt": token()}, {"Authorization": f"Bearer {token()}"}):
            status, _ = await here.post("/v1/chat/completions", HI, Via="1.1 proxy", **sent)
            assert status == 401, "it lets nobody in"
