"""`doctor`: each thing that can be wrong has its line, and what is right says so."""

import argparse
import asyncio
import json
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from pixi.app import databases
from pixi.app.command_integrations import GIF_BASES
from pixi.app.doctor import checks as doctor
from pixi.app.doctor import servers
from pixi.app.doctor.servers import Finding
from pixi.cli import doctor as doctor_command
from pixi.core import providers
from pixi.models import machine, weights
from pixi.settings import Settings, load
from pixi.store.opening import open_store
from pixi.store.sqlite import SqliteStore
from tests.cli.conftest import found_by
from tests.servers.postgres import Postgres
from tests.servers.scripted_embeddings import embeddings_server
from tests.servers.scripted_gifs import KEY, gif_services, moving
from tests.servers.scripted_openai import error
from tests.store.test_damage import PAGE, filled, harmed

Serve = Callable[[int, object], str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts a server that gives one answer to a listing of models; gives its base URL."""
    servers: list[ThreadingHTTPServer] = []

    def start(status: int, answer: object) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = json.dumps(answer).encode()
                self.send_response(status if self.path == "/v1/models" else 404)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                """Say nothing."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,)).start()
        servers.append(server)
        return f"http://127.0.0.1:{server.server_port}/v1"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def models(*names: str) -> object:
    return {"object": "list", "data": [{"id": name, "object": "model"} for name in names]}


def settings(folder: Path, **values: object) -> Settings:
    overrides = {key.replace("__", "."): value for key, value in values.items()}
    return load(environ={}, folder=folder, overrides=overrides)


async def findings(check: doctor.Check, settings: Settings) -> list[Finding]:
    return [finding async for finding in check(settings)]


async def only(check: doctor.Check, settings: Settings) -> Finding:
    (finding,) = await findings(check, settings)
    return finding


async def test_a_model_that_the_server_lists(tmp_path: Path, serve: Serve) -> None:
    url = serve(200, models("small", "large"))
    found = await only(servers.check_model, settings(tmp_path, model__name="small", model__base_url=url))
    assert str(found).startswith("ok   model — small at 127.0.0.1:")
    assert str(found).endswith(" (size unknown: whole prompt, tools)")
    given = {"model__name": "small", "model__base_url": url, "model__parameters": 1.5}
    assert str(await only(servers.check_model, settings(tmp_path, **given))).endswith(
        "(1.5B: whole prompt, no tools)"
    )


async def test_the_models_beside_it_are_looked_for_too(tmp_path: Path, serve: Serve) -> None:
    url = serve(200, models("small", "large"))
    given = {"model__name": "small", "model__base_url": url, "helper_model__name": "tiny"}
    (found,) = await findings(servers.check_other_models, settings(tmp_path, **given))
    assert str(found).startswith("fail helper_model — 127.0.0.1:")
    assert "does not list tiny" in found.text
    given["helper_model__name"] = "large"
    (found,) = await findings(servers.check_other_models, settings(tmp_path, **given))
    assert str(found).startswith("ok   helper_model — large at 127.0.0.1:")
    del given["helper_model__name"]
    assert await findings(servers.check_other_models, settings(tmp_path, **given)) == []


async def test_each_model_of_a_list_is_looked_for(tmp_path: Path, serve: Serve) -> None:
    url, nobody = serve(200, models("small", "other")), "http://127.0.0.1:1/v1"
    (tmp_path / "pixi.toml").write_text(
        f'[model]\nname = "small"\nbase_url = "{url}"\n[[model.fallback]]\nname = "other"\n'
        f'[[model.fallback]]\nname = "far"\nbase_url = "{nobody}"\n'
        '[helper_model]\nname = "other"\n[[helper_model.fallback]]\nname = "local"\n'
    )
    given = load(environ={}, folder=tmp_path)
    found = [str(each) async for each in servers.check_model(given)]
    assert [line.partition(" — ")[0] for line in found] == [
        "ok   model",
        "ok   model.fallback 1",
        "fail model.fallback 2",
    ]
    assert "Nothing answers at 127.0.0.1:1" in found[2]
    others = [str(each) async for each in servers.check_other_models(given)]
    assert others[0].startswith("ok   helper_model — other at ")
    assert "helper_model.fallback 1 — " in others[1]


async def test_a_model_of_meanings_is_asked_for_a_vector(tmp_path: Path) -> None:
    assert await findings(servers.check_embedding_model, settings(tmp_path)) == []
    async with embeddings_server() as server:
        given = {"embedding_model__name": "e", "embedding_model__base_url": server.base_url}
        found = await only(servers.check_embedding_model, settings(tmp_path, **given))
        assert str(found) == "ok   embedding_model — e: vectors of 64 dimensions"
        server.failing.append(error(401, "no such key"))
        found = await only(servers.check_embedding_model, settings(tmp_path, **given))
        assert (found.ok, "API_KEY" in found.text) == (False, True)


async def test_a_model_that_it_does_not_list(tmp_path: Path, serve: Serve) -> None:
    url = serve(200, models("small", "large"))
    found = await only(servers.check_model, settings(tmp_path, model__name="smal", model__base_url=url))
    assert not found.ok
    assert "does not list smal: do you mean small?" in found.text
    found = await only(servers.check_model, settings(tmp_path, model__name="qqq", model__base_url=url))
    assert "set model.name to one of small, large." in found.text


async def test_a_server_with_one_model_needs_no_name(tmp_path: Path, serve: Serve) -> None:
    one = settings(tmp_path, model__base_url=serve(200, models("only")))
    assert (await only(servers.check_model, one)).text.startswith("only at 127.0.0.1")
    two = settings(tmp_path, model__base_url=serve(200, models("a", "b")))
    assert "has several models: set model.name to one of a, b." in (await only(servers.check_model, two)).text
    none = settings(tmp_path, model__base_url=serve(200, models()))
    assert "lists no model" in (await only(servers.check_model, none)).text


async def test_a_key_that_is_refused(tmp_path: Path, serve: Serve) -> None:
    url = serve(
        401, {"error": {"message": "Incorrect API key provided: canary-key", "code": "invalid_api_key"}}
    )
    found = await only(
        servers.check_model,
        settings(tmp_path, model__name="m", model__base_url=url, model__api_key="canary-key"),
    )
    assert not found.ok
    assert "refused the key" in found.text
    assert "canary" not in found.text


async def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    gone = settings(tmp_path, model__name="m", model__base_url="http://127.0.0.1:9/v1")
    found = await only(servers.check_model, gone)
    assert not found.ok
    assert "127.0.0.1:9" in found.text


async def test_a_runtime_that_is_not_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda name: None)
    found = await only(servers.check_model, settings(tmp_path))
    assert str(found) == (
        "fail model — the runtime of local models is missing: pip install 'pixi-persona[local]'"
    )


