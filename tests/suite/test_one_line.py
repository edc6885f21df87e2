"""Text of others cannot break a message's line, or its direction."""

from hypothesis import given
from hypothesis import strategies as st

from suite.errors import one_line


@given(st.text())
def test_it_is_printable_and_can_be_encoded(text: str) -> None:
    shown = one_line(text)
    assert shown.isprintable()
    shown.encode()  # a lone surrogate, as from a strange file name, would raise


@given(st.text(alphabet=st.characters(categories=["L", "N", "P"])))
def test_what_prints_stays_as_it_is(text: str) -> None:
    assert one_line(text) == text
