"""Each damage of a checkpoint has a name of its own, since its folder is called by it."""

from __future__ import annotations

from collections import Counter

import pytest

from tools.chaos.checkpoints import damages_of

FILES = ["model.safetensors", "moments.safetensors", "rates.json", "worker-0.json"]


@pytest.mark.parametrize(("num_cuts", "num_flips"), [(1, 6), (10, 100), (10, 1_000)])
def test_no_two_damages_have_one_name(num_cuts: int, num_flips: int) -> None:
    names = Counter(map(str, damages_of(FILES, num_cuts, num_flips)))
    assert [name for name, count in names.items() if count > 1] == []
