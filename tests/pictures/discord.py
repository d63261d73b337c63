"""A talk on Discord: a whole bot talks on the loopback server, and what arrives there is drawn as a chat."""

from base64 import b64encode
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from pixi.personas.files import shipped_folder
from pixi.testing.discord import FakeMessage, User
from tests.end_to_end.bot import Scene, scene
from tests.page.browsing import browsing

_PIXI = shipped_folder() / "pixi.md"
_REPLIES = (
    "[NOTE: first try!! so proud of them]\n[REACT: 🥞]\n[SEND: omg]\n[SEND: save me one??]",
    "[NOTE: that one is for Mo. i stay out of it]",
    "[SEND: one sec, my notebook]\n"
    '<tool-call tool="search_pancakes_database">{"keyword": "crêpe batter"}</tool-call>',
    "[SEND: like cream! twice as much milk as flour]\n[SEND: and an egg for every **60 g** of flour]",
    "[NOTE: they get on without me. lovely]\n[REACT: 💛]",
)
_STYLE = """
:root{color-scheme:light dark;--ground:#fff;--text:#1f2328;--dim:#656d76;--edge:#d0d7de;--pill:#eef1f4}
@media (prefers-color-scheme:dark){
:root{--ground:#1e1f24;--text:#e6edf3;--dim:#9aa2ac;--edge:#35363c;--pill:#2c2d33}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--text);font:16px/1.45 system-ui,"Noto Sans",sans-serif}
header{padding:14px 20px;border-bottom:1px solid var(--edge);font-weight:600}
header span{color:var(--dim);font-weight:400;margin-left:10px}
main{padding:8px 20px 16px}
article{display:grid;grid-template-columns:44px 1fr;column-gap:14px;margin-top:14px}
article.more{margin-top:2px}
.face{width:44px;height:44px;border-radius:50%;display:grid;place-items:center;color:#fff;font-weight:600}
b{margin-right:8px}
small{background:#5865f2;color:#fff;border-radius:4px;padding:1px 5px;font-weight:600;font-size:11px}
mark{background:#5865f222;color:inherit;border-radius:3px;padding:0 3px}
.pill{display:inline-block;background:var(--pill);border:1px solid #5865f2;border-radius:9px;
padding:1px 9px;margin-top:4px}
.pill i{font-style:normal;color:var(--dim);font-size:14px;margin-left:6px}
"""
_COLOURS = ("#c2410c", "#0f766e", "#7c3aed")


async def talk(there: Scene) -> None:
    """Have people talk, each answered before the next one writes."""
    sam, ada = there.discord.person("Sam"), there.discord.person("Ada")
    async with there.bot(discord__home_channels=[there.room.id]) as service:
        said: list[tuple[User, str]] = [
            (there.mo, "blueberry pancakes, first try!!"),
            (sam, "@Mo are you bringing the speakers tonight?"),
            (ada, f"{there.at} how thin should crêpe batter be?"),
            (there.mo, "i'll bring some. and the speakers"),
        ]
        asked = 0
        for who, text in said:
            await there.room.say(who, text)
            asked += 2 if "how thin" in text else 1
            await there.answered(service, asked)


def page_of(there: Scene) -> str:
    """Return the talk as a page."""
    colours: dict[int, str] = {there.discord.bot.id: ""}
    parts: list[str] = []
    before: User | None = None
    for message in there.room.messages:
        who = message.author
        colours.setdefault(who.id, _COLOURS[len(colours) % len(_COLOURS)])
        parts.append(_article(message, _face(who, colours[who.id]), same=who is before))
        before = who
    body = "".join(parts).replace(escape(there.at), "<mark>@Pixi</mark>").replace("@Mo", "<mark>@Mo</mark>")
    return (
        f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style>"
        "<header># general<span>a test server; a script writes Pixi’s part</span></header>"
        f"<main>{body}</main>"
    )


def _article(message: FakeMessage, face: str, *, same: bool) -> str:
    app = " <small>APP</small>" if message.author.bot else ""
    name = "" if same else f"<div><b>{escape(message.author.name)}</b>{app}</div>"
    text = escape(message.content)
    while "**" in text:
        text = text.replace("**", "<strong>", 1).replace("**", "</strong>", 1)
    pills = "".join(
        f'<div class="pill">{escape(each.text)}<i>{len(each.users)}</i></div>'
        for each in message.by_emoji.values()
    )
    return (
        f'<article class="{"more" if same else ""}">{"<div></div>" if same else face}'
        f"<div>{name}<div>{text}</div>{pills}</div></article>"
    )


def _face(who: User, colour: str) -> str:
    if who.bot:
        picture = b64encode((shipped_folder() / "pixi.png").read_bytes()).decode()
        return f'<img class="face" alt="" src="data:image/png;base64,{picture}">'
    return f'<div class="face" style="background:{colour}">{escape(who.name[0])}</div>'


async def main(folder: Path) -> None:
    """Write `discord-dark.png` and `discord-light.png`."""
    persona = _PIXI.read_text(encoding="utf-8").replace("pace: brisk", "pace: off")
    with TemporaryDirectory() as home:
        place = Path(home)
        (place / "pixi.toml").write_text("", encoding="utf-8")
        async with scene(place, *_REPLIES, personas={"pixi": persona}) as there:
            await talk(there)
            (place / "talk.html").write_text(page_of(there), encoding="utf-8")
        look = {"viewport": {"width": 760, "height": 100}, "device_scale_factor": 1.5}
        for theme in ("dark", "light"):
            async with browsing("file:", color_scheme=theme, **look) as (context, _):
                page = await context.new_page()
                await page.goto((place / "talk.html").as_uri())
                await page.screenshot(path=folder / f"discord-{theme}.png", full_page=True)
