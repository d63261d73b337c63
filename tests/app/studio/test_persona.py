"""Personas on a page: files are read and saved whole, by name alone; a text is checked and tried unsaved."""

import asyncio
import io
import json
import os
import subprocess
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from yarl import URL

from pixi.app.studio import persona
from tests.app.scene import persona_file
from tests.app.studio.desk import Desk, desk_in
from tests.servers.scripted_openai import Reply, Seen, finish, stream, usage

TEXT = "---\nname: Wren\nabout: pushes a trolley\n---\n\nYou are Wren.\n"
PRICES = "[prices]\nfirst = { prompt = 1.0, completion = 2.0 }\n"


def echo(seen: Seen) -> Reply:
    """A model that says how its prompt begins."""
    prompt = str(seen.json()["messages"][0]["content"])
    return stream(f"[SEND: {prompt.splitlines()[0]}]", finish(), usage(100, 10))


@pytest.fixture
async def studio(tmp_path: Path) -> AsyncGenerator[Desk, None]:
    persona_file(tmp_path, "wren", TEXT)
    async with desk_in(
        tmp_path, [persona.routes], "[prices]\nfirst = { prompt = 1.0, completion = 2.0 }\n", choose=echo
    ) as it:
        yield it


async def saved(studio: Desk, text: str, digest: str, name: str = "wren") -> tuple[int, dict[str, object]]:
    return await studio.ask("PUT", f"personas/{name}", {"text": text, "digest": digest})


async def test_the_list_tells_what_the_command_line_tells(studio: Desk) -> None:
    told = await studio.get("personas")
    ids = [each["id"] for each in told["personas"]]
    assert ids == ["wren", "edda", "laoqin", "pixi"]
    assert [each["own"] for each in told["personas"]] == [True, False, False, False]
    assert [each["default"] for each in told["personas"]] == [False, False, False, True]
    assert all(each["live"] for each in told["personas"])
    files = [each["persona"] for each in told["personas"]]
    assert studio.from_here(files) == await studio.printed("personas")


async def test_what_is_saved_is_live_at_once(studio: Desk) -> None:
    file = await studio.get("personas/wren")
    assert (file["text"], file["live"], file["read_only"]) == (TEXT, True, "")
    status, after = await saved(studio, TEXT.replace("trolley", "cart"), file["digest"])
    assert status == 200
    assert after["live"] is True
    assert after["digest"] != file["digest"]
    assert studio.service.personas["wren"].about == "pushes a cart"
    assert (studio.folder / "personas" / "wren.md").read_text() == TEXT.replace("trolley", "cart")
    assert [each.name for each in (studio.folder / "personas").iterdir()] == ["wren.md"]


async def test_what_the_house_does_not_take_is_saved_and_told(studio: Desk) -> None:
    file = await studio.get("personas/wren")
    status, after = await saved(studio, TEXT.replace("about", "abuot"), file["digest"])
    assert (status, after["live"]) == (200, False)
    assert "do you mean `about`?" in str(after["why"])
    assert studio.service.personas["wren"].about == "pushes a trolley"
    named = TEXT.replace("about:", "tools: [teapot]\nabout:")
    status, after = await saved(studio, named, str(after["digest"]))
    assert (status, after["live"]) == (200, False)
    assert "no tool 'teapot'" in str(after["why"])


async def test_a_change_on_the_disk_is_shown_and_not_overwritten(studio: Desk) -> None:
    file = await studio.get("personas/wren")
    path = studio.folder / "personas" / "wren.md"
    path.write_text(TEXT + "By hand.\n")
    status, detail = await studio.refused("PUT", "personas/wren", {"text": "mine", "digest": file["digest"]})
    assert (status, "was changed meanwhile" in detail) == (409, True)
    assert path.read_text() == TEXT + "By hand.\n"
    again = await studio.get("personas/wren")
    assert again["text"] == TEXT + "By hand.\n"
    status, after = await saved(studio, TEXT, again["digest"])
    assert status == 200
    path.unlink()
    asked = {"text": TEXT, "digest": after["digest"]}
    assert (await studio.refused("PUT", "personas/wren", asked))[0] == 404
    assert not path.exists(), "it is not made anew"


