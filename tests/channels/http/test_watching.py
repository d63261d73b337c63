"""Who may read the metrics of a server, and what it says of whether it is ready."""

from tests.channels.http.served import served

FROM_ELSEWHERE = {"X-Forwarded-For": "203.0.113.7"}
PAGE = "https://site.example"


async def test_metrics_are_for_this_machine_and_for_operators() -> None:
    async with served() as here:

        async def status(headers: dict[str, str]) -> int:
            async with here.http.get(here.url + "/metrics", headers=headers) as answer:
                text = await answer.text()
                assert ("pixi_turns" in text) == (answer.status == 200)
                return answer.status

        assert await status({}) == 200
        assert await status(FROM_ELSEWHERE) == 401
        assert await status(await here.key("scraper", "operate") | FROM_ELSEWHERE) == 200
        assert await status(await here.key("app", "chat", "chat:on-behalf", "approve")) == 403
        assert await status(await here.key("some", "operate", personas=("edda",))) == 403
        visitor = await here.visitor(await here.site("site", PAGE), PAGE)
        assert await status(visitor) == 403
        assert await status({"Origin": PAGE}) == 403
        assert await status({"Authorization": "Bearer pixi_sk_wrong"}) == 401


async def test_a_server_says_whether_it_is_ready_and_why_not() -> None:
    async with served() as here:
        assert await here.get("/readyz", **FROM_ELSEWHERE) == (200, {"ok": True})
        here.backend.why_unready = "The store does not answer."
        status, problem = await here.get("/readyz", **FROM_ELSEWHERE)
        assert (status, problem["detail"]) == (503, "The store does not answer.")
        assert await here.get("/healthz") == (200, {"ok": True})
