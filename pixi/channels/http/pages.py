"""Pages: served from memory, and one of them in the frame of another site."""

import gzip
import hashlib
import re
from collections.abc import Iterable
from functools import cache, cached_property
from pathlib import Path

from aiohttp import web

from pixi.channels.engine import HttpBackend
from pixi.channels.http.access import PLAIN, Problem, persona_named
from pixi.channels.http.visitors import Visitors

_FOLDER = Path(__file__).parent / "page"
_KINDS = {
    ".html": "text/html",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
}
_FOR_EVER = "public, max-age=31536000, immutable"
_FOR_ALL = {"Access-Control-Allow-Origin": "*", "Cross-Origin-Resource-Policy": "cross-origin"}
_CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "font-src 'self'; media-src 'self' blob:; manifest-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors {ancestors}; require-trusted-types-for 'script'; trusted-types 'none'"
)
_QUALITY = re.compile(r"0(\.\d{0,3})?|1(\.0{0,3})?")
_LONGEST_HEADER = 300
_OTHERS = "vendor/"  # what others wrote is served with the names of who they are
_COMMENT = re.compile(
    rb"^[ \t]*(?:/\*(?:(?!\*/).)*\*/[ \t]*|//[^\n]*)$|/\*\* @type \{(?:(?!\*/).)*\*/ ?",
    re.DOTALL | re.MULTILINE,
)
"""Comments on lines of their own, and types: a third of what would be loaded. Lines stay where they are."""

PUBLIC_PATHS = ("/page/", "/widget.js")
"""Paths of files that pages of all origins may load: they hold nothing that is anybody's."""


# The pages for browsers: the talk, the studio, and the files that they are made of.
#
# The files are served as they lie in the folder `page`; nothing is built. All of them but the three
# documents go by a path that holds the digest of the whole folder, so that a browser keeps them for ever
# and never mixes those of two versions. Documents are asked for anew each time.
#
# Everything that pages show comes from strangers. So scripts, styles and connections are those of this
# server alone, no text ever becomes a script, and no other page may frame one of ours, but where an
# operator named it.


