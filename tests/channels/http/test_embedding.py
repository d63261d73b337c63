"""The page in a frame: who may frame it, and how its visitors get in."""

from tests.channels.http.served import Served, served

PAGE = "https://site.example"


async def fetched(here: Served, path: str, **headers: str) -> tuple[int, str, dict[str, str]]:
    async with here.http.get(here.url + path, headers=headers) as answer:
        return answer.status, await answer.text(), dict(answer.headers)


async def test_only_pages_of_the_key_may_frame_it() -> None:
    async with served() as here:
        public = await here.site("site", PAGE, "http://localhost:3000")
        status, text, headers = await fetched(
            here, f"/embed/pixi?key={public}", **{"Sec-Fetch-Dest": "iframe"}
        )
        assert (status, text[:15]) == (200, "<!doctype html>")
        policy = headers["Content-Security-Policy"]
        assert f"frame-ancestors {PAGE} http://localhost:3000;" in policy
        assert "default-src 'none'" in policy
        assert "X-Frame-Options" not in headers
        _, _, headers = await fetched(here, "/")
        assert "frame-ancestors 'none'" in headers["Content-Security-Policy"]


async def test_it_is_not_served_without_a_key_or_a_frame_or_for_another_persona() -> None:
    async with served() as here:
        public = await here.site("site", PAGE, personas=("edda",))
        secret = (await here.key("app", "chat"))["Authorization"].removeprefix("Bearer ")
        for path, frame, expected in (
            (f"/embed/edda?key={public}", "iframe", 200),
            (f"/embed/Edda?key={public}", "iframe", 200),
            (f"/embed/edda?key={public}", "document", 403),
            (f"/embed/pixi?key={public}", "iframe", 404),
            (f"/embed/nobody?key={public}", "iframe", 404),
            (f"/embed/edda?key={secret}", "iframe", 401),
            ("/embed/edda?key=pixi_pk_x", "iframe", 401),
            ("/embed/edda", "iframe", 401),
        ):
            status, text, headers = await fetched(here, path, **{"Sec-Fetch-Dest": frame})
            assert status == expected, path
            if expected != 200:
                assert headers["Content-Type"].startswith("text/plain")
                assert "<" not in text


async def test_the_page_in_the_frame_brings_a_visitor_who_is_nobody_elsewhere() -> None:
    async with served("[SEND: hey]") as here:
        public = await here.site("site", PAGE)
        own = await here.visitor(public, here.url)
        status, answer = await here.post("/api/chat", {"message": "hi", "conversation": "a"}, **own)
        assert (status, answer["text"]) == (200, "hey")
        reading = {"Authorization": own["Authorization"], "Sec-Fetch-Site": "same-origin"}
        assert (await here.get("/api/chat/a/messages", **reading))[0] == 200
        for origin in (PAGE, "https://evil.example", "null"):
            status, _ = await here.get("/api/chat/a/messages", **{**own, "Origin": origin})
            assert status in (401, 403)


async def test_files_of_pages_are_for_all_and_nothing_else_is() -> None:
    async with served() as here:
        stranger = {"Origin": "https://evil.example"}
        status, text, headers = await fetched(here, "/widget.js", **stranger)
        assert (status, headers["Access-Control-Allow-Origin"]) == (200, "*")
        path = text.split('"')[1]
        status, _, headers = await fetched(here, path, **stranger)
        assert (status, headers["Cross-Origin-Resource-Policy"]) == (200, "cross-origin")
        assert "Access-Control-Allow-Credentials" not in headers
        for path in ("/", "/api/personas", "/openapi.json", "/embed/pixi"):
            assert (await fetched(here, path, **stranger))[0] == 403
