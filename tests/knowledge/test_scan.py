"""What a walk over a folder finds: every document once, and nothing that lies elsewhere."""

import errno
import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest

from pixi.knowledge import registry
from pixi.knowledge.registry import describe, describes
from pixi.knowledge.scan import Walk


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what {path.name} says", encoding="utf-8")


def walked(folder: Path) -> tuple[list[str], Walk]:
    walk = Walk(Path(os.path.realpath(folder)))
    return [seen.path for seen in walk.files()], walk


def test_sub_folders_are_included_in_order_of_name(tmp_path: Path) -> None:
    put(tmp_path, "b.md", "a/z.TXT", "a/b/c.md", "c/data.json.zst")
    assert walked(tmp_path)[0] == ["b.md", "a/z.TXT", "a/b/c.md", "c/data.json.zst"]


def test_size_and_time_are_told(tmp_path: Path) -> None:
    put(tmp_path, "a.md")
    (seen,) = Walk(tmp_path).files()
    assert (seen.size, seen.mtime) == (14, (tmp_path / "a.md").stat().st_mtime_ns)


def test_what_is_hidden_is_no_document(tmp_path: Path) -> None:
    put(tmp_path, ".a.md", ".git/b.md", "a/.b/c.md", "~$d.md", "e.md")
    assert walked(tmp_path)[0] == ["e.md"]


@pytest.mark.parametrize(
    "name", ["README", "readme.md", "ReadMe.TXT", "README.rst", "_about.md", "_ABOUT.MD", "README.markdown"]
)
def test_a_description_is_no_document_at_the_top(tmp_path: Path, name: str) -> None:
    put(tmp_path, name, f"sub/{name}.md")
    assert walked(tmp_path)[0] == [f"sub/{name}.md"]
    assert describes(name)


@pytest.mark.parametrize("name", ["readme.pdf", "readme first.md", "about.md", "_about.md.bak", "reader.md"])
def test_other_names_describe_nothing(name: str) -> None:
    assert not describes(name)


def test_an_unknown_suffix_is_counted_and_no_fault(tmp_path: Path) -> None:
    put(tmp_path, "a.png", "b.PNG", "c", "d.md")
    paths, walk = walked(tmp_path)
    assert paths == ["d.md"]
    assert dict(walk.unknown) == {".png": 2, "": 1}
    assert not walk.faults


@pytest.mark.skipif(os.name == "nt", reason="such names cannot be there")
def test_a_name_that_is_no_unicode_is_a_fault_and_the_rest_is_found(tmp_path: Path) -> None:
    put(tmp_path, "a.md", "line\nbreak.md")
    try:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff.md")).write_text("?")
    except OSError:
        pytest.skip("this file system takes Unicode alone")
    paths, walk = walked(tmp_path)
    assert paths == ["a.md", "line\nbreak.md"]
    (fault,) = walk.faults
    assert "not Unicode" in fault.reason
    fault.path.encode()


@pytest.mark.skipif(os.name == "nt", reason="links need rights there")
class TestLinks:
    def test_out_of_the_folder_are_refused(self, tmp_path: Path) -> None:
        put(tmp_path, "secret.md", "outside/a.md", "inside/b.md")
        inside = tmp_path / "inside"
        (inside / "file.md").symlink_to(tmp_path / "secret.md")
        (inside / "relative.md").symlink_to("../secret.md")
        (inside / "folder").symlink_to(tmp_path / "outside")
        (inside / "up").symlink_to("..")
        (inside / "etc").symlink_to("/etc")
        paths, walk = walked(inside)
        assert paths == ["b.md"]
        paths = sorted(fault.path for fault in walk.faults)
        assert paths == ["etc", "file.md", "folder", "relative.md", "up"]
        assert all("leads out" in fault.reason for fault in walk.faults)

    def test_a_folder_beside_with_a_longer_name_is_outside(self, tmp_path: Path) -> None:
        put(tmp_path, "docs/a.md", "docs-private/b.md")
        (tmp_path / "docs" / "b.md").symlink_to(tmp_path / "docs-private" / "b.md")
        assert walked(tmp_path / "docs")[0] == ["a.md"]

    def test_circles_end_and_nothing_is_met_twice(self, tmp_path: Path) -> None:
        put(tmp_path, "a/b.md", "c.md")
        (tmp_path / "a" / "up").symlink_to("..")
        (tmp_path / "a" / "self").symlink_to(".")
        (tmp_path / "again").symlink_to("a")
        (tmp_path / "d.md").symlink_to("c.md")
        (tmp_path / "x").symlink_to("y")
        (tmp_path / "y").symlink_to("x")
        (tmp_path / "z.md").symlink_to("nowhere.md")
        paths, walk = walked(tmp_path)
        assert paths == ["c.md", "a/b.md"]
        assert not walk.faults

    def test_a_hidden_place_inside_is_followed_once(self, tmp_path: Path) -> None:
        # So are folders laid out that are put in place at one stroke.
        put(tmp_path, ".v1/a.md", ".v1/sub/b.md", ".v1/.c.md")
        (tmp_path / ".current").symlink_to(".v1")
        (tmp_path / "a.md").symlink_to(".current/a.md")
        (tmp_path / "b.md").symlink_to(".current/a.md")
        (tmp_path / "sub").symlink_to(".current/sub")
        (tmp_path / "sub2").symlink_to(".current/sub")
        assert sorted(walked(tmp_path)[0]) == ["a.md", "sub/b.md"]

    def test_the_folder_itself_may_be_one(self, tmp_path: Path) -> None:
        put(tmp_path, "real/a.md")
        (tmp_path / "link").symlink_to("real")
        assert walked(tmp_path / "link")[0] == ["a.md"]

    def test_a_description_that_leads_out_is_not_told(self, tmp_path: Path) -> None:
        put(tmp_path, "secret.md", "inside/a.md")
        (tmp_path / "inside" / "README.md").symlink_to(tmp_path / "secret.md")
        assert describe(tmp_path / "inside").text == ""


