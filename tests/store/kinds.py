"""Which databases a test of the store is for, where not for both."""

import pytest

in_a_file = pytest.mark.parametrize("url", ["sqlite"], indirect=True)
everywhere = pytest.mark.parametrize("url", ["sqlite", "memory", "postgres"], indirect=True)
