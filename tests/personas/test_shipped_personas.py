"""The shipped personas: each loads without a remark, and each of its examples is what its author meant."""

from pathlib import Path

import pytest

from pixi.core.language import CommandEnded, CommandStream, Prose
from pixi.core.persona import Persona
from pixi.personas.files import find_persona, load_persona, shipped_folder

FILES = sorted(shipped_folder().glob("*.md"))


def acts(reply: str) -> list[CommandEnded]:
    stream = CommandStream()
    events = [*stream.feed(reply), *stream.close()]
    assert not [event for event in events if isinstance(event, Prose) and event.text.strip()]
    return [event for event in events if isinstance(event, CommandEnded)]


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def persona(request: pytest.FixtureRequest) -> Persona:
    path: Path = request.param
    loaded = load_persona(path)
    assert loaded.remarks == ()
    return loaded.persona


def test_three_are_shipped_and_one_does_not_speak_english() -> None:
    assert [path.stem for path in FILES] == ["edda", "laoqin", "pixi"]
    languages = {load_persona(path).persona.language for path in FILES}
    assert len(languages - {"en"}) == 1
    pixi = find_persona("pixi", [shipped_folder()])
    assert pixi.name == "Pixi"
    assert pixi.commands is None  # whoever adds a command finds that she uses it


def test_the_front_matter_is_whole(persona: Persona) -> None:
    assert persona.name
    assert persona.about
    assert persona.summon
    assert persona.likes
    assert persona.commands in (None, ("send", "note", "react"))
    assert persona.when_broken
    assert persona.when_tired
    assert Path(persona.avatar).is_file()
    assert Path(persona.avatar).stem == Path(persona.origin).stem
    assert persona.in_short.count(".") + persona.in_short.count("。") == 2
    assert len(persona.in_short) < 260


def test_every_reply_is_complete_commands_with_the_thought_first(persona: Persona) -> None:
    assert 5 <= len(persona.examples) <= 9
    for example in persona.examples:
        performed = acts(example.reply)
        assert len(performed) == len(example.reply.splitlines())
        assert all(command.complete and command.argument for command in performed)
        assert performed[0].name == "note"


def test_the_examples_show_a_reaction_silence_and_a_shrug(persona: Persona) -> None:
    replies = [[command.name for command in acts(example.reply)] for example in persona.examples]
    assert any("react" in names for names in replies)
    assert ["note"] in replies
    orders = [example for example in persona.examples if "nore " in example.said or "SYSTEM" in example.said]
    orders += [example for example in persona.examples if "忽略" in example.said]
    assert len(orders) == 1


def test_the_first_examples_suit_a_small_model(persona: Persona) -> None:
    greeting, name, question = persona.examples[:3]
    assert len(greeting.said) < 10
    assert name.said in ("who are you?", "你是谁？")
    assert question.said.endswith(("?", "？"))
    for example in persona.examples[:3]:
        assert len(example.reply) < 200
        assert [command.name for command in acts(example.reply)].count("send") >= 1


def test_their_habits_differ() -> None:
    pixi, edda = (find_persona(name, [shipped_folder()]) for name in ("pixi", "edda"))

    def sent(persona: Persona) -> list[list[str]]:
        turns = [acts(example.reply) for example in persona.examples]
        return [[command.argument for command in turn if command.name == "send"] for turn in turns]

    assert max(map(len, sent(pixi))) >= 2
    assert max(map(len, sent(edda))) == 1
    assert all(text == text.lower() for turn in sent(pixi) for text in turn)
    assert all(text[0].isupper() and text[-1] in ".?" for turn in sent(edda) for text in turn)
    assert all(text.isprintable() and text.isascii() for turn in sent(edda) for text in turn)
