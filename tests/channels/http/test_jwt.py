"""Tokens of a host application: those that its key pair signed, and no others."""

import asyncio
import base64
import hmac
import json
import time
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from pixi.channels.http.access import Problem
from pixi.channels.http.jwt import HostTokens
from pixi.settings.rules import HttpRules
from tests.channels.http.served import served
from tests.waiting import until, within

RSA = rsa.generate_private_key(65_537, 2_048)
OTHER = rsa.generate_private_key(65_537, 2_048)
CURVE = ec.generate_private_key(ec.SECP256R1())
ISSUER, AUDIENCE = "https://app.example", "pixi"


def jwks(**keys: Any) -> str:
    told = []
    for name, key in keys.items():
        if isinstance(key, rsa.RSAPrivateKey):
            shown = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key()))
        else:
            shown = json.loads(jwt.algorithms.ECAlgorithm.to_jwk(key.public_key()))
        told.append({**shown, "kid": name})
    return json.dumps({"keys": told})


@pytest.fixture
def tokens(tmp_path: Path) -> HostTokens:
    (tmp_path / "keys.json").write_text(jwks(one=RSA, two=CURVE))
    return HostTokens(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))


def claims(**more: Any) -> dict[str, Any]:
    given = {"sub": "mo", "iss": ISSUER, "aud": AUDIENCE, "exp": time.time() + 600} | more
    return {name: value for name, value in given.items() if value is not None}


def token(key: Any = RSA, kid: str = "one", algorithm: str = "RS256", **more: Any) -> str:
    return jwt.encode(claims(**more), key, algorithm=algorithm, headers={"kid": kid})


async def test_a_token_of_the_issuer_holds(tokens: HostTokens) -> None:
    assert (await tokens.verified(token()))["sub"] == "mo"
    assert (await tokens.verified(token(CURVE, "two", "ES256")))["sub"] == "mo"


@pytest.mark.parametrize(
    ("forged", "why"),
    [
        (lambda: jwt.encode(claims(), "", algorithm="none", headers={"kid": "one"}), "'none'"),
        (
            lambda: _by_hand(RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)),
            "'HS256'",
        ),
        (lambda: token(OTHER), "signature verification failed"),
        (lambda: token(OTHER, "three"), "not among those of the issuer"),
        (lambda: token(iss="https://evil.example"), "issuer"),
        (lambda: token(aud="other"), "audience"),
        (lambda: token(exp=time.time() - 3_600), "expired"),
        (lambda: token(exp=None), "exp"),
        (lambda: token(nbf=time.time() + 3_600), "not yet valid"),
        (lambda: "a.b.c", "does not hold"),
        (lambda: f"{_packed(b'[' * 6_000)}.b.c", "does not hold"),
        (lambda: token()[:-8] + "AAAAAAAA", "signature"),
    ],
)
async def test_what_is_forged_does_not(tokens: HostTokens, forged: Any, why: str) -> None:
    with pytest.raises(Problem) as refused:
        await tokens.verified(forged())
    assert refused.value.status == 401
    assert why in refused.value.detail


def _by_hand(secret: bytes) -> str:
    """A token signed with the public key as if that were a shared secret."""
    head = _packed(json.dumps({"alg": "HS256", "kid": "one"}).encode())
    signed = f"{head}.{_packed(json.dumps(claims()).encode())}"
    return f"{signed}.{_packed(hmac.digest(secret, signed.encode(), 'sha256'))}"


