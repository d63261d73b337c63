from pixi.channels.discord.backend import ConversationAddress, channel_config, channel_personas
from pixi.core.persona import Persona
from pixi.store.kept import ChannelConfig
from tests.channels.discord.backend import RecordingBackend

BOT, THREAD, CHANNEL, GUILD = 1, 30, 20, 10
WHERE = (THREAD, CHANNEL, GUILD)


def backend(**places: ChannelConfig) -> RecordingBackend:
    ids = {"thread": THREAD, "channel": CHANNEL, "guild": GUILD}
    personas = {name: Persona(name.title(), "…") for name in ("pixi", "edda", "qin")}
    return RecordingBackend(
        personas=personas,
        places={str(ConversationAddress(BOT, ids[name])): place for name, place in places.items()},
    )


def test_where_nobody_chose_the_default_persona_lives() -> None:
    assert channel_personas(backend(), BOT, WHERE) == ("pixi",)
    assert channel_config(backend(), BOT, WHERE) == ChannelConfig()


def test_the_nearest_choice_counts() -> None:
    here = backend(
        thread=ChannelConfig(("qin",)), channel=ChannelConfig(("edda",)), guild=ChannelConfig(("pixi",))
    )
    assert channel_personas(here, BOT, WHERE) == ("qin",)
    assert channel_personas(here, BOT, (CHANNEL, GUILD)) == ("edda",)


def test_a_thread_is_like_its_channel_until_somebody_chooses_otherwise() -> None:
    assert channel_config(
        backend(channel=ChannelConfig(("edda",), "large", True)), BOT, WHERE
    ) == ChannelConfig(("edda",), "large", True)


def test_a_choice_that_names_nobody_leaves_those_who_live_there() -> None:
    here = backend(thread=ChannelConfig(model="large"), channel=ChannelConfig(("edda", "qin"), home=True))
    assert channel_config(here, BOT, WHERE) == ChannelConfig(("edda", "qin"), "large", False)


def test_who_is_on_the_shelf_no_more_lives_nowhere() -> None:
    assert channel_personas(backend(channel=ChannelConfig(("gone", "edda"))), BOT, WHERE) == ("edda",)
    assert channel_personas(backend(channel=ChannelConfig(("gone",))), BOT, WHERE) == ("pixi",)
