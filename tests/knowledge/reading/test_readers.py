from pathlib import Path

from pixi.knowledge.entry import Document, Section
from pixi.knowledge.reading import Readers, SetAside


async def test_a_file_is_read_by_another_process(readers: Readers, tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("# Title\n\nText.\n\n## Part\n\nMore.\n")
    assert await readers.read(path) == (
        Document("", "Title", (Section("Text.", line=3), Section("More.", heading="Part", line=7))),
    )


async def test_many_files_come_once_each(tmp_path: Path) -> None:
    paths = [tmp_path / f"{number}.md" for number in range(300)]
    for number, path in enumerate(paths):
        path.write_text(f"# {number}\n\nText.\n")
    missing = tmp_path / "gone.md"
    came = {}
    async with Readers() as readers:
        async for path, outcome in readers.read_many([*paths, missing]):
            assert path not in came
            came[path] = outcome
    fault = came.pop(missing)
    assert isinstance(fault, SetAside)
    assert fault.again
    for number, path in enumerate(paths):
        assert came[path] == (Document("", str(number), (Section("Text.", line=3),)),)
