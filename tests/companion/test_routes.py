"""The routes by which an app submits spots, and its admins decide about them."""

from pixi.companion.routes import routes_of
from pixi.companion.tools import Companion
from pixi.web.fetching import Web
from tests.channels.http.served import served
from tests.companion.conftest import tables


async def test_only_the_same_spot_of_the_same_person_is_the_same_draft() -> None:
    async with tables() as data, Web() as web, served(routes=routes_of(Companion(data, web))) as here:
        key = await here.key("app", "chat", "chat:on-behalf", "approve")
        spot = {"name": "Skatepark", "type": "street", "city": "Wexcombe", "userId": "7"}
        ids = []
        for other in ({}, {}, {"city": "Lanten"}, {"description": "By the river."}, {"userId": "8"}):
            status, draft = await here.post("/api/spots/draft", spot | other, **key)
            assert status == 200
            ids.append(draft["_id"])
        assert ids[0] == ids[1]
        assert len(set(ids)) == 4
        assert [draft.city for draft in await data.drafts()].count("Lanten") == 1
