"""The figure of a call of an MCP tool is measured, in a tiny size; what comes out is not looked at."""

import pytest

from benchmarks import mcp


@pytest.mark.nightly
def test_a_call_beside_one_of_the_bare_sdk() -> None:
    figure = mcp.overhead(quick=True)
    assert figure.ours.endswith(" ms")
    assert set(figure.floors) == {"bare SDK `call_tool`", "our connection alone"}
    assert float(figure.ratios["Pixi / SDK"]) > 0