class TestSome:
    """A walk to what has changed alone."""

    def some(self, folder: Path, *paths: str) -> list[str] | None:
        found = Walk(Path(os.path.realpath(folder))).some(paths)
        return None if found is None else sorted(seen.path for seen in found)

    def test_files_and_folders_are_gone_to_and_nothing_else(self, tmp_path: Path) -> None:
        put(
            tmp_path,
            "a.md",
            "b.md",
            "c/d.md",
            "c/e/f.md",
            "c/.g.md",
            "h/i.md",
            "j.png",
            "README.md",
            "h/README.md",
        )
        assert self.some(tmp_path, "b.md", "c", "gone.md", "j.png", "README.md", "h/README.md") == [
            "b.md", "c/d.md", "c/e/f.md", "h/README.md",
        ]  # fmt: skip

    def test_what_an_office_program_lays_beside_an_open_file_is_no_document(self, tmp_path: Path) -> None:
        put(tmp_path, "~$b.docx", "c/~$d.docx", "b.docx")
        assert self.some(tmp_path, "~$b.docx", "c/~$d.docx", "b.docx") == ["b.docx"]

    @pytest.mark.skipif(os.name == "nt", reason="links need rights there")
    @pytest.mark.parametrize(
        "path", ["link.md", "up", "up/inside/a.md", "folder", "../secret.md", "/etc/hosts"]
    )
    def test_where_a_link_takes_part_the_whole_is_walked(self, tmp_path: Path, path: str) -> None:
        put(tmp_path, "secret.md", "inside/a.md", "inside/folder/b.md")
        (tmp_path / "inside" / "link.md").symlink_to("../secret.md")
        (tmp_path / "inside" / "up").symlink_to("..")
        (tmp_path / "inside" / "folder" / "link").symlink_to("..")
        assert self.some(tmp_path / "inside", path) is None