async def test_a_gguf_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda name: object())
    path = tmp_path / "mine.gguf"
    mine = settings(tmp_path, model__name=str(path))
    missing = await only(servers.check_model, mine)
    assert not missing.ok
    assert str(missing).count("\n") == 0
    path.write_bytes(b"<html>")
    assert "is not a GGUF file" in (await only(servers.check_model, mine)).text
    path = path.rename(tmp_path / "mine-0.5b.gguf")
    path.write_bytes(b"GGUF....")
    mine = settings(tmp_path, model__name=str(path))
    assert str(await only(servers.check_model, mine)).endswith(
        "mine-0.5b.gguf (500M: short prompt, no tools)"
    )


async def test_the_bundled_model_is_there_or_still_to_be_fetched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers, "find_spec", lambda name: object())
    monkeypatch.setattr(weights, "installed", lambda: None)
    monkeypatch.setattr(weights, "cached", lambda: None)
    absent = await only(servers.check_model, settings(tmp_path))
    assert absent.ok
    assert "are fetched at the first start" in absent.text
    monkeypatch.setattr(weights, "cached", lambda: tmp_path / "small.gguf")
    assert (await only(servers.check_model, settings(tmp_path))).text == (
        "the bundled one, small.gguf (size unknown: whole prompt, tools)"
    )


