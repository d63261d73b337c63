"""The benchmarks of retrieval: what comes back from helpers of several manners, and for how many tokens."""

import asyncio
from itertools import islice

import pytest

from benchmarks import retrieval, retrieval_tokens


@pytest.mark.parametrize("language", retrieval.LANGUAGES)
def test_what_a_helper_names_comes_back_and_what_it_falsifies_never_does(language: str) -> None:
    tallies = asyncio.run(retrieval.measure(islice(retrieval.written(language), 10)))
    for manner in ("names the number", "names it twice, as text, and one beyond the end", "quotes it"):
        assert tallies[manner].found == tallies[manner].asked > 0
        assert tallies[manner].beside == 0
    assert tallies["falsifies it"].beside == 0
    assert tallies["names the number"].tokens < tallies["quotes it"].tokens


@pytest.mark.nightly
def test_the_figures() -> None:
    (figure,) = retrieval.run(quick=True)
    assert figure.met
    (figure,) = retrieval_tokens.run(quick=True)
    assert float(figure.ratios["in the prompt / agent"]) > 5
