"""Lines look different from one another, and their names keep clear of each other."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given
from hypothesis import strategies as st

from reports.plots.line_chart import spread
from reports.plots.style import MAX_LINES, line_look, marker

HEIGHTS = st.lists(st.floats(0, 1), min_size=1, max_size=MAX_LINES + 2)


@given(heights=HEIGHTS)
@example(heights=[0.9, 0.5, 0.1])
def test_names_keep_their_order_and_distance_and_stay_inside(heights: list[float]) -> None:
    ordered = sorted(heights, reverse=True)
    placed = spread(ordered)
    assert all(above - below > 0.0679 for above, below in pairwise(placed))
    assert placed[-1] >= 0
    assert placed[0] <= 1
    if all(above - below > 0.0681 for above, below in pairwise(ordered)):
        assert placed == ordered


def test_no_two_lines_look_alike() -> None:
    looks = {(str(line_look(index)), marker(index)) for index in range(MAX_LINES + 2)}
    assert len(looks) == MAX_LINES + 2