async def test_keys(tmp_path: Path) -> None:
    assert (await only(doctor.check_key, settings(tmp_path))).text == "a model on this machine needs none"
    hosted = await only(doctor.check_key, settings(tmp_path, model__name="gpt"))
    assert str(hosted) == "fail key — there is none: set OPENAI_API_KEY in the environment or in .env"
    own = settings(tmp_path, model__name="m", model__base_url="http://localhost:1/v1")
    assert (await only(doctor.check_key, own)).ok
    keyed = load(environ={"OPENAI_API_KEY": "canary"}, folder=tmp_path, overrides={"model.name": "gpt"})
    assert str(await only(doctor.check_key, keyed)) == "ok   key — set by OPENAI_API_KEY"


async def test_personas(tmp_path: Path) -> None:
    found = await only(doctor.check_personas, settings(tmp_path))
    assert found.ok
    assert "Pixi answers by default" in found.text

    folder = tmp_path / "personas"
    folder.mkdir()
    (folder / "broken.md").write_text("---\nnmae: X\n---\nHello.")
    broken = await findings(doctor.check_personas, settings(tmp_path))
    assert [finding.ok for finding in broken] == [False, True]
    assert "broken.md" in broken[0].text

    (missing,) = [
        finding
        for finding in await findings(doctor.check_personas, settings(tmp_path, persona__default="pixie"))
        if "pixie" in finding.text
    ]
    assert not missing.ok
    no_folder = await only(doctor.check_personas, settings(tmp_path, persona__folder="gone"))
    assert not no_folder.ok


async def test_all_that_keeps_personas_from_starting_is_told_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "personas").mkdir()
    (tmp_path / "personas" / "a.md").write_text("---\npace: x\nnmae: y\ntools: [convert]\n---\nHi.")
    (tmp_path / "personas" / "b.md").write_text("---\ndatabases: [gone]\ntools: [convert]\n---\nHi.")
    (tmp_path / "elsewhere.md").write_text("---\nname: C\ncommands: [send]\n---\nHi.")
    here = settings(tmp_path, persona__default=str(tmp_path / "elsewhere.md"), databases__names="pancakes")
    *faults, last = await findings(doctor.check_personas, here)
    assert [finding.ok for finding in faults] == [False] * 5
    places = [finding.text.removeprefix(f"{tmp_path}/").split(": ")[0] for finding in faults]
    assert places == [
        "personas/a.md:2",
        "personas/a.md:3",
        "personas/b.md:2",
        "personas/b.md:3",
        "personas/a.md:4",
    ]
    assert last.ok
    assert "C answers by default; 2 remarks" in last.text  # of those that come with Pixi
    default = await findings(doctor.check_personas, settings(tmp_path, databases__names="pancakes"))
    assert any("pixi.md" in finding.text and "pixi-manual" in finding.text for finding in default)
    assert not any(finding.ok for finding in default)


async def test_databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "EACH_SECONDS", 60.0)  # a loaded machine may need more than three
    monkeypatch.setattr(databases, "ALL_SECONDS", 60.0)
    place = tmp_path / "databases"
    for name in ("good", "mixed", "empty"):
        (place / name).mkdir(parents=True)
    (place / "good" / "a.md").write_text("# A\n\nbread")
    (place / "mixed" / "a.md").write_text("# A\n\nbread")
    for name in ("b", "c"):
        (place / "mixed" / f"{name}.json").write_text("{")
    here = settings(tmp_path, databases__names="good, mixed, empty")
    good, mixed, empty = await findings(doctor.check_databases, here)
    assert str(good) == "ok   databases — good: 1 entry"
    assert str(empty) == f"ok   databases — empty: 0 entries; put documents into {place / 'empty'}"
    assert str(mixed).startswith("fail databases — mixed: 1 entry; set aside: b.json: ")
    assert str(mixed).endswith("; and 1 more, see `pixi-persona databases`")


async def test_a_database_that_is_not_there(tmp_path: Path) -> None:
    found = await only(doctor.check_databases, settings(tmp_path, databases__names="pancaks"))
    assert not found.ok
    assert found.text.endswith("do you mean `pancakes`?")