@pytest.mark.skipif(os.name == "nt", reason="there are none")
def test_a_pipe_is_no_document(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    assert walked(tmp_path)[0] == []


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read everything")
def test_a_folder_that_cannot_be_read_is_a_fault(tmp_path: Path) -> None:
    put(tmp_path, "a/b.md", "c.md")
    (tmp_path / "a").chmod(0)
    try:
        paths, walk = walked(tmp_path)
    finally:
        (tmp_path / "a").chmod(0o700)
    assert paths == ["c.md"]
    assert walk.unseen == ["a"]
    assert walk.faults[0].path == "a"


def test_an_entry_that_cannot_be_looked_at_is_a_fault_of_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreadable:
        name = "b.md"

        def is_symlink(self) -> bool:
            raise OSError(errno.EIO, "Input/output error")

    scandir = os.scandir

    def failing(path: str | Path) -> AbstractContextManager[Iterable[Unreadable | os.DirEntry[str]]]:
        return nullcontext([Unreadable()]) if Path(path).name == "a" else scandir(path)

    put(tmp_path, "a/b.md", "c.md")
    monkeypatch.setattr(os, "scandir", failing)
    walk = Walk(tmp_path)
    assert [seen.path for seen in walk.files()] == ["c.md"]
    assert walk.unseen == ["a"]
    assert "Input/output error" in walk.faults[0].reason


def test_a_missing_folder_is_no_empty_one(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="nothing"):
        walked(tmp_path / "nothing")


def test_folders_may_lie_deep(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["d"] * 300)
    deep.mkdir(parents=True)
    put(deep, "a.md")
    assert len(walked(tmp_path)[0]) == 1


class TestDescription:
    def test_its_heading_is_the_title(self, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_text(
            "\ufeff# Pancakes #\r\n\r\nAll of them.\r\nReally.", encoding="utf-8"
        )
        about = describe(tmp_path)
        assert (about.title, about.text) == ("Pancakes", "All of them.\nReally.")

    def test_so_is_one_underlined(self, tmp_path: Path) -> None:
        (tmp_path / "readme.rst").write_text("Pancakes\n========\n\nAll of them.")
        assert describe(tmp_path).title == "Pancakes"

    def test_without_one_the_folders_name_is(self, tmp_path: Path) -> None:
        (tmp_path / "README").write_text("All of them.")
        about = describe(tmp_path, "good_pancakes")
        assert (about.title, about.text) == ("good pancakes", "All of them.")

    def test_about_comes_before_a_readme(self, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_text("for people")
        (tmp_path / "_about.md").write_text("for models")
        assert describe(tmp_path).text == "for models"

    def test_it_is_cut_and_holds_nothing_that_a_terminal_obeys(self, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_bytes(b"a\x1b[31mb\x00c\xff " + b"word " * 50_000)
        text = describe(tmp_path).text
        assert len(text) <= 4_000
        assert not set(text) & set(map(chr, range(32)))

    def test_an_empty_one_says_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "README.md").write_text(" \n")
        assert describe(tmp_path).text == ""


class TestSources:
    @pytest.fixture(autouse=True)
    def service(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        put(
            tmp_path,
            "README.md",
            "docs/a.md",
            "docs/deep/b.md",
            "docs/.c.md",
            "docs/.drafts/e.md",
            "docs/d.png",
            ".env.md",
            "secret/k.md",
        )
        put(tmp_path, "databases/other/private.md", "databases/manual/own.md")
        monkeypatch.setattr(registry, "shipped_folder", lambda: tmp_path / "databases")

    def name(self, tmp_path: Path, *patterns: str) -> tuple[list[str], Walk]:
        manual = tmp_path / "databases" / "manual"
        (manual / "_sources.toml").write_text(f"files = {list(patterns)!r}")
        return walked(manual)

    def test_files_of_the_house_are_documents(self, tmp_path: Path) -> None:
        paths, walk = self.name(tmp_path, "README.md", "docs/*.md", "docs/*.png", "docs/a.md", "docs/none*")
        assert paths == ["own.md", "README.md", "docs/a.md"]
        assert walk.places["docs/a.md"] == tmp_path / "docs" / "a.md"
        assert not walk.faults

    def test_below_too(self, tmp_path: Path) -> None:
        assert self.name(tmp_path, "docs/**/*.md")[0] == ["own.md", "docs/a.md", "docs/deep/b.md"]

    def test_a_link_out_of_the_house_shows_nothing(self, tmp_path: Path) -> None:
        (tmp_path / "docs" / "hosts.md").symlink_to("/etc/hosts")
        (tmp_path / "docs" / "etc").symlink_to("/etc")
        assert self.name(tmp_path, "docs/*.md", "docs/etc/*")[0] == ["own.md", "docs/a.md"]

    def test_what_lies_in_the_folder_comes_first(self, tmp_path: Path) -> None:
        put(tmp_path, "databases/manual/docs/a.md")
        paths, walk = self.name(tmp_path, "docs/*.md")
        assert paths == ["own.md", "docs/a.md"]
        assert not walk.places

    def test_a_strangers_folder_gets_nothing_by_it(self, tmp_path: Path) -> None:
        put(tmp_path, "elsewhere/stranger/own.md")
        folder = tmp_path / "elsewhere" / "stranger"
        (folder / "_sources.toml").write_text('files = ["README.md"]')
        paths, walk = walked(folder)
        assert paths == ["own.md"]
        assert "Pixi's own databases alone" in walk.faults[0].reason

    @pytest.mark.parametrize(
        "text", ["files = 3", 'files = "README.md"', "files = [1]", "files = [", "", 'files = ["/etc/*"]']
    )
    def test_one_not_well_made_is_a_fault(self, tmp_path: Path, text: str) -> None:
        (tmp_path / "databases" / "manual" / "_sources.toml").write_text(text)
        paths, walk = walked(tmp_path / "databases" / "manual")
        assert paths == ["own.md"]
        assert walk.faults[0].path == "_sources.toml"

    def test_only_at_the_top(self, tmp_path: Path) -> None:
        put(tmp_path, "databases/manual/sub/x.md")
        (tmp_path / "databases" / "manual" / "sub" / "_sources.toml").write_text('files = ["README.md"]')
        assert walked(tmp_path / "databases" / "manual")[0] == ["own.md", "sub/x.md"]
