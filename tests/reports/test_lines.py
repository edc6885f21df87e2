"""Can lines be told apart, and do their names keep clear of one another?"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from reports.lines import MAX_LINES, look, marker, spread

HEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=MAX_LINES + 2)


@given(heights=HEIGHTS)
def test_names_keep_their_order_and_distance_and_stay_inside(heights: list[float]) -> None:
    placed = spread(sorted(heights, reverse=True))
    gaps = [above - below for above, below in pairwise(placed)]
    assert all(gap > 0.0679 for gap in gaps)
    assert placed[-1] >= 0
    assert placed[0] <= 1


def test_names_that_are_apart_stay_where_they_are() -> None:
    assert spread([0.9, 0.5, 0.1]) == [0.9, 0.5, 0.1]


def test_no_two_lines_look_alike() -> None:
    looks = [(str(look(index)), marker(index)) for index in range(MAX_LINES + 2)]
    assert len(set(looks)) == len(looks)
