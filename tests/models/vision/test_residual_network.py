"""Check that networks of few channels train on any processor."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.whole

PROGRAM = """
import torch
from bakeoff.models import ModelSpec, build_model
torch.set_num_threads(1)
model = build_model(ModelSpec(
    architecture="resnet", dim={width}, length=48 * 48, grid=(48, 48), input_kind="image",
    input_size=3, output_size=2, settings={{"blocks": "1-1"}},
))
for _ in range(4):
    model(torch.randn(8, 48, 48, 3)).square().mean().backward()
"""


@pytest.mark.parametrize("width", [2, 4])
def test_without_avx_512_memory_is_not_written_beyond_its_end(width: int) -> None:
    """Run oneDNN's AVX2 kernels with an allocator that aborts on a damaged block.

    With channels last, torch 2.13 damages one in the shortcut from the first to the second stage.
    """
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": "AVX2", "MALLOC_CHECK_": "3"}
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(width=width)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