async def test_of_two_saves_at_once_one_is_told(studio: Desk) -> None:
    digest = (await studio.get("personas/wren"))["digest"]
    texts = [f"{TEXT}Number {number}.\n" for number in range(6)]
    answers = await asyncio.gather(*(saved(studio, text, digest) for text in texts))
    assert sorted(status for status, _ in answers) == [200, 409, 409, 409, 409, 409]
    (kept,) = [text for text, (status, _) in zip(texts, answers, strict=True) if status == 200]
    assert (studio.folder / "personas" / "wren.md").read_text() == kept


async def test_mark_line_ends_and_mode_stay(studio: Desk) -> None:
    path = studio.folder / "personas" / "wren.md"
    path.chmod(0o640)
    for raw, text, expected in (
        (b"\xef\xbb\xbfYou\r\nare\r\n", "You\nare new\n", b"\xef\xbb\xbfYou\r\nare new\r\n"),
        (b"a\r\nb\nc\r\nd", "a\nB\nc\nd", b"a\r\nB\r\nc\r\nd"),
        (b"a\rb\r", "a\nx\nb\n", b"a\rx\rb\r"),
        (b"a\n", "", b""),
        (b"", "a\n", b"a\n"),
        ("ä\n茶\n".encode(), "ä\n茶🍵\n", "ä\n茶🍵\n".encode()),
    ):
        path.write_bytes(raw)
        file = await studio.get("personas/wren")
        unchanged = raw.removeprefix(b"\xef\xbb\xbf").decode().replace("\r\n", "\n").replace("\r", "\n")
        assert file["text"] == unchanged
        status, after = await saved(studio, text, file["digest"])
        assert (status, after["text"]) == (200, text)
        assert path.read_bytes() == expected
        assert path.stat().st_mode & 0o777 == 0o640


async def test_no_name_leads_elsewhere(studio: Desk) -> None:
    (studio.folder / "pixi.md").write_text("You are outside.\n")
    names = ("..%2Fpixi", "%2Fetc%2Fpasswd", "..", "wren.md", "%00", "wren%2F..%2Fwren", "WREN", "README")
    for method, tail, body in (
        ("GET", "", None),
        ("PUT", "", {"text": "x", "digest": ""}),
        ("POST", "/draft", {"text": "x"}),
        ("GET", "/history", None),
    ):
        for name in names:
            url = URL(f"{studio.url}/api/studio/personas/{name}{tail}", encoded=True)
            async with studio.http.request(method, url, json=body, headers=studio.headers) as answer:
                assert answer.status in (404, 405), (method, name, tail, await answer.text())
    assert (studio.folder / "pixi.md").read_text() == "You are outside.\n"


async def test_what_came_with_pixi_is_read_only_and_can_be_copied(studio: Desk) -> None:
    file = await studio.get("personas/edda")
    assert "copy it to your own personas" in file["read_only"]
    status, _ = await studio.refused("PUT", "personas/edda", {"text": "x", "digest": file["digest"]})
    assert status == 403
    mine = await studio.post("personas", {"id": "edda", "like": "edda"})
    assert (mine["read_only"], mine["live"]) == ("", True)
    assert mine["text"] == file["text"]
    assert (studio.folder / "personas" / "edda.png").is_file()
    assert (await studio.refused("POST", "personas", {"id": "Edda"}))[0] == 409


async def test_a_new_persona_comes_from_a_template_that_answers(studio: Desk) -> None:
    new = await studio.post("personas", {"id": "night-owl"})
    assert new["live"] is True
    assert studio.service.personas["night-owl"].name == "Night Owl"
    examined = await studio.post("personas/night-owl/draft", {"text": new["text"]})
    assert examined["problems"] == []
    for name in ("../x", "a/b", "", ".hidden", "readme", "a b", "x" * 70, "\ud83d", "a\0b"):
        status, _ = await studio.ask("POST", "personas", {"id": name})
        assert status in (400, 422), name


