"""`doctor` tells who searches the web, and whether each wiki can be asked."""

import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from pixi.app.doctor.servers import Finding, check_web_search, check_wikis
from pixi.settings import Settings, load
from pixi.web import search_engines
from tests.servers.model_faults import speaking_tls
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, answer
from tests.servers.scripted_wiki import Article, ScriptedWiki, refusal
from tests.servers.staged_web import Stage, StagedWeb


def settings(folder: Path, text: str, **values: object) -> Settings:
    (folder / "pixi.toml").write_text(text, encoding="utf-8")
    overrides: Mapping[str, object] = {key.replace("__", "."): value for key, value in values.items()}
    return load(environ={}, folder=folder, overrides=overrides)


async def searched(settings: Settings) -> list[Finding]:
    return [finding async for finding in check_web_search(settings)]


async def test_nothing_is_said_where_nobody_searches(tmp_path: Path) -> None:
    assert await searched(settings(tmp_path, "")) == []
    assert [finding async for finding in check_wikis(settings(tmp_path, ""))] == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[web_search]\nengine = "duckduckgo"', "ok   web_search — by DuckDuckGo, through ddgs "),
        (
            '[model]\nname = "gpt-5-mini"\n[web_search]\nengine = "native"\nprice = 0.01',
            "ok   web_search — by the provider of gpt-5-mini, within its reply, $0.01 a search",
        ),
        (
            '[model]\nname = "qwen"\nbase_url = "http://localhost:1/v1"\n[web_search]\nengine = "native"',
            "ok   web_search — qwen cannot search by itself: by DuckDuckGo, through ddgs ",
        ),
        (
            '[mcp.exa]\ncommand = "exa"\n[web_search]\nengine = "mcp"\ntool = "exa.search"',
            "ok   web_search — by the tool exa.search of an MCP server",
        ),
    ],
)
async def test_who_searches_is_told(tmp_path: Path, text: str, says: str) -> None:
    (finding,) = await searched(settings(tmp_path, text))
    assert str(finding).startswith(says)


async def test_a_missing_library_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search_engines, "find_spec", lambda _: None)
    (finding,) = await searched(settings(tmp_path, '[web_search]\nengine = "duckduckgo"'))
    assert not finding.ok
    assert 'pip install "pixi-persona[web]"' in finding.text


@pytest.mark.parametrize(
    ("reply", "ok", "says"),
    [
        (
            answer(200, {"results": [{"url": "https://a.example/", "title": "A"}]}),
            True,
            "by the SearXNG server at",
        ),
        (answer(200, {"results": []}), False, "finds nothing for 'pancakes'"),
        (answer(403, "no", "text/html"), False, "must add `json` to `formats`"),
    ],
)
async def test_a_server_of_ones_own_is_asked(tmp_path: Path, reply: Reply, ok: bool, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        url = server.base_url.removesuffix("/v1")
        text = f'[web_search]\nengine = "searxng"\nurl = "{url}"'
        (finding,) = await searched(settings(tmp_path, text))
    assert (finding.ok, says in finding.text) == (ok, True)


async def test_each_wiki_has_a_line(tmp_path: Path) -> None:
    async with ScriptedWiki({"A": Article("x")}) as fine, ScriptedWiki({}) as closed:
        closed.stands_in_the_way = lambda _: refusal("readapidenied", "You need read permission.")
        text = f'[wiki.blocks]\nurl = "{fine.url}"\n[wiki.secret]\nurl = "{closed.url}"\n'
        told = [str(finding) async for finding in check_wikis(settings(tmp_path, text))]
    assert told[0] == f"ok   wiki.blocks — Blocks Wiki at {fine.root}/w/api.php"
    assert told[1].startswith("fail wiki.secret — 127.0.0.1:")
    assert "logged in" in told[1]


@pytest.mark.parametrize("contact", ["", "mo@example.org"])
async def test_who_asks_wikipedia_is_told_to_say_who_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, contact: str
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    stage = Stage(tls=tls)
    monkeypatch.setattr("pixi.fetching.web.Web", lambda: StagedWeb(stage))
    async with ScriptedWiki({"A": Article("x")}, name="Wikipedia", tls=speaking_tls("own")) as english:
        stage.put("en.wikipedia.org", int(english.root.rpartition(":")[2]), as_port=443)
        english.host = "https://en.wikipedia.org"
        text = f'[wiki.wikipedia]\n[web_pages]\ncontact = "{contact}"\n'
        (told,) = [str(finding) async for finding in check_wikis(settings(tmp_path, text))]
    assert told.startswith(
        "ok   wiki.wikipedia — Wikipedia at https://en.wikipedia.org/w/api.php; each persona"
    )
    assert ("set `contact` in [web_pages]" in told) == (contact == "")
