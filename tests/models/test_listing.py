"""What models a server lists."""

import pytest

from pixi.core.errors import ModelError
from pixi.models.chat.door import OpenAIChat
from pixi.models.deadlines import Deadlines
from tests.servers.scripted_openai import Close, Hang, Reply, ScriptedOpenAI, answer, error, page

LISTING = answer(
    200,
    {"object": "list", "data": [{"id": "tiny", "object": "model", "owned_by": "me"}, {"id": "large"}]},
)


async def test_the_models_of_a_server() -> None:
    async with ScriptedOpenAI(LISTING) as server:
        model = OpenAIChat("tiny", base_url=server.base_url, api_key="sk-canary-7f3a")
        assert await model.models() == ["tiny", "large"]
        (seen,) = server.requests
    assert (seen.method, seen.path) == ("GET", "/v1/models")
    assert seen.headers["authorization"] == "Bearer sk-canary-7f3a"


async def test_a_server_without_models() -> None:
    async with ScriptedOpenAI(answer(200, {"object": "list", "data": None})) as server:
        assert await OpenAIChat("tiny", base_url=server.base_url).models() == []


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        pytest.param(error(401, "Wrong key sk-canary-7f3a"), "check OPENAI_API_KEY", id="401"),
        pytest.param(error(500, "Oh no, sk-canary-7f3a"), r"failed \(500\)", id="500"),
        pytest.param(answer(404, {"detail": "Not Found"}), "check base_url", id="404"),
        pytest.param(page(), "does not answer as a model server, but with a web page", id="page"),
        pytest.param(page(404), "web page", id="page, 404"),
        pytest.param(answer(200, {"hello": 1}), "does not answer as a model server", id="another JSON"),
        pytest.param(answer(200, '{"data": ['), "does not answer as a model server", id="broken JSON"),
        pytest.param(Reply((Close(),)), "Nothing answers at 127", id="closed"),
        pytest.param(Reply((Hang(),)), "sent no words for 0.3 s", id="stall"),
    ],
)
async def test_faults(reply: Reply, says: str) -> None:
    async with ScriptedOpenAI(reply) as server:
        model = OpenAIChat(
            "tiny", base_url=server.base_url, api_key="sk-canary-7f3a", deadlines=Deadlines(first=0.3)
        )
        with pytest.raises(ModelError, match=says) as caught:
            await model.models()
        assert len(server.requests) == 1
    assert "sk-canary" not in str(caught.value) + repr(caught.value)


async def test_nobody_answers() -> None:
    model = OpenAIChat("tiny", base_url="http://127.0.0.1:1/v1")
    with pytest.raises(ModelError, match=r"Nothing answers at 127\.0\.0\.1:1 \("):
        await model.models()
