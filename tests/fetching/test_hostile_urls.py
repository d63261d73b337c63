"""Addresses that would lead into the private network: each is refused, and nothing there hears of it."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from ipaddress import IPv4Network

import pytest
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from pixi.fetching import guard
from pixi.fetching.guard import is_own_network
from pixi.fetching.web import Refused, Web, WebError
from tests.rows import row
from tests.servers.staged_web import PUBLIC, Canary, Handler, Stage, StagedWeb, canary, served

PORT = "PORT"
"""Stands for the port where the canary sits, in the addresses below."""

LITERALS = [
    # Loopback, in every form that a resolver or a library has ever taken for it.
    "http://127.0.0.1:PORT/",
    "http://127.0.0.1.:PORT/",
    "http://127.8.9.10:PORT/",
    "http://127.1:PORT/",
    "http://127.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://0x7f000001:PORT/",
    "http://0x7F.1:PORT/",
    "http://0x7f.0x0.0x0.0x1:PORT/",
    "http://017700000001:PORT/",
    "http://0177.0.0.1:PORT/",
    "http://127.0.0.01:PORT/",
    "http://127.0.0.0x1:PORT/",
    "http://4429150209:PORT/",  # 2130706433 and two to the 32nd more
    "http://0:PORT/",
    "http://0.0.0.0:PORT/",
    "http://１２７.０.０.１:PORT/",
    "http://127。0。0。1:PORT/",
    "http://①②⑦.0.0.1:PORT/",
    "http://%31%32%37.0.0.1:PORT/",
    "http://127%2e0%2e0%2e1:PORT/",
    "http://[::1]:PORT/",
    "http://[0:0:0:0:0:0:0:1]:PORT/",
    "http://[::]:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://[::ffff:7f00:1]:PORT/",
    "http://[::127.0.0.1]:PORT/",
    "http://[64:ff9b::127.0.0.1]:PORT/",
    "http://[64:ff9b:1::7f00:1]:PORT/",
    "http://[2002:7f00:1::]:PORT/",
    "http://[2001:0:7f00:1::1]:PORT/",
    # Names that mean this machine or this network.
    "http://localhost:PORT/",
    "http://LOCALHOST:PORT/",
    "http://localhost.:PORT/",
    "http://ⓛocalhost:PORT/",
    "http://localhost.localdomain:PORT/",
    "http://pages.localhost:PORT/",
    "http://router:PORT/",
    "http://printer.local:PORT/",
    "http://metadata.google.internal:PORT/",
    # Private networks, and what clouds tell their machines.
    "http://10.0.0.1:PORT/",
    "http://172.16.0.1:PORT/",
    "http://172.31.255.254:PORT/",
    "http://192.168.1.1:PORT/",
    "http://100.64.0.1:PORT/",
    "http://100.100.100.200:PORT/latest/meta-data/",
    "http://169.254.169.254:PORT/latest/meta-data/",
    "http://2852039166:PORT/latest/meta-data/",
    "http://[::ffff:a9fe:a9fe]:PORT/latest/meta-data/",
    "http://168.63.129.16:PORT/",
    "http://192.0.0.192:PORT/",
    "http://192.0.2.1:PORT/",
    "http://198.18.0.1:PORT/",
    "http://224.0.0.1:PORT/",
    "http://240.0.0.1:PORT/",
    "http://255.255.255.255:PORT/",
    "http://[fd00:ec2::254]:PORT/latest/meta-data/",
    "http://[fc00::1]:PORT/",
    "http://[fe80::1]:PORT/",
    "http://[fe80::1%25eth0]:PORT/",
    "http://[fec0::1]:PORT/",
    "http://[ff02::1]:PORT/",
    "http://[2001:db8::1]:PORT/",
    "http://[3fff::1]:PORT/",
    # Addresses that two readers read in two ways.
    "http://pixi-web.net@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT@pixi-web.net/",
    "http://user:word@pages.pixi-web.net/",
    "http://pixi-web.net:80@127.0.0.1:PORT/",
    "http://127.0.0.1:PORT\\@pixi-web.net/",
    "http://pixi-web.net\\127.0.0.1:PORT/",
    "http://127.0.0.1\t:PORT/",
    "http://127.0.0.1:PORT\r\nHost: pixi-web.net/",
    "http://127.0.0.1\x00.pixi-web.net:PORT/",
    "http://127.0.0.1:PORT#@pixi-web.net/",
    "http://127.0.0.1:PORT?@pixi-web.net/",
    "http:127.0.0.1:PORT/",
    "http:/127.0.0.1:PORT/",
    "http:///127.0.0.1:PORT/",
    "http://:PORT/",
    "http://pixi-web..net:PORT/",
    "http://xn--a.pixi-web.net:PORT/",
    "http://[127.0.0.1]:PORT/",
    "http://[::1:PORT/",
    "http://::1:PORT/",
    "//127.0.0.1:PORT/",
    "127.0.0.1:PORT",
    "",
    # What is no page.
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "gopher://127.0.0.1:PORT/_INFO",
    "data:text/html,hello",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "view-source:http://127.0.0.1:PORT/",
    # Ports that serve no pages.
    "http://pages.pixi-web.net:22/",
    "http://pages.pixi-web.net:0/",
    "http://pages.pixi-web.net:70000/",
    "http://pages.pixi-web.net:-1/",
    "http://pages.pixi-web.net:8०/",
    "http://pages.pixi-web.net/" + "a" * guard.LONGEST,
]


@dataclass
class Scene:
    """A stage, what fetches from it, and the canary."""

    stage: Stage
    web: StagedWeb
    canary: Canary


@pytest.fixture
async def scene(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Scene]:
    """The canary sits at a port where pages may be: it is the address that must keep everybody away."""
    async with canary() as bird:
        monkeypatch.setattr(guard, "PORTS", guard.PORTS | {bird.port})
        stage = Stage()
        async with StagedWeb(stage) as fetching:
            yield Scene(stage, fetching, bird)


async def test_canary_hears_whoever_comes(scene: Scene) -> None:
    for host in ("127.0.0.1", "127.8.9.10", "0.0.0.0", "[::1]", "[::ffff:127.0.0.1]"):
        fetched = await scene.web.get(f"http://{host}:{scene.canary.port}/", trusted=True)
        assert fetched.body == b"secret"
    assert scene.canary.visits == 5


async def test_refused_without_a_packet(scene: Scene) -> None:
    scene.stage.hosts = {"pixi-web.net": [["127.0.0.1"]]}
    for url in LITERALS:
        with row(url):
            with pytest.raises(Refused) as refused:
                await scene.web.get(url.replace(PORT, str(scene.canary.port)))
            assert "\n" not in str(refused.value)
            assert not scene.stage.looked_up
            assert not scene.stage.dialled
            assert scene.canary.visits == 0


def _of_the_private_network() -> st.SearchStrategy[int]:
    starts = ("127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16", "172.16.0.0/12", "0.0.0.0/8")
    networks = [IPv4Network(start) for start in starts]
    return st.sampled_from(networks).flatmap(
        lambda network: st.integers(0, network.num_addresses - 1).map(
            lambda at: int(network.network_address) + at
        )
    )


@given(
    _of_the_private_network(),
    st.integers(1, 4),
    st.lists(st.sampled_from(["{}", "{:#x}", "{:#X}", "0{:o}", "00{}"]), min_size=4, max_size=4),
    st.sampled_from(["http://{}/", "https://{}./", "http://{}:8080", "HTTP://{}?q"]),
    st.booleans(),
)
def test_private_addresses_in_all_the_forms_that_numbers_have(
    address: int, parts: int, forms: list[str], url: str, wide: bool
) -> None:
    """As `inet_aton` reads them: in one to four parts, the last of which holds the rest."""
    octets = list(address.to_bytes(4, "big"))
    numbers = [*octets[: parts - 1], int.from_bytes(bytes(octets[parts - 1 :]), "big")]
    host = ".".join(form.format(number) for form, number in zip(forms, numbers, strict=False))
    if wide:
        host = host.translate({ord("0") + digit: ord("０") + digit for digit in range(10)})
    with pytest.raises(Refused):
        guard.parsed(url.format(host))


ADDRESSES = [
    *(["127.0.0.1"], ["0.0.0.0"], ["10.1.2.3"], ["169.254.169.254"], ["::1"], ["::ffff:127.0.0.1"]),
    *(["fd00:ec2::254"], ["64:ff9b::7f00:1"], ["2002:7f00:1::"], ["fe80::1%eth0"], ["100.64.1.1"]),
    [PUBLIC, "127.0.0.1"],
    ["127.0.0.1", PUBLIC],
    ["2606:2800:21f:cb07:6820:80da:af6b:8b2c", "::1"],
]


@pytest.mark.parametrize("addresses", ADDRESSES, ids=" ".join)
async def test_name_that_leads_inside(scene: Scene, addresses: list[str]) -> None:
    scene.stage.hosts["inner.pixi-web.net"] = [addresses]
    with pytest.raises(Refused, match="not on the public internet"):
        await scene.web.get(f"http://inner.pixi-web.net:{scene.canary.port}/")
    assert scene.stage.looked_up == ["inner.pixi-web.net"]
    assert not scene.stage.dialled
    assert scene.canary.visits == 0


NEAR = [
    ("93.184.215.14", "93.184.215.14"),
    ("2606:2800:21f:cb07::1", "2606:2800:21f:cb07::1"),
    ("2606:2800:21f:cb07::1", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"),
    ("2606:2800:21f:cb07::1", "2606:2800:21f:cbff::1"),
]


@pytest.mark.parametrize(("address", "own"), NEAR)
async def test_this_machine_and_its_network_of_ipv6_are_not_public_whatever_their_addresses(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, address: str, own: str
) -> None:
    """What listens there may trust whoever comes from inside: a firewall keeps all others away."""
    monkeypatch.setattr(guard, "own_address", lambda towards: own)
    scene.stage.hosts["home.pixi-web.net"] = [[address]]
    number = f"[{address}]" if ":" in address else address
    for host in ("home.pixi-web.net", number):
        with pytest.raises(Refused, match="not on the public internet"):
            await scene.web.get(f"http://{host}:{scene.canary.port}/")


def test_is_own_network_is_false_for_the_next_network_the_other_protocol_and_no_address() -> None:
    assert guard.own_address("127.0.0.1") == "127.0.0.1"
    assert not is_own_network("93.184.215.14", "93.184.215.15")
    assert not is_own_network("2606:2800:21f:cb07::1", "2606:2800:21f:cc07::1")
    assert not is_own_network("2606:2800:21f:cb07::1", "93.184.215.14")
    assert not is_own_network("93.184.215.14", "")


async def test_the_last_look_stops_what_the_first_let_through(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard.Gate, "check", lambda *_: None)
    url = f"http://inner.pixi-web.net:{scene.canary.port}/"
    for addresses in (["127.0.0.1"], ["127.0.0.1", "127.0.0.2"], ["::1", "127.0.0.1"]):
        scene.stage.hosts["inner.pixi-web.net"] = [addresses]
        with pytest.raises(WebError, match=r"not on the public internet|does not answer"):
            await scene.web.get(url)
    assert scene.canary.visits == 0


async def test_name_is_looked_up_once_and_what_was_checked_is_dialled(scene: Scene) -> None:
    """Rebinding: the second look would lead inside. There is none until the next fetch, which is refused."""
    port = scene.canary.port
    async with served({"/": _closing("public")}) as real:
        scene.stage.hosts["rebind.pixi-web.net"] = [[PUBLIC], ["127.0.0.1"]]
        scene.stage.ways[PUBLIC, port] = real
        fetched = await scene.web.get(f"http://rebind.pixi-web.net:{port}/")
        assert fetched.body == b"public"
        assert scene.stage.looked_up == ["rebind.pixi-web.net"]
        with pytest.raises(Refused):
            await scene.web.get(f"http://rebind.pixi-web.net:{port}/")
    assert scene.stage.dialled == ["127.0.0.1"]  # the way that leads to the public page, and no other
    assert scene.canary.visits == 0


REDIRECTS = [
    "http://127.0.0.1:PORT/",
    "//127.0.0.1:PORT/",
    "http://2130706433:PORT/",
    "http://[::ffff:127.0.0.1]:PORT/",
    "http://localhost:PORT/",
    "http://inner.pixi-web.net:PORT/",
    "http://user@pages.pixi-web.net/",
    "http://169.254.169.254/latest/meta-data/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:PORT/",
    "http://[::1",
    "http://xn--a.pixi-web.net/",
]


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("status", [301, 307])
async def test_redirect_that_leads_inside(scene: Scene, trusted: bool, status: int) -> None:
    location = ""

    async def redirect(_: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": location})

    async with served({"/": redirect}) as real:
        start = scene.stage.put("pages.pixi-web.net", real)
        if trusted:  # of the operator's: it may be inside itself, but is not trusted with where it leads
            start = f"http://127.0.0.1:{real}"
        for target in REDIRECTS:
            scene.stage.hosts["inner.pixi-web.net"] = [["127.0.0.1"]]
            location = target.replace(PORT, str(scene.canary.port))
            if trusted:
                location = location.replace("127.0.0.1", "127.0.0.2")
            with row(target):
                with pytest.raises(Refused):
                    await scene.web.get(start, trusted=trusted)
                assert scene.canary.visits == 0


async def test_redirects_of_the_public_internet_are_followed_five_times(scene: Scene) -> None:
    async def onward(request: web.Request) -> web.StreamResponse:
        left = int(request.query["left"])
        if not left:
            return web.Response(text="there")
        return web.Response(status=302, headers={"Location": f"/?left={left - 1}"})

    async with served({"/": onward}) as real:
        start = scene.stage.put("pages.pixi-web.net", real)
        fetched = await scene.web.get(f"{start}/?left=5")
        assert (fetched.body, fetched.url) == (b"there", f"{start}/?left=0")
        with pytest.raises(WebError, match="redirects again and again"):
            await scene.web.get(f"{start}/?left=6")


async def test_host_of_the_operators_may_redirect_to_itself(scene: Scene) -> None:
    async def onward(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/there"})

    async with served({"/": onward, "/there": _closing("there")}) as real:
        assert (await scene.web.get(f"http://127.0.0.1:{real}/", trusted=True)).body == b"there"


@pytest.mark.parametrize(
    "target",
    [
        "http://{host}:{canary}/",
        "https://{host}:{own}/",
        "http://{host}/",
        "http://{host}:80/",
        "https://{host}/",
        "https://{host}:443/",
        "//{host}/",
        "https://{host}.:443/",
    ],
)
@pytest.mark.parametrize("host", ["127.0.0.1", "inner.pixi-web.net"])
async def test_what_is_permitted_is_one_port_and_one_scheme_of_a_host(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, host: str, target: str
) -> None:
    """What listens beside it, at :80 and :443 too, is another program that nobody named."""
    dialled: list[int] = []

    def may_dial(gate: object, address: str, port: int) -> bool:
        dialled.append(port)
        return True

    monkeypatch.setattr(guard.OpenGate, "may_dial", may_dial)
    scene.stage.hosts["inner.pixi-web.net"] = [["127.0.0.1"]]
    location = ""

    async def onward(_: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": location})

    async with served({"/": onward}) as real:
        location = target.format(host=host, own=real, canary=scene.canary.port)
        with pytest.raises(Refused, match=r"redirects to http.*not named in the settings"):
            await scene.web.get(f"http://{host}:{real}/", trusted=True)
    assert dialled == [real]
    assert not scene.stage.dialled
    assert scene.canary.visits == 0


async def test_connections_of_the_operators_are_nobody_elses(scene: Scene) -> None:
    """One that was opened for a trusted fetch, and is kept, is not used for what a stranger asks."""
    scene.stage.hosts["inner.pixi-web.net"] = [["127.0.0.1"]]

    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text="inside")

    async with served({"/": page}) as real:
        guard.PORTS |= {real}  # put back by the fixture
        url = f"http://inner.pixi-web.net:{real}/"
        assert (await scene.web.get(url, trusted=True)).body == b"inside"
        with pytest.raises(Refused):
            await scene.web.get(url)


async def test_proxies_of_the_environment_are_not_asked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{scene.canary.port}")
    async with served({"/": _closing("public")}) as real:
        start = scene.stage.put("pages.pixi-web.net", real)
        assert (await scene.web.get(start)).body == b"public"
    assert scene.canary.visits == 0


async def test_without_a_stage_the_system_looks_up(scene: Scene) -> None:
    """What fetches for people has no way to be led anywhere else."""
    async with Web() as fetching:
        for host in ("localhost", "127.0.0.1"):
            with pytest.raises(Refused):
                await fetching.get(f"http://{host}:{scene.canary.port}/")
        fetched = await fetching.get(f"http://localhost:{scene.canary.port}/", trusted=True)
    assert fetched.body == b"secret"
    assert scene.canary.visits == 1


def _closing(text: str) -> Handler:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(text=text, headers={"Connection": "close"})

    return page
