"""Check that learned positions are resized to another grid as in timm.

The tests need the public packages of the extra `bench`; `make parity-test` installs them.
"""

from __future__ import annotations

import math

import pytest
import torch

from bakeoff.models.positions.absolute import LearnedPosition
from tests.parity.without_torchvision import timm

pytestmark = [
    pytest.mark.parity,
    pytest.mark.filterwarnings("default"),  # the packages raise warnings about their own parts
]


@pytest.mark.parametrize("num_before", [0, 1, 2])
@pytest.mark.parametrize(
    ("old", "new"),
    [((7, 7), (14, 14)), ((14, 14), (24, 24)), ((4, 6), (10, 15)), ((12, 8), (3, 2))],
)
def test_a_table_is_interpolated_as_by_timm(
    old: tuple[int, int], new: tuple[int, int], num_before: int
) -> None:
    torch.manual_seed(0)
    table = torch.randn(num_before + math.prod(old), 5)
    position = LearnedPosition(dim=5, max_length=num_before + math.prod(new), grid=new)
    theirs = timm().layers.resample_abs_pos_embed(
        table[None], new_size=list(new), old_size=list(old), num_prefix_tokens=num_before
    )
    torch.testing.assert_close(position.resampled("table", table), theirs[0], rtol=0, atol=1e-6)
