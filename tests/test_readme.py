"""The README keeps its word, and stays short enough for somebody with thirty seconds."""

from pathlib import Path

from pixi.core.language import CommandEnded, CommandStream
from pixi.personas.files import LoadedPersona, list_personas, load_persona, shipped_folder
from tests.pages import ROOT, blocks, read_page, section

README = read_page(ROOT / "README.md")
CHARACTER = "A character of your own"


def test_it_has_no_more_than_1400_words() -> None:
    assert len(README.split()) <= 1_400


def test_the_first_example_is_commands() -> None:
    first = blocks(README)[0].text
    stream = CommandStream()
    events = [*stream.feed(first), *stream.close()]
    ended = [event for event in events if isinstance(event, CommandEnded)]
    assert [event.name for event in ended] == ["note", "react", "send", "send"]
    assert all(event.complete for event in ended)


def test_the_persona_is_read_without_a_remark(tmp_path: Path) -> None:
    file = tmp_path / "mathilde.md"
    (persona,) = blocks(section(README, CHARACTER), "markdown")
    file.write_text(persona.text, encoding="utf-8")
    loaded = load_persona(file)
    assert loaded.remarks == ()
    assert loaded.persona.name == "Mathilde"
    assert [example.said for example in loaded.persona.examples] == ["hello!"]


def test_the_personas_that_come_along_are_named() -> None:
    names = [
        found.persona.name for found in list_personas([shipped_folder()]) if isinstance(found, LoadedPersona)
    ]
    assert len(names) == 3
    assert all(f"**{name}**" in section(README, CHARACTER) for name in names)


def test_what_it_quotes_in_a_talk_stands_in_the_documents() -> None:
    talk = " ".join(blocks(section(README, "Start"))[1].text.split())
    for name, quoted in {"poffertjes": "Small puffed Dutch", "crepe": "A crêpe batter is as thin"}.items():
        told = talk[talk.index(quoted) :].partition('"')[0]
        document = read_page(ROOT / "databases" / "pancakes" / "kinds" / f"{name}.md")
        assert told in " ".join(document.split())


def test_each_figure_of_speed_stands_in_the_table() -> None:
    figures, told = read_page(ROOT / "BENCHMARKS.md"), section(README, "How fast")
    for number, figure in {
        "0.6 ms": "**0.56 / 1.12 ms**",
        "1.1 ms": "**0.56 / 1.12 ms**",
        "11 tokens": "**median 11, at most 12**",
        "4.6 ms": "**4.61 / 8.02 ms;",
        "0.14 s": "**137 ms**",
        "0.29 s": "**285 ms**",
        "79 MB": "**79 MB**",
    }.items():
        assert number in told
        assert figure in figures
