"""Forgets of a person what does not stand in the store."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pixi.settings import Settings
    from pixi.store.store import Store


async def forget_beside(settings: "Settings", store: "Store", person: str) -> list[str]:
    """Forget what models here have read, typed lines and files, once the store forgot a person.

    Returns what somebody has to delete by hand, a line each.
    """
    from pixi.app.kept_slot import slots_of
    from pixi.app.state import forget_typed
    from pixi.channels.http.files import Files, files_folder
    from pixi.channels.terminal import sits_at_terminal
    from pixi.store.opening import file_of, is_postgres
    from pixi.store.sqlite.damage import set_aside_before

    left: list[str] = []
    folder = files_folder(settings.http.files, settings.store.url)
    try:
        await Files(store, folder, settings.http).sweep()
    except OSError as error:
        left.append(f"files of theirs could not be deleted ({error.strerror}): delete {folder}.")
    if slots := slots_of(settings.store.url):
        slots.drop()
    if sits_at_terminal(person):
        forget_typed()
    path = None if is_postgres(settings.store.url) else file_of(settings.store.url)
    left += [
        f"{file} was set aside because it is damaged, and may hold words of theirs: delete it."
        for file in (() if path is None else set_aside_before(path))
    ]
    return left
