"""One fresh process of the tests in test_truth.py: pairs of equal mixers, at many lengths.

Run it as ``python -m tests.suite.timing.one_process SEED FILE``; the file is JSON.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import torch

from bakeoff.models import ModelSpec
from bakeoff.suite.probes.mixer_time import MixerTime
from bakeoff.suite.schema import Measurement
from bakeoff.suite.timing.stopping import DEFAULT
from tests.suite.timing.subjects import alone, trial_of

DIM = 64
# On a busy machine this resolution takes longer than the budget of quick trials.
PATIENT = replace(DEFAULT, half_width=0.01, seconds=8.0, most_seconds=10.0)
LINFORMER = {"projected_length": 64}
PAIRS: tuple[tuple[str, int], ...] = (
    ("attention", 64),
    ("lstm", 64),
    ("conv", 128),
    ("linformer", 128),
    ("performer", 256),
    ("fnet", 256),
    ("plain_attention", 512),
    ("gru", 512),
    ("attention", 1024),
    ("lstm", 1024),
    ("separable_conv", 1024),
    ("linear_transformer", 2048),
    ("local_attention", 2048),
    ("conv", 2048),
    ("dilated_conv", 4096),
    ("linformer", 4096),
    ("fnet", 4096),
    ("gru", 128),
    ("gated_conv", 256),
    ("mlp_mixer", 512),
)


def spec_of(mixer: str, length: int) -> ModelSpec:
    return alone(mixer, length, DIM, **(LINFORMER if mixer == "linformer" else {}))


def main(seed: int, file: Path) -> None:
    torch.set_num_threads(1)
    found = []
    for mixer, length in PAIRS:
        spec = spec_of(mixer, length)
        for said in MixerTime(PATIENT).measure(trial_of(spec, spec, seed=seed), "cpu"):
            assert isinstance(said, Measurement)
            found.append(
                [mixer, length, said.metric, said.subject, said.value, said.status, said.reason]
            )
    file.write_text(json.dumps(found))


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]))
