"""Links to maps: the place before the window, each service's own form, short links by redirects alone."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from pixi.companion import maps
from pixi.companion.data import CompanionError
from pixi.companion.maps import MapLink, find_map_link, is_map_link, read_map_link, resolve_map_link
from pixi.fetching.web import Web
from tests.servers.staged_web import Stage, StagedWeb, served

GOOGLE = "https://www.google.com/maps"
PLACE = "!3m1!4b1!4m6!3m5!1s0x0:0x1!8m2!3d54.91475!4d-38.17099!16s"
BOWL = (54.91475, -38.17099)


@pytest.mark.parametrize(
    ("link", "found", "name"),
    [
        (f"{GOOGLE}/place/Lantern+Bowl/@54.92,-38.18,17z/data={PLACE}", BOWL, "Lantern Bowl"),
        (f"{GOOGLE}/place/Caf%C3%A9+am+Park/@54.91475,-38.17099,17z", BOWL, "Café am Park"),
        (f"{GOOGLE}/@54.91475,-38.17099,15z", BOWL, ""),
        (f"{GOOGLE}?q=54.91475,-38.17099", BOWL, ""),
        (f"{GOOGLE}?q=loc:54.91475+-38.17099", BOWL, ""),
        (f"{GOOGLE}/search/?api=1&query=54.91475%2C-38.17099", BOWL, ""),
        (f"{GOOGLE}/search/54.91475,+-38.17099?entry=tts", BOWL, ""),
        (f"{GOOGLE}/search/?api=1&query=Lantern+Bowl", None, "Lantern Bowl"),
        (f"{GOOGLE}/dir/?api=1&destination=54.91475,-38.17099", BOWL, ""),
        (f"{GOOGLE}/embed?pb=!1m18!1m12!1m3!1d2427.9!2d-38.17099!3d54.91475!2m3!1f0", BOWL, ""),
        (f"{GOOGLE}/place/54%C2%B054'53.1%22N+38%C2%B010'15.6%22W/@1.0,2.0,17z", (54.914750, -38.171), ""),
        ("https://maps.google.co.uk/?ll=54.91475,-38.17099&z=14", BOWL, ""),
        ("http://maps.google.de/maps?q=Lantern+Bowl&ll=54.91475,-38.17099", BOWL, "Lantern Bowl"),
        ("https://maps.apple.com/?ll=54.91475,-38.17099&q=Lantern%20Bowl", BOWL, "Lantern Bowl"),
        ("https://maps.apple.com/?q=54.91475,-38.17099", BOWL, ""),
        ("https://maps.apple.com/place?coordinate=54.91475,-38.17099&name=Bowl", BOWL, "Bowl"),
        ("https://maps.apple.com/?address=1%20Copper%20Street", None, "1 Copper Street"),
        ("https://www.openstreetmap.org/?mlat=54.91475&mlon=-38.17099#map=17/1.0/2.0", BOWL, ""),
        ("https://www.openstreetmap.org/#map=17/54.91475/-38.17099", BOWL, ""),
        ("https://www.openstreetmap.org/search?query=Lantern%20Bowl", None, "Lantern Bowl"),
        ("https://osm.org/go/0EEQjE--?m=", (51.510773, 0.054932), ""),
        ("https://www.openstreetmap.org/go/0EEQjEEb", (51.510998, 0.054996), ""),
        ("geo:54.91475,-38.17099", BOWL, ""),
        ("geo:54.91475,-38.17099,12;crs=wgs84;u=35", BOWL, ""),
        ("geo:0,0?q=54.91475,-38.17099(Lantern+Bowl)", BOWL, "Lantern Bowl"),
        ("geo:0,0?q=Lantern+Bowl", None, "Lantern Bowl"),
    ],
    ids=range(26),
)  # fmt: skip
def test_what_a_link_means(link: str, found: tuple[float, float] | None, name: str) -> None:
    read = read_map_link(link)
    assert read.name == name
    if found is None:
        assert (read.latitude, read.longitude) == (None, None)
    else:
        assert read.latitude == pytest.approx(found[0], abs=1e-5)
        assert read.longitude == pytest.approx(found[1], abs=1e-5)


@pytest.mark.parametrize(
    ("link", "told"),
    [
        ("https://example.org/maps?q=1,2", "no link to a map"),
        ("https://google.com.evil.example/maps?q=1,2", "no link to a map"),
        ("https://evil.example/https://www.google.com/maps?q=1,2", "no link to a map"),
        ("https://www.google.com@evil.example/maps?q=1,2", "no link to a map"),
        ("https://user@www.google.com/maps?q=1,2", "no link to a map"),
        ("https://www.google.com/search?q=1,2", "no link to a map"),
        ("javascript:alert(1)", "no link to a map"),
        ("file:///etc/passwd", "no link to a map"),
        ("https://[::1", "no link to a map"),
        ("", "no link to a map"),
        (f"{GOOGLE}/@138.17,54.9,15z", "seem to be swapped"),
        (f"{GOOGLE}?q=95.1,190.2", "latitude 95.1, longitude 190.2"),
        (f"{GOOGLE}", "shows no place"),
        ("https://maps.apple.com/", "shows no place"),
        (f"{GOOGLE}?q=" + "x" * 3_000, "characters: 2000 is the most"),
    ],
    ids=range(15),
)
def test_what_is_none_is_told(link: str, told: str) -> None:
    with pytest.raises(CompanionError, match=told):
        read_map_link(link)


def test_a_link_in_a_message_is_noticed() -> None:
    link = "https://maps.app.goo.gl/AbC123"
    assert find_map_link(f"look at this ({link}), and https://example.org!") == link
    assert find_map_link("nothing but https://example.org/maps and maps.google.com") == ""
    assert find_map_link("at geo:54.9,-38.2.") == "geo:54.9,-38.2"
    named = "geo:0,0?q=54.91475,-38.17099(Lantern+Bowl)"
    assert find_map_link(f"at {named}.") == find_map_link(f"there ({named})") == named
    assert is_map_link("https://goo.gl/maps/abc")
    assert is_map_link("https://maps.apple/p/abc")
    assert not is_map_link("https://goo.gl/abc")


@given(
    st.floats(-90, 90).map(lambda n: round(n, 7)),
    st.floats(-180, 180).map(lambda n: round(n, 7)),
    st.sampled_from(
        [
            "https://www.google.com/maps?q={:.7f},{:.7f}",
            "https://www.google.com/maps/place/X/@1,2,3z/data=!3d{:.7f}!4d{:.7f}",
            "https://maps.apple.com/?ll={:.7f},{:.7f}",
            "https://www.openstreetmap.org/?mlat={:.7f}&mlon={:.7f}",
            "geo:{:.7f},{:.7f}",
        ]
    ),
)
def test_whatever_a_link_holds_is_what_was_written(latitude: float, longitude: float, form: str) -> None:
    read = read_map_link(form.format(latitude, longitude))
    assert read.latitude == pytest.approx(latitude, abs=1e-7)
    assert read.longitude == pytest.approx(longitude, abs=1e-7)


@given(st.text(max_size=300))
def test_no_text_breaks_it(text: str) -> None:
    find_map_link(text)
    for link in (
        text,
        f"https://www.google.com/maps/{text}",
        f"https://maps.apple.com/?{text}",
        f"geo:{text}",
    ):
        with suppress(CompanionError):
            read_map_link(link)


@asynccontextmanager
async def shortener(*targets: str, status: int = 302) -> AsyncGenerator[tuple[Web, list[str]], None]:
    """`http://maps.app.goo.gl/0` redirects to the first target, `/1` to the second, and so on.

    Gives what fetches, and the hosts that were looked up.
    """

    async def redirect(request: web.Request) -> web.StreamResponse:
        target = targets[int(request.match_info["number"])]
        return web.Response(status=status, headers={"Location": target}, text="a page" * 10_000)

    stage = Stage({"inner.example": [["10.0.0.1"]]})
    async with served({"/{number}": redirect}) as port, StagedWeb(stage) as fetching:
        stage.put("maps.app.goo.gl", port)
        yield fetching, stage.looked_up


SHORT = "http://maps.app.goo.gl/0"


async def test_a_short_link_is_followed_to_the_map_and_no_further() -> None:
    target = f"{GOOGLE}/place/Lantern+Bowl/@1,2,3z/data=!3d54.91475!4d-38.17099"
    async with shortener("/1", target) as (fetching, looked_up):
        assert await resolve_map_link(SHORT, fetching) == MapLink(SHORT, *BOWL, "Lantern Bowl")
    assert set(looked_up) == {"maps.app.goo.gl"}, "the map itself is not asked for"


@pytest.mark.parametrize(
    ("targets", "told"),
    [
        (["http://example.org/maps?q=1,2"], "It leads to example.org, which is no map service"),
        (["http://127.0.0.1/maps?q=1,2"], "cannot be followed"),
        (["http://inner.example/"], "cannot be followed: inner.example is not a host of the public"),
        (["http://[::1]/"], "cannot be followed"),
        (["file:///etc/passwd"], "cannot be followed"),
        (["javascript:alert(1)"], "cannot be followed"),
        (["/0"], "redirects again and again"),
        ([f"{GOOGLE}?q=138.2,54.9"], "seem to be swapped"),
    ],
    ids=range(8),
)
async def test_a_short_link_that_leads_elsewhere_is_told(targets: list[str], told: str) -> None:
    async with shortener(*targets) as (fetching, looked_up):
        with pytest.raises(CompanionError, match=told):
            await resolve_map_link(SHORT, fetching)
    assert set(looked_up) == {"maps.app.goo.gl"}


async def test_a_short_link_without_a_redirect_leads_nowhere() -> None:
    async with shortener("http://maps.app.goo.gl/1", status=200) as (fetching, _):
        with pytest.raises(CompanionError, match="leads nowhere"):
            await resolve_map_link(SHORT, fetching)


async def test_a_long_link_needs_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    async with StagedWeb(Stage()) as fetching:
        assert (await resolve_map_link("geo:54.91475,-38.17099", fetching)).latitude == BOWL[0]
        with pytest.raises(CompanionError, match="could not be reached"):
            await resolve_map_link("https://maps.app.goo.gl/x", fetching)


async def test_what_is_asked_of_a_redirect() -> None:
    """A service's own short form goes on; its long form ends it."""
    await maps._until_it_says_where(URL("https://goo.gl/maps/x"))
    with pytest.raises(maps._ArrivedError):
        await maps._until_it_says_where(URL("https://maps.google.com/?q=1,2"))