class StaticFiles:
    """Serves the files of the pages from memory."""

    def __init__(self) -> None:
        self._body = cache(self._read)
        self._document = cache(self._fill)

    @cached_property
    def _files(self) -> dict[str, bytes]:
        """All files by their paths in the folder."""
        found = sorted(path for path in _FOLDER.rglob("*") if path.suffix in _KINDS)
        return {path.relative_to(_FOLDER).as_posix(): path.read_bytes() for path in found}

    @cached_property
    def root(self) -> str:
        """The path below which the files are served, which changes with any of them."""
        digest = hashlib.sha256()
        for name, data in self._files.items():
            digest.update(f"{name}\0{len(data)}\0".encode() + data)
        return f"/page/{digest.hexdigest()[:16]}"

    async def file(self, request: web.Request) -> web.Response:
        """Answer with a file of this version.

        Raises:
            Problem: 404, there is none, or it is another version's.
        """
        name = request.match_info["path"]
        if not request.path.startswith(f"{self.root}/") or name not in self._files or name.endswith(".html"):
            raise Problem(404, "No such file", "There is nothing here; load the page again.")
        return self._answer(request, name, {"Cache-Control": _FOR_EVER, **_FOR_ALL})

    async def widget(self, request: web.Request) -> web.Response:
        """Answer with the script that other people's pages load by a name that stays the same."""
        body = f'import "{self.root}/widget/widget.js";\n'.encode()
        return web.Response(
            body=body, content_type="text/javascript", headers={"Cache-Control": "no-cache", **_FOR_ALL}
        )

    def document(
        self, request: web.Request, name: str, ancestors: Iterable[str] = ("'none'",)
    ) -> web.Response:
        """Answer with a page. `ancestors`: origins of the pages that may frame it."""
        framed = " ".join(ancestors)
        headers = {
            "Cache-Control": "no-cache",
            "Content-Security-Policy": _CSP.format(ancestors=framed),
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        if framed == "'none'":
            headers["X-Frame-Options"] = "DENY"
        if "gzip" in request.headers.get("Accept-Encoding", ""):
            headers["Content-Encoding"] = "gzip"
        language = self._language(request.headers.get("Accept-Language", ""))
        packed = self._document(name, language, "Content-Encoding" in headers)
        headers["Vary"] = "Accept-Encoding, Accept-Language"
        return web.Response(body=packed, content_type="text/html", charset="utf-8", headers=headers)

    def _fill(self, name: str, language: str, packs: bool) -> bytes:
        """Return a document with the paths of this version in it."""
        text = self._files[name].replace(b"{{root}}", self.root.encode())
        text = text.replace(b"{{language}}", language.encode())
        return gzip.compress(text, mtime=0) if packs else text

    @cached_property
    def _languages(self) -> dict[str, str]:
        """The languages of the pages, by their tags and by the first part of these, in small letters."""
        tags = [Path(name).stem for name in self._files if name.startswith("words/talk/")]
        return {tag.lower().split("-")[0]: tag for tag in tags} | {tag.lower(): tag for tag in tags}

    def _language(self, accepted: str) -> str:
        """Return the language that a reader wants most of those there are; English where there is none.

        Args:
            accepted: the header Accept-Language.
        """
        wanted: list[tuple[float, str]] = []
        for part in accepted[:_LONGEST_HEADER].lower().split(","):
            tag, _, quality = part.strip().partition(";q=")
            wanted.append((float(quality) if _QUALITY.fullmatch(quality) else 1.0, tag))
        wanted.sort(key=lambda each: -each[0])  # of the same quality, the first stays first
        for _, tag in wanted:
            known = self._languages.get(tag) or self._languages.get(tag.split("-")[0])
            if known:
                return known
        return "en"

    def _answer(self, request: web.Request, name: str, headers: dict[str, str]) -> web.Response:
        kind = _KINDS[Path(name).suffix]
        packs = "gzip" in request.headers.get("Accept-Encoding", "") and not name.endswith(".png")
        if packs:
            headers["Content-Encoding"] = "gzip"
        body = self._body(name, packs)
        return web.Response(
            body=body, content_type=kind, charset="utf-8", headers={**headers, "Vary": "Accept-Encoding"}
        )

    def _read(self, name: str, packs: bool) -> bytes:
        """Return a file without its comments."""
        data = self._files[name]
        if name.endswith((".js", ".css")) and not name.startswith(_OTHERS):
            data = _COMMENT.sub(lambda comment: b"\n" * comment[0].count(b"\n"), data)
        return gzip.compress(data, mtime=0) if packs else data


_FRAMES = ("iframe", "frame")


# The talk in a frame of somebody's page: who may frame it, and how a visitor of that page gets in.
#
# The page in the frame is this server's own, so what a browser says of where a request comes from tells
# nothing of the page around it. That is told to the browser instead, which holds to it: `frame-ancestors`
# names the origins of the publishable key, and nobody else's page shows the frame at all. By itself, in a
# tab of its own, the page is not served: there the key was made for nobody.


def page_routes(visitors: Visitors, backend: HttpBackend) -> list[web.RouteDef]:
    """Return the routes of the pages and their files, which are no part of the API.

    Args:
        visitors: knows publishable keys.
        backend: knows personas.
    """
    pages = StaticFiles()

    async def talk(request: web.Request) -> web.StreamResponse:
        return pages.document(request, "talk/index.html")

    async def studio(request: web.Request) -> web.StreamResponse:
        return pages.document(request, "studio/index.html")

    async def framed(request: web.Request) -> web.StreamResponse:
        """Answer with the page for a persona, to be framed by pages of the key alone.

        Raises:
            Problem: 401, the key does not hold; 403, it would stand in no frame; 404, there is no such
                persona for it.
        """
        request[PLAIN] = True  # it is a person who reads it
        # Browsers without this header are held to `frame-ancestors` all the same.
        if request.headers.get("Sec-Fetch-Dest", _FRAMES[0]) not in _FRAMES:
            raise Problem(403, "Only in a frame", "This page stands in frames of others; see docs/widget.md.")
        key = await visitors.publishable_key(request.query.get("key", ""))
        if not persona_named(request.match_info["persona"], backend.personas, key.personas):
            raise Problem(404, "No such persona", "There is no persona of that name for this key.")
        return pages.document(request, "talk/embed.html", key.origins)

    return [
        web.get("/", talk),
        web.get("/studio{path:(/.*)?}", studio),
        web.get("/embed/{persona}", framed),
        web.get("/widget.js", pages.widget),
        web.get("/page/{version}/{path:.+}", pages.file),
    ]