async def test_stores(tmp_path: Path) -> None:
    path = tmp_path / "pixi.db"
    here = settings(tmp_path, store__url=f"sqlite:///{path}")
    assert str(await only(doctor.check_store, here)) == f"ok   store — {path} will be made at the first talk"
    assert not path.exists()
    await (await SqliteStore.open(path)).close()
    assert (await only(doctor.check_store, here)).text == f"{path} is whole"
    path.write_text("dear diary, " * 500)
    assert not (await only(doctor.check_store, here)).ok
    assert path.read_text().startswith("dear diary")
    gone = settings(tmp_path, store__url=f"sqlite:///{tmp_path}/gone/pixi.db")
    assert "make it" in (await only(doctor.check_store, gone)).text
    assert not (await only(doctor.check_store, settings(tmp_path, store__url="postgresql://me@host/db"))).ok
    assert (await only(doctor.check_store, settings(tmp_path, store__url=":memory:"))).ok


@pytest.mark.nightly
async def test_a_store_on_a_server(tmp_path: Path, postgres: Postgres) -> None:
    with postgres.schema() as schema:
        here = settings(tmp_path, store__url=postgres.url(schema))
        found = await only(doctor.check_store, here)
        assert found.ok
        assert found.text.endswith(f"&schema={schema}: its tables will be made at the first talk")
        store = await open_store(here.store.url)
        assert await only(doctor.check_store, here) == servers.Finding(
            True, "store", f"{store.name} is whole"
        )
        await store.close()
    wrong = settings(tmp_path, store__url="postgresql://me:canary@127.0.0.1:1/db")
    found = await only(doctor.check_store, wrong)
    assert not found.ok
    assert "no server answers there" in found.text
    assert "canary" not in found.text


async def test_a_store_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE recipes (name)")
    path.chmod(0o600)
    found = await only(doctor.check_store, settings(tmp_path, store__url=f"sqlite:///{path}"))
    assert "another program" in found.text


