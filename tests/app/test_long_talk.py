"""A talk that gets too long, in a service over real sockets: who writes down what falls out of it."""

from pathlib import Path

from pixi.app.service import BotService
from pixi.testing import RecordingChannel
from tests.app.scene import message, persona_file, reading, service_in
from tests.servers.scripted_openai import Reply, ScriptedOpenAI, Seen, finish, stream
from tests.waiting import until

HEAD = "you remember of what was said here before:"


def writing(seen: Seen) -> Reply:
    """The one talks, the other writes down."""
    return stream("[SEND: fine]" if seen.json()["model"] == "big" else "Mo promised a cake.", finish())


def settings_file(folder: Path, server: ScriptedOpenAI, more: str) -> None:
    at = f'base_url = "{server.base_url}"\n'
    (folder / "pixi.toml").write_text(
        f'[model]\nname = "big"\n{at}context_tokens = 3000\n[helper_model]\nname = "cheap"\n{at}'
        f'context_tokens = 8192\n[store]\nurl = "sqlite:///{folder}/pixi.db"\n{more}'
    )


async def talk(service: BotService, first: int, last: int) -> None:
    channel = RecordingChannel()
    for number in range(first, last):
        await service.receive(message(number, f"{number} " + "x" * 200), channel)
        await service.engine.settled()


def asked(server: ScriptedOpenAI, model: str) -> list[str]:
    """What a model was shown behind its instructions, request by request."""
    requests = [seen.json() for seen in server.requests]
    told = [request["messages"][1:] for request in requests if request["model"] == model]
    return ["\n".join(message["content"] for message in messages) for messages in told]


async def test_the_helper_writes_down_what_falls_out_and_the_model_is_told_also_after_a_restart(
    tmp_path: Path,
) -> None:
    persona_file(tmp_path, "pixi")
    async with ScriptedOpenAI(choose=writing) as server:
        settings_file(tmp_path, server, "[history]\nsummary_tokens = 200\n")
        async with service_in(tmp_path) as service:
            await talk(service, 0, 5)
            assert asked(server, "cheap") == []
            number = 5
            while not asked(server, "cheap"):
                await talk(service, number, number + 1)
                number += 1
                assert number < 60
            conversations = service.engine._live.values()
            await until(lambda: not any(one.compaction.busy for one in conversations))
        (told,) = asked(server, "cheap")
        assert "> > 0 xxx" in told
        async with service_in(tmp_path) as service:
            await talk(service, number, number + 1)
        shown = asked(server, "big")[-1]
        assert shown.startswith(f"{HEAD}\n> Mo promised a cake.\n")
        assert "> 0 xxx" not in shown


async def test_where_it_is_switched_off_while_the_bot_runs_nothing_is_written_down(tmp_path: Path) -> None:
    persona_file(tmp_path, "pixi")
    async with ScriptedOpenAI(choose=writing) as server:
        settings_file(tmp_path, server, "")
        async with service_in(tmp_path) as service:
            settings_file(tmp_path, server, "[history]\nsummarize = false\n")
            await service.change(reading(tmp_path)(), service.persona_set)
            await talk(service, 0, 40)
        assert asked(server, "cheap") == []
        assert "> 0 xxx" not in asked(server, "big")[-1]
