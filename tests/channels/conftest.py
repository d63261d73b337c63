"""What is typed at the terminals of tests."""

from collections.abc import Iterator

import pytest
from prompt_toolkit.input import PipeInput, create_pipe_input


@pytest.fixture
def keys() -> Iterator[PipeInput]:
    with create_pipe_input() as typing:
        yield typing
