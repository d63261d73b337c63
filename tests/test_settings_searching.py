"""Settings of the search of the web that cannot hold are told of with their mend."""

import re
from pathlib import Path

import pytest

from pixi.core.errors import ConfigError
from pixi.settings import Settings, load

FREE = "prices = { prompt = 0, completion = 0 }\n"


def read(folder: Path, text: str) -> Settings:
    (folder / "pixi.toml").write_text(text, encoding="utf-8")
    return load(environ={}, folder=folder)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('[web_search]\nengine = "searxng"', r'line 2: .*engine = "searxng" needs.*add url = "http'),
        ('[web_search]\nengine = "mcp"', r'line 2: .*add tool = "SERVER.TOOL"'),
        ('[web_search]\nengine = "mcp"\ntool = "search"', r'line 3: .*write.*"SERVER.TOOL"'),
        ('[web_search]\nengine = "mcp"\ntool = "exa."', r"write the MCP server and its tool"),
        (
            '[web_search]\nengine = "mcp"\ntool = "exa.search"',
            r"'exa', which is not there; add a section \[mcp.exa\]",
        ),
        (
            '[mcp.exa]\ncommand = "exa"\n[web_search]\nengine = "mcp"\ntool = "exo.search"',
            r"'exo', which is not there; did you mean 'exa'\?",
        ),
        ('[web_search]\nengine = "google"', r"engine"),
        ('[web_search]\nengine = "duckduckgo"\nresults = 0', r"results"),
        ('[web_search]\nengine = "duckduckgo"\nprice = -1', r"price"),
        (
            f'[model]\n{FREE}[web_search]\nengine = "native"\n[limits]\nmonth_dollars = 5',
            r"month_dollars needs the price of each search.*price = … .*\[web_search\]",
        ),
    ],
)
def test_what_cannot_hold_is_named_with_its_place_and_mend(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(ConfigError) as error:
        read(tmp_path, text)
    assert re.search(says, str(error.value)), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "text",
    [
        '[web_search]\nengine = "searxng"\nurl = "http://localhost:8080"',
        '[mcp.exa]\ncommand = "exa"\n[web_search]\nengine = "mcp"\ntool = "exa.search.deep"',
        f'[model]\n{FREE}[web_search]\nengine = "native"\nprice = 0.01\n[limits]\nmonth_dollars = 5',
        f'[model]\n{FREE}[web_search]\nengine = "duckduckgo"\n[limits]\nmonth_dollars = 5',
        '[web_search]\nengine = "off"\ntool = "exa.search"',
    ],
)
def test_what_can_hold_is_read(tmp_path: Path, text: str) -> None:
    assert read(tmp_path, text).web_search.engine


@pytest.mark.parametrize("contact", ["", "mo@example.org", "https://example.org/about-our-bot?x=1"])
def test_a_contact_is_a_mail_address_or_a_page(tmp_path: Path, contact: str) -> None:
    assert read(tmp_path, f'[web_pages]\ncontact = "{contact}"').web_pages.contact == contact


@pytest.mark.parametrize(
    "contact", ["mo", "mo@kitchen", "ftp://example.org/", "a b@c.d", "a@b.c)", "ö@b.c", "a@b.c\\r\\nX: y"]
)
def test_what_a_header_could_not_say_is_no_contact(tmp_path: Path, contact: str) -> None:
    with pytest.raises(ConfigError, match=r"line 2: web_pages\.contact .*must be a mail address or"):
        read(tmp_path, f'[web_pages]\ncontact = "{contact}"')