def _packed(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


async def test_a_key_of_its_own_is_not_looked_at(tokens: HostTokens) -> None:
    own = json.loads(jwks(one=OTHER))["keys"][0]
    forged = jwt.encode(claims(), OTHER, algorithm="RS256", headers={"kid": "one", "jwk": own})
    with pytest.raises(Problem):
        await tokens.verified(forged)


async def test_new_keys_are_read_when_one_is_unknown_and_once_a_minute_at_most() -> None:
    there = {"keys": jwks(one=RSA)}
    asked: list[str] = []
    now = 0.0

    async def fetch(url: str) -> bytes:
        asked.append(url)
        return there["keys"].encode()

    address = "https://app.example/keys"
    tokens = HostTokens(ISSUER, AUDIENCE, address, fetch=fetch, clock=lambda: now)
    assert asked == []
    await tokens.verified(token())
    await tokens.verified(token())
    assert asked == [address]
    there["keys"] = jwks(one=RSA, two=CURVE)
    with pytest.raises(Problem):
        await tokens.verified(token(CURVE, "two", "ES256"))
    now = 61.0
    await tokens.verified(token(CURVE, "two", "ES256"))
    assert len(asked) == 2


async def test_while_the_issuer_is_down_one_token_a_minute_asks_again() -> None:
    asked = 0

    async def fetch(url: str) -> bytes:
        nonlocal asked
        asked += 1
        if asked > 1:
            raise TimeoutError
        return jwks(one=RSA).encode()

    now = [0.0]
    tokens = HostTokens(ISSUER, AUDIENCE, "https://app.example/keys", fetch=fetch, clock=lambda: now[-1])
    await tokens.verified(token())
    for seconds in (3_601.0, 3_612.0, 3_660.0, 3_662.0):
        now.append(seconds)
        await tokens.verified(token())
    assert asked == 3


async def test_who_has_a_known_key_does_not_wait_for_the_issuer() -> None:
    asked: list[asyncio.Event] = []

    async def fetch(url: str) -> bytes:
        asked.append(asyncio.Event())
        if len(asked) > 1:
            await asked[-1].wait()
            raise TimeoutError
        return jwks(one=RSA).encode()

    now = 0.0
    address = "https://app.example/keys"
    tokens = HostTokens(ISSUER, AUDIENCE, address, fetch=fetch, clock=lambda: now)
    await tokens.verified(token())
    now = 61.0
    made_up = asyncio.create_task(tokens.verified(token(OTHER, "three")))
    await until(lambda: len(asked) == 2)
    async with within("a token of a known key"):
        await tokens.verified(token())
    asked[1].set()
    with pytest.raises(Problem, match="cannot be read"):
        await made_up
    with pytest.raises(Problem, match="not among"):  # and the issuer is not asked each time
        await tokens.verified(token(OTHER, "three"))
    assert len(asked) == 2


async def test_a_key_that_the_issuer_took_back_ends_after_an_hour() -> None:
    there = {"keys": jwks(one=RSA, two=CURVE)}
    now = 0.0

    async def fetch(url: str) -> bytes:
        if not there["keys"]:
            raise TimeoutError
        return there["keys"].encode()

    tokens = HostTokens(ISSUER, AUDIENCE, "https://app.example/keys", fetch=fetch, clock=lambda: now)
    await tokens.verified(token())
    there["keys"], now = "", 3_601.0  # the issuer cannot be asked: what is known stays good
    await tokens.verified(token())
    there["keys"], now = jwks(two=CURVE), 3_700.0
    with pytest.raises(Problem, match="not among"):
        await tokens.verified(token())
    await tokens.verified(token(CURVE, "two", "ES256"))


@pytest.mark.parametrize(
    "keys", ["{}", "[]", "null", '"one"', '{"keys": [1]}', '{"keys": ' + "[" * 99_999, "no"]
)
async def test_keys_that_cannot_be_read_are_told(keys: str, tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(keys)
    for place in (tmp_path / "keys.json", tmp_path / "missing.json"):
        with pytest.raises(Problem) as refused:
            await HostTokens(ISSUER, AUDIENCE, str(place)).verified(token())
        assert (refused.value.status, "[http.jwt] keys" in refused.value.detail) == (503, True)


async def test_only_public_keys_for_signatures_count(tmp_path: Path) -> None:
    private = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA))
    public = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key()))
    good = json.loads(jwks(two=CURVE))["keys"]
    keys = [{**private, "kid": "one"}, {**public, "kid": "closed", "use": "enc"}, *good]
    (tmp_path / "keys.json").write_text(json.dumps({"keys": keys}))
    tokens = HostTokens(ISSUER, AUDIENCE, str(tmp_path / "keys.json"))
    await tokens.verified(token(CURVE, "two", "ES256"))
    for kid in ("one", "closed"):
        with pytest.raises(Problem, match="not among"):
            await tokens.verified(token(kid=kid))


async def test_somebody_of_the_application_talks_by_its_token(tokens: HostTokens) -> None:
    async with served("[SEND: hey]", "[SEND: you]", tokens=tokens, rules=HttpRules(local=False)) as here:
        of_mo = {"Authorization": f"Bearer {token(name='Mo')}"}
        assert (await here.post("/api/chat", {"message": "hi", "conversation": "a"}, **of_mo))[1][
            "text"
        ] == "hey"
        body = {"model": "pixi", "messages": [{"role": "user", "content": "hi"}]}
        status, answer = await here.post("/v1/chat/completions", body, **of_mo)
        assert (status, answer["choices"][0]["message"]["content"]) == (200, "you")
        other = {"Authorization": f"Bearer {token(sub='edda')}"}
        assert (await here.get("/api/chat/a/messages", **other))[0] == 404, "the talk is Mo's"
        for bad in (
            token(exp=1),
            token(OTHER),
            jwt.encode(claims(), "", algorithm="none", headers={"kid": "one"}),
        ):
            for path, sent in (("/api/chat", {"message": "hi"}), ("/v1/chat/completions", body)):
                assert (await here.post(path, sent, Authorization=f"Bearer {bad}"))[0] == 401
        named = {"message": "hi", "userId": "edda"}
        assert (await here.post("/api/chat", named, **of_mo))[0] == 403
        assert len(here.model.requests) == 2