async def test_links_pipes_and_other_bytes_are_not_read(studio: Desk, tmp_path: Path) -> None:
    outside = tmp_path / "outside.md"
    outside.write_text("secret words\n")
    (studio.folder / "personas" / "out.md").symlink_to(outside)
    (studio.folder / "personas" / "twin.md").symlink_to("wren.md")
    for name in ("out", "twin"):
        file = await studio.get(f"personas/{name}")
        assert (file["text"], file["digest"]) == ("", "")
        assert "links are not followed" in file["unreadable"]
        status, _ = await studio.refused("PUT", f"personas/{name}", {"text": "x", "digest": ""})
        assert status == 403
    assert outside.read_text() == "secret words\n"
    assert (await studio.refused("POST", "personas", {"id": "copy", "like": "out"}))[0] == 409
    os.mkfifo(studio.folder / "personas" / "pipe.md")
    (studio.folder / "personas" / "bytes.md").write_bytes(b"\xff\xfe")
    assert "plain file" in (await studio.get("personas/pipe"))["unreadable"]
    assert "as UTF-8 first" in (await studio.get("personas/bytes"))["unreadable"]
    assert {"pipe", "bytes"} < {each["id"] for each in (await studio.get("personas"))["personas"]}


async def test_too_much_text_is_refused(studio: Desk) -> None:
    digest = (await studio.get("personas/wren"))["digest"]
    body = io.BytesIO(json.dumps({"text": "x" * 10_000_000, "digest": digest}).encode())
    async with studio.http.put(studio.at("personas/wren"), data=body, headers=studio.headers) as answer:
        assert answer.status == 413
    status, _ = await studio.refused("PUT", "personas/wren", {"text": "茶" * 100_000, "digest": digest})
    assert status == 422
    examined = await studio.post("personas/wren/draft", {"text": "茶" * 100_000})
    assert [(each["stops"], "too large" in each["text"]) for each in examined["problems"]] == [(True, True)]
    assert (studio.folder / "personas" / "wren.md").read_text() == TEXT


async def test_a_draft_has_the_faults_of_the_file_by_line(studio: Desk) -> None:
    text = (
        "---\nname: Edda\nlanguage: klingon!\ntools: [teapot]\ndatabases: [../../etc, pancaks]\n---\n\n"
        "You are {{nobody}}.\n\n## Examples\n\n> hi\n\nhello\n"
    )
    examined = await studio.post("personas/wren/draft", {"text": text})
    (studio.folder / "personas" / "wren.md").write_text(text)
    (line,) = [each for each in await studio.printed("personas") if "wren.md" in each["file"]]
    assert studio.from_here(examined["persona"]) == line
    assert [each["line"] for each in examined["problems"]] == [3, 4, 5, 5]
    assert all(each["stops"] for each in examined["problems"])
    assert examined["prompt"]["tokens"] > 100
    assert set(studio.service.library.databases) == {"pancakes", "pixi-manual", "茶"}


async def test_the_prompt_is_told_by_sections(studio: Desk) -> None:
    text = "You are {{user}}'s Wren.\n\n## Commands\n\nNone of mine.\n\n## Examples\n\n> hi\n\n[SEND: ho]\n"
    prompt = (await studio.post("personas/wren/draft", {"text": text}))["prompt"]
    titles = [each["title"] for each in prompt["sections"]]
    assert titles[:4] == ["", "In this chat", "Commands", "What people write"]
    assert titles[4].startswith("Examples of how you write")
    first = prompt["sections"][0]
    assert "None of mine." in first["text"]
    assert "{{user}}" not in first["text"]
    assert "[SEND: " in prompt["sections"][2]["text"]
    assert "> hi" in prompt["sections"][4]["text"]
    assert prompt["tokens"] == sum(each["tokens"] for each in (*prompt["sections"], *prompt["tools"]))
    remembers = text.replace("You are", "---\ntools: [remember]\n---\nYou are")
    prompt = (await studio.post("personas/wren/draft", {"text": remembers}))["prompt"]
    assert [each["name"] for each in prompt["tools"]] == ["remember"]


