"""Which models a server lists, for `doctor` and the like. Not hot, so the openai package asks."""

import msgspec

from pixi.models import faults
from pixi.models.complaint import complaint_in, looks_like_page
from pixi.models.deadlines import Overdue
from pixi.models.faults import Server


class _Model(msgspec.Struct):
    id: str


class _Listing(msgspec.Struct):
    data: list[_Model] | None  # null at a server that has none yet


async def listed_models(server: Server, seconds: float) -> list[str]:
    """The ids of the models at a server, in its order. One attempt, of at most so many seconds.

    Raises:
        ModelError: it could not be asked, refused, or answered something else.
    """
    # Imported here: it takes half a second.
    import openai

    client = openai.AsyncOpenAI(
        base_url=server.base_url, api_key=server.sent_key, max_retries=0, timeout=seconds
    )
    try:
        async with client:
            # Raw, because the package's own reading of a foreign body ends in an AttributeError.
            answer = await client.models.with_raw_response.list()
            content = answer.content
    except openai.APIStatusError as error:
        complaint = complaint_in(error.response.content, error.status_code)
        raise faults.refusal(server, complaint, faults.retry_after(error.response.headers)) from error
    except openai.APITimeoutError as error:
        raise faults.overdue(server, Overdue("listing", seconds)) from error
    except openai.APIConnectionError as error:
        raise faults.nothing_answers(server, _innermost(error)) from error
    return ids_in(content, server)


def ids_in(content: bytes, server: Server) -> list[str]:
    """The ids in a listing, as OpenAI and Anthropic write it.

    Raises:
        ModelError: it is none.
    """
    try:
        return [model.id for model in msgspec.json.decode(content, type=_Listing).data or ()]
    except (ValueError, RecursionError):
        content_type = "a web page" if looks_like_page(content) else "something else"
        raise faults.no_reply(server, content_type) from None


def _innermost(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