async def test_addons(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert await findings(doctor.check_addons, settings(tmp_path)) == []
    (tmp_path / "kitchen.py").write_text(
        "print('canary')\n"
        "def setup(addon):\n    @addon.tool\n    async def convert(context) -> str:\n        'Do it.'\n"
    )
    (tmp_path / "broken.py").write_text("1/0")
    found = await findings(doctor.check_addons, settings(tmp_path, addons="kitchen.py, broken.py, gone.py"))
    assert [str(each).replace(f"{tmp_path}/", "") for each in found] == [
        "ok   addons — kitchen.py: convert",
        "fail addons — broken.py: ZeroDivisionError: division by zero (line 1)",
        "fail addons — gone.py: there is no file gone.py; check the path.",
    ]
    assert capsys.readouterr().out == ""


def run(config: Path | None = None) -> int:
    return doctor_command.run(argparse.Namespace(config=config, cluster=False))


async def test_pages_of_the_web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pixi.app import tool_integrations

    assert await findings(servers.check_web_pages, settings(tmp_path)) == []
    given = settings(tmp_path, web_pages__read=True, web_pages__robots=False)
    assert str(await only(servers.check_web_pages, given)) == (
        "ok   web_pages — read_page: pages of up to 5 MB; robots.txt is not looked at"
    )
    monkeypatch.setattr(tool_integrations, "find_spec", lambda name: None)
    found = await only(servers.check_web_pages, given)
    assert (found.ok, 'pip install "pixi-persona[web]"' in found.text) == (False, True)


async def test_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert await findings(servers.check_gifs, settings(tmp_path)) == []
    given = settings(tmp_path, gifs__engine="folder")
    assert "there is no such folder; make it" in (await only(servers.check_gifs, given)).text
    (tmp_path / "gifs").mkdir()
    empty = await only(servers.check_gifs, given)
    assert (empty.ok, "put some there" in empty.text) == (False, True)
    for number in range(3):
        (tmp_path / "gifs" / f"cat {number}.gif").write_bytes(moving())
    assert str(await only(servers.check_gifs, given)) == f"ok   gifs — 3 pictures in {tmp_path / 'gifs'}"
    without = await only(servers.check_gifs, settings(tmp_path, gifs__engine="giphy"))
    assert "PIXI_GIFS__API_KEY=" in without.text
    async with gif_services() as services:
        monkeypatch.setitem(GIF_BASES, "klipy", services.base)
        given = settings(tmp_path, gifs__engine="klipy", gifs__api_key=KEY)
        found = await only(servers.check_gifs, given)
        assert str(found).startswith("ok   gifs — KLIPY takes the key, set by ")
        given = settings(tmp_path, gifs__engine="klipy", gifs__api_key="wrong-1")
        wrong = await only(servers.check_gifs, given)
        assert str(wrong) == "fail gifs — KLIPY does not take the key; see gifs.api_key."


def test_the_report_ends_with_1_if_anything_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], serve: Serve
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "databases" / "notes").mkdir(parents=True)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DISCORD_TOKEN", "PIXI_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(machine, "KNOWN_SERVERS", ())
    monkeypatch.setattr(providers, "PROVIDERS", ())
    url = serve(200, models("small"))
    model = f'persona.default = "edda"\ndatabases.names = ["notes"]\nmodel.base_url = "{url}"\n'
    Path("pixi.toml").write_text(f'{model}model.name = "small"\n')
    assert run() == 0
    told = capsys.readouterr().out.splitlines()
    assert [line.split(" — ")[0] for line in told if not line.startswith("ok   user")] == [
        f"ok   {subject}"
        for subject in (
            "settings",
            "key",
            "model",
            "found",
            "personas",
            "databases",
            "readers",
            "store",
            "limits",
            "limits",
            "discord",
        )
    ]
    assert not Path("pixi.db").exists()

    Path("pixi.toml").write_text(f'{model}model.name = "large"\n')
    assert run() == 1
    assert "fail model — " in capsys.readouterr().out

    Path("pixi.toml").write_text("[modle]\n[reply]\nprose = 5\npace = 5\n")
    assert run() == 1
    told = [line.partition(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert told == [f"fail settings — pixi.toml, line {number}" for number in (1, 3, 4)]
    assert run(Path("gone.toml")) == 1
    assert capsys.readouterr().out.startswith("fail settings — gone.toml: there is no such file")


def test_a_check_can_be_added_to_the_list(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def check_tea(settings: Settings) -> AsyncIterator[Finding]:
        yield Finding(False, "tea", "there is none: boil water")

    monkeypatch.setattr(doctor, "checks", lambda progress, cluster: (check_tea,))
    monkeypatch.chdir(tmp_path)
    assert run() == 1
    assert capsys.readouterr().out == "fail tea — there is none: boil water\n"


def test_a_damaged_store_is_set_aside_and_told_of(home: Path) -> None:
    asyncio.run(filled(home / "pixi.db", 20))
    root = harmed(home / "pixi.db", [(home / "pixi.db").stat().st_size // PAGE // 2])
    told = found_by(doctor.check_store)[0]
    assert told.startswith("fail store — The store pixi.db was damaged. It is kept as pixi.db.damaged-")
    (aside,) = home.glob("pixi.db.damaged-*")
    assert aside.read_bytes() == root
    whole, told = found_by(doctor.check_store)
    assert whole == "ok   store — pixi.db is whole"
    assert told.startswith(f"ok   store — {aside.name} was set aside because it is damaged; delete it when")


@pytest.mark.skipif(sys.platform == "win32", reason="permissions of POSIX")
def test_a_store_that_others_may_read_is_told_of(home: Path) -> None:
    asyncio.run(filled(home / "pixi.db", 1))
    (home / "pixi.db").chmod(0o644)
    said = "fail store — others on this machine may read pixi.db: chmod 600 pixi.db"
    assert any(line.startswith(said) for line in found_by(doctor.check_store))


@pytest.mark.parametrize(("cluster", "imported"), [(False, ""), (True, "pixi.app.cluster.state")])
def test_gateways_and_workers_are_imported_where_they_are_asked_about(cluster: bool, imported: str) -> None:
    code = (
        "import sys; from pixi.app.doctor.checks import checks; "
        f"checks(cluster={cluster}); print(*sys.modules.keys() & {{'pixi.app.cluster.state'}})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == imported
