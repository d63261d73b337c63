"""Files that people sent over HTTP, as the store knows them."""

from msgspec.structs import replace

from pixi.store.kept import SentFile
from pixi.store.store import Store
from tests.store.kinds import everywhere

MO, ANN = "web:shop:mo", "web:shop:ann"
CAT = SentFile("a1", MO, "cat.png", "image/png", 60, "d1", 10.0)
NOTES = SentFile("a2", MO, "notes.txt", "text/plain", 40, "d2", 30.0)
HERS = SentFile("a3", ANN, "canary.pdf", "application/pdf", 90, "d3", 20.0)


async def keep_all(store: Store) -> None:
    for file in (CAT, NOTES, HERS):
        assert await store.add_file(file, 100)


@everywhere
async def test_a_file_is_found_by_its_id_until_it_is_dropped(store: Store) -> None:
    await keep_all(store)
    assert (await store.file("a1"), await store.file("a3"), await store.file("a9")) == (CAT, HERS, None)
    assert await store.files_among(["a1", "a9", "a3"]) == {"a1", "a3"}
    await store.drop_file("a1")
    assert await store.file("a1") is None
    assert await store.files_among([]) == frozenset()


@everywhere
async def test_all_files_of_a_person_have_a_size_together(store: Store) -> None:
    await keep_all(store)
    assert (await store.file_bytes(MO), await store.file_bytes("nobody")) == (100, 0)
    assert not await store.add_file(replace(CAT, id="a4", size=1), 100)
    assert await store.file("a4") is None
    await store.drop_file("a2")
    assert await store.add_file(replace(CAT, id="a4", size=40), 100)


@everywhere
async def test_files_are_exported_and_forgotten_with_their_person(store: Store) -> None:
    await keep_all(store)
    assert [known.id for known in await store.people(MO)] == [MO]
    told = await store.export(MO)
    first = {"name": "cat.png", "type": "image/png", "bytes": 60, "time": "1970-01-01T00:00:10+00:00"}
    assert told["files"][0] == first
    assert "canary" not in str(told)
    await store.forget(MO)
    assert await store.people(MO) == ()
    assert await store.files_among(["a1", "a2", "a3"]) == {"a3"}


@everywhere
async def test_old_files_go_in_portions(store: Store) -> None:
    await keep_all(store)
    for number in range(200):
        await store.add_file(replace(CAT, id=f"b{number}", size=0), 100)
    assert await store.forget_old(20.0)
    assert not await store.forget_old(20.0)
    assert await store.files_among(["a1", "b0", "b199"]) == frozenset()
    assert await store.files_among(["a2", "a3"]) == {"a2", "a3"}
