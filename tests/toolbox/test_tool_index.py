"""Which tools a text is about."""

from pixi.core.llm import ToolSchema
from pixi.toolbox.tool_index import ToolIndex


def test_a_tool_whose_arguments_change_is_found_by_the_new_ones() -> None:
    index = ToolIndex()
    for argument in ("city", "harbour"):
        tool = ToolSchema("forecast", "Tell the weather.", {"properties": {argument: {"type": "string"}}})
        index.take([tool])
        assert "forecast" in index.scores([(argument, 1.0)])