async def test_a_text_answers_before_it_is_saved(studio: Desk) -> None:
    def draft(prompt: str) -> dict[str, str]:
        return {"text": f"---\nname: Wren\n---\n{prompt}\n", "message": "hi", "talk": "t1"}

    events = await studio.stream("personas/wren/draft/talk", draft("I am the first draft."))
    kinds = [each["event"] for each in events]
    assert kinds[0] == "turn_start"
    assert kinds[-2:] == ["turn_end", "report"]
    assert [each["text"] for each in events if each["event"] == "send"] == ["I am the first draft."]
    assert events[-1]["cost"] > 0
    events = await studio.stream("personas/wren/draft/talk", draft("I am the second draft."))
    assert [each["text"] for each in events if each["event"] == "send"] == ["I am the second draft."]
    said = [str(each["content"]) for each in studio.model.requests[-1].json()["messages"]]
    assert any("I am the first draft." in each for each in said[1:])
    assert (studio.folder / "personas" / "wren.md").read_text() == TEXT


async def test_such_a_talk_is_kept_nowhere_and_paid_for(studio: Desk) -> None:
    body = {"text": TEXT, "message": "hi, this is a secret", "talk": "t1"}
    await studio.stream("personas/wren/draft/talk", body)
    bill = await studio.service.engine.bill()
    assert bill.month.usage.prompt_tokens == 100
    assert bill.month.cost > 0
    await studio.service.engine.drain(5)
    for path in studio.folder.glob("pixi.db*"):
        assert b"this is a secret" not in path.read_bytes()
    assert (await studio.ask("DELETE", "personas/wren/draft/talk?talk=t1"))[0] == 200
    await studio.stream("personas/wren/draft/talk", body)
    assert len(studio.model.requests[-1].json()["messages"]) == 2


async def test_what_cannot_answer_is_refused_before_anything_is_asked(studio: Desk) -> None:
    for text, mend in (
        ("", "the file is empty"),
        ("---\ntools: [teapot]\n---\nYou are Wren.\n", "no tool 'teapot'"),
        ("---\ndatabases: [../../etc]\n---\nYou are Wren.\n", "there is no database"),
    ):
        body = {"text": text, "message": "hi", "talk": "t"}
        (refused,) = await studio.stream("personas/wren/draft/talk", body)
        assert mend in refused["error"]
    assert studio.model.requests == []


async def test_tools_that_change_something_are_not_offered_there(studio: Desk) -> None:
    text = "---\ntools: [remember, recall]\n---\nYou are Wren.\n"
    await studio.stream("personas/wren/draft/talk", {"text": text, "message": "hi", "talk": "t"})
    tools = studio.model.requests[-1].json()["tools"]
    assert [each["function"]["name"] for each in tools] == ["recall"]


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=Mo", "-c", "user.email=mo@example.org", "-c", "init.defaultBranch=main")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


async def test_the_history_is_that_of_git(studio: Desk) -> None:
    assert (await studio.get("personas/wren/history"))["commits"] == []
    git(studio.folder, "init")
    git(studio.folder, "add", "personas")
    git(studio.folder, "commit", "-m", "Let Wren in")
    persona_file(studio.folder, "wren", TEXT.replace("trolley", "cart"))
    git(studio.folder, "commit", "-am", "Give her a cart \x1b[31m")
    commits = (await studio.get("personas/wren/history"))["commits"]
    assert [each["subject"] for each in commits] == ["Give her a cart \\x1b[31m", "Let Wren in"]
    diff = (await studio.get(f"personas/wren/history/{commits[0]['id']}"))["diff"]
    assert "-about: pushes a trolley\n+about: pushes a cart" in diff
    for commit in ("HEAD", "--output=x", "0" * 40):
        assert (await studio.refused("GET", f"personas/wren/history/{commit}"))[0] == 404
    assert not (studio.folder / "personas" / "x").exists()


async def test_nothing_that_a_repository_names_is_run(studio: Desk) -> None:
    git(studio.folder, "init")
    (studio.folder / ".gitattributes").write_text("*.md diff=evil filter=evil\n")
    git(studio.folder, "add", ".")
    git(studio.folder, "commit", "-m", "Let Wren in")
    trap = f"sh -c 'touch {studio.folder}/run'"
    for name in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "diff.evil.command",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.smudge",
        "filter.evil.process",
        "gpg.program",
        "core.editor",
    ):
        git(studio.folder, "config", name, trap)
    git(studio.folder, "config", "log.showSignature", "true")
    (commit,) = (await studio.get("personas/wren/history"))["commits"]
    assert "You are Wren." in (await studio.get(f"personas/wren/history/{commit['id']}"))["diff"]
    assert not (studio.folder / "run").exists()
