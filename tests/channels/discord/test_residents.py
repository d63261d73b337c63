from pixi.channels.discord.address import Address
from pixi.channels.discord.residents import place_of, residents
from pixi.core.persona import Persona
from pixi.store.kept import Place
from tests.channels.discord.house import RecordingHouse

BOT, THREAD, CHANNEL, GUILD = 1, 30, 20, 10
WHERE = (THREAD, CHANNEL, GUILD)


def house(**places: Place) -> RecordingHouse:
    ids = {"thread": THREAD, "channel": CHANNEL, "guild": GUILD}
    personas = {name: Persona(name.title(), "…") for name in ("pixi", "edda", "qin")}
    return RecordingHouse(
        personas=personas, places={str(Address(BOT, ids[name])): place for name, place in places.items()}
    )


def test_where_nobody_chose_the_default_persona_lives() -> None:
    assert residents(house(), BOT, WHERE) == ("pixi",)
    assert place_of(house(), BOT, WHERE) == Place()


def test_the_nearest_choice_counts() -> None:
    here = house(thread=Place(("qin",)), channel=Place(("edda",)), guild=Place(("pixi",)))
    assert residents(here, BOT, WHERE) == ("qin",)
    assert residents(here, BOT, (CHANNEL, GUILD)) == ("edda",)


def test_a_thread_is_like_its_channel_until_somebody_chooses_otherwise() -> None:
    assert place_of(house(channel=Place(("edda",), "large", True)), BOT, WHERE) == Place(
        ("edda",), "large", True
    )


def test_a_choice_that_names_nobody_leaves_those_who_live_there() -> None:
    here = house(thread=Place(model="large"), channel=Place(("edda", "qin"), home=True))
    assert place_of(here, BOT, WHERE) == Place(("edda", "qin"), "large", False)


def test_who_is_on_the_shelf_no_more_lives_nowhere() -> None:
    assert residents(house(channel=Place(("gone", "edda"))), BOT, WHERE) == ("edda",)
    assert residents(house(channel=Place(("gone",))), BOT, WHERE) == ("pixi",)
