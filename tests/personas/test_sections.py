"""The sections of a persona's Markdown: which are the prompt, and which are taken out of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pixi.personas.front_matter import LintError
from pixi.personas.sections import EXAMPLES, IN_SHORT, SourceLine, join, number_lines, read_sections


def test_two_sections_are_taken_out_and_the_rest_stays_in_order() -> None:
    read = read_sections("# Pixi\nart\n\n## Examples\n\n> hi\n\n## Likes\n\ncats\n\n## In short\n\nYou.\n", 1)
    assert join(read.prompt) == "# Pixi\nart\n\n## Likes\n\ncats"
    assert join(read.examples) == "> hi"
    assert join(read.in_short) == "You."
    assert read.examples[1] == SourceLine(6, "> hi")
    assert read.remarks == ()


@pytest.mark.parametrize(
    "heading",
    ["## Examples", "# examples", "### EXAMPLES ###", "## Example:", "##  **Examples**  ", "  ## Examples"],
)
def test_the_heading_may_be_written_in_many_ways(heading: str) -> None:
    assert join(read_sections(f"art\n{heading}\n> hi", 1).examples) == "> hi"


def test_a_deeper_heading_stays_in_the_examples_and_ends_the_short_form() -> None:
    read = read_sections("## Examples\n### When sad\n> hi\n## In short\nYou.\n### More\nart", 1)
    assert join(read.examples) == "### When sad\n> hi"
    assert join(read.in_short) == "You."
    assert join(read.prompt) == "### More\nart"


def test_code_is_no_heading() -> None:
    text = "art\n```\n## Examples\n```\n~~~ md\n```\n## In short\n~~~\n"
    read = read_sections(text, 1)
    assert join(read.prompt) == text.rstrip()
    assert read.examples == read.in_short == ()


@pytest.mark.parametrize("name", [EXAMPLES, IN_SHORT])
def test_a_section_that_stands_twice_is_a_fault(name: str) -> None:
    with pytest.raises(LintError) as caught:
        read_sections(f"## {name}\na\n## Other\nb\n## {name}\nc", 10)
    assert caught.value.line == 14
    assert f"`## {name}` stands on line 10 already" in caught.value.text


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("## Exampels", EXAMPLES),
        ("##Examples", EXAMPLES),
        ("**Examples:**", EXAMPLES),
        ("## Example exchanges", EXAMPLES),
        ("## In sort", IN_SHORT),
        ("#In short", IN_SHORT),
        ("## In-short", IN_SHORT),
    ],
)
def test_a_heading_that_is_nearly_one_of_the_two_is_told(line: str, name: str) -> None:
    (remark,) = read_sections(f"art\n{line}\n> hi", 1).remarks
    assert remark.line == 2
    assert f"write `## {name}`" in remark.text


@pytest.mark.parametrize(
    "line", ["## Likes", "for examples, see below", "Examples", "## Sample prints", "##"]
)
def test_other_lines_are_not(line: str) -> None:
    assert read_sections(f"art\n{line}\n", 1).remarks == ()


def test_a_fence_that_never_closes_is_told_where_it_opens() -> None:
    (remark,) = read_sections("art\n```\nx\n```\n```text\n## Examples\n> hi", 1).remarks
    assert remark.line == 5
    assert read_sections("art\n```\nx\n```", 1).remarks == ()
    assert read_sections("```not a fence```\nart", 1).remarks == ()


@given(st.text(alphabet=st.sampled_from("#` ~>Examples\nIn short:")), st.integers(1, 5))
def test_no_line_is_lost_and_every_line_keeps_its_number(text: str, first_line: int) -> None:
    try:
        read = read_sections(text, first_line)
    except LintError:
        return
    numbered, _ = number_lines(text, first_line)
    kept = {*read.prompt, *read.examples, *read.in_short}
    assert kept <= set(numbered)
    assert all("#" in line.text for line in set(numbered) - kept)
