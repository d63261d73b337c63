"""Each fault of a server of the Responses API: a reply or one clear error, soon, and nothing left over."""

import re
import time

import pytest

from pixi.core.deltas import Request, Text
from pixi.core.errors import ModelError
from pixi.core.lines import SystemLine, UserLine
from pixi.models.faults import Retries
from pixi.models.responses.door import Responses
from tests.models.test_server_faults import KEY, deadlines_for, nothing_left
from tests.servers.model_faults import SAID, Fault, served
from tests.servers.responses_faults import RESPONSES_FAULTS

HI = Request((SystemLine("You are Pixi."), UserLine("mo: hi")))


@pytest.mark.parametrize("fault", RESPONSES_FAULTS, ids=str)
async def test_a_fault_ends_in_a_reply_or_one_clear_error(fault: Fault) -> None:
    said, error = "", None
    async with nothing_left(), served(fault) as faulty:
        model = Responses(
            "scripted-8b",
            base_url=faulty.base_url,
            api_key=KEY,
            deadlines=deadlines_for(fault),
            retries=Retries(base=0.001),
        )
        begin = time.monotonic()
        try:
            async for delta in model.stream(HI):
                said += delta.text if isinstance(delta, Text) else ""
        except ModelError as caught:
            error = caught
        finally:
            await model.close()
        assert time.monotonic() - begin < (3 if fault.stalls else 15)
    assert len(faulty.requests) == fault.asked
    if fault.says:
        assert re.search(fault.says, str(error)), error
        assert "\n" not in str(error)
        assert KEY not in str(error)
        assert said == fault.heard
    else:
        assert error is None
        assert said == SAID
