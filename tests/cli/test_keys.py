"""`keys`: a key is made and shown once, listed without its secret, and revoked."""

import asyncio
import json
from pathlib import Path

import pytest

from pixi.channels.http.access import digest_of
from pixi.store.kept import ApiKey
from pixi.store.sqlite import SqliteStore
from tests.cli.conftest import Program


def made(program: Program, *words: str) -> str:
    """A key that was just added, as it was shown."""
    code, out, err = program("keys", "add", *words)
    assert code == 0, err
    assert "it is shown only now" in err
    return out.strip()


def test_a_key_is_shown_once_and_kept_as_a_digest(program: Program, home: Path) -> None:
    secret = made(program, "shop", "--scopes", "chat,chat:on-behalf", "--personas", "pixi, rex")
    assert secret.startswith("pixi_sk_")
    assert len(secret) == 51, "256 random bits"
    assert made(program, "other") != secret
    files = b"".join(file.read_bytes() for file in home.iterdir() if file.is_file())
    assert secret.encode() not in files
    assert digest_of(secret).encode() in files
    code, out, err = program("keys", "list")
    assert (code, err) == (0, "")
    other, shop = out.splitlines()
    assert other.startswith("other  chat, with everybody, made 20")
    assert shop.startswith("shop   chat, chat:on-behalf, with pixi, rex, made 20")


def test_keys_are_told_as_json(program: Program, home: Path) -> None:
    made(program, "shop", "--scopes", "chat,approve", "--personas", "pixi")
    code, out, _ = program("keys", "list", "--json")
    told = json.loads(out)
    assert code == 0
    assert told.pop("created") > 0
    assert told == {
        "name": "shop",
        "scopes": ["chat", "approve"],
        "personas": ["pixi"],
        "origins": [],
        "revoked": None,
    }


def test_a_publishable_key_is_for_pages_and_has_something_to_sign_with(program: Program, home: Path) -> None:
    origins = ("--origin", "https://example.org/", "--origin", "HTTP://localhost:3000")
    public = made(program, "site", "--publishable", *origins, "--personas", "pixi")
    assert public.startswith("pixi_pk_")
    told = "site  visitors of https://example.org, http://localhost:3000, with pixi, made 20"
    assert program("keys", "list")[1].startswith(told)
    listed = json.loads(program("keys", "list", "--json")[1])
    assert (listed["scopes"], listed["origins"]) == ([], ["https://example.org", "http://localhost:3000"])
    made(program, "other", "--publishable", *origins)
    with asyncio.Runner() as runner:
        store = runner.run(SqliteStore.open(home / "pixi.db"))
        other, site = runner.run(store.keys())
        runner.run(store.close())
    assert site.digest == digest_of(public)
    assert (len(bytes.fromhex(site.signs)), site.signs == other.signs) == (32, False)
    assert site.signs not in str(listed)


def test_a_key_names_personas_by_their_files(program: Program, home: Path) -> None:
    (home / "personas").mkdir()
    (home / "personas" / "owl.md").write_text("---\nname: The Night Owl\n---\nYou hoot.", encoding="utf-8")
    code, _, err = program("keys", "add", "shop", "--personas", "the night owl,PIXI,nobody")
    assert code == 0
    assert "with owl, pixi, nobody." in err
    assert "The key reaches nobody by that name: there is no persona `nobody` in personas" in err
    assert err.count("reaches nobody") == 1
    assert json.loads(program("keys", "list", "--json")[1])["personas"] == ["owl", "pixi", "nobody"]


def test_a_revoked_key_is_listed_and_its_name_is_free(program: Program, home: Path) -> None:
    first = made(program, "shop")
    assert program("keys", "revoke", "shop") == (0, "The key 'shop' opens nothing any more.\n", "")
    assert ", revoked 20" in program("keys", "list")[1]
    second = made(program, "shop")
    assert second != first
    told = [json.loads(line) for line in program("keys", "list", "--json")[1].splitlines()]
    assert [each["revoked"] is None for each in told] == [False, True]


def test_it_works_on_a_store_that_is_open(program: Program, home: Path) -> None:
    with asyncio.Runner() as runner:
        store = runner.run(SqliteStore.open(home / "pixi.db"))

        def known(secret: str) -> ApiKey | None:
            return runner.run(store.key_of(digest_of(secret)))

        secret = made(program, "shop")
        key = known(secret)
        assert key is not None
        assert key.name == "shop"
        assert program("keys", "revoke", "shop")[0] == 0
        assert known(secret) is None
        runner.run(store.close())


def test_where_nothing_is_kept_nothing_is_made(program: Program, home: Path) -> None:
    assert program("keys", "list") == (
        0,
        "There are no keys: make one with `pixi-persona keys add NAME`.\n",
        "",
    )
    code, _, err = program("keys", "revoke", "shop")
    assert (code, err) == (1, "pixi-persona: No key in use is called 'shop': there is none.\n")
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("add", "shop"), 1, "There is a key 'shop' already: choose another name, or revoke that one first."),
        (("revoke", "shpo"), 1, "No key in use is called 'shpo': name one of shop."),
        (("add", "local"), 2, "'local' stands for those without a key; choose another name"),
        (("add", "a:b"), 2, "'a:b' must be at most 32 small letters, digits, - and _"),
        (("add", "x" * 33), 2, "must be at most 32 small letters"),
        (("add", "a", "--scopes", "chat,fly"), 2, "'fly' is none; scopes are chat, chat:on-behalf, approve"),
        (("add", "a", "--scopes", ","), 2, "it is empty; name at least one, or leave the flag out"),
        (("add", "a", "--publishable"), 2, "say whose pages may use it: --origin https://example.org"),
        (
            ("add", "a", "--origin", "https://example.org"),
            2,
            "add --publishable; a secret key belongs into no",
        ),
        (("add", "a", "--origin", "*"), 2, "'*' is no origin; write it as https://example.org"),
        (("add", "a", "--publishable", "--origin", "https://a.example/x"), 2, "'https://a.example/x' is no"),
        (
            ("add", "a", "--publishable", "--origin", "https://a.example", "--scopes", "chat"),
            2,
            "leave out --scopes; a key that everybody can read only lets visitors in.",
        ),
        ((), 2, "the following arguments are required: add|list|revoke"),
    ],
)
def test_a_mistake_is_told_with_its_mend(
    program: Program, home: Path, words: tuple[str, ...], code: int, told: str
) -> None:
    made(program, "shop")
    found, out, err = program("keys", *words)
    assert (found, out) == (code, "")
    assert told in err
