"""Models that cannot be: as a baseline refused by name, as a cell of a cross a row with its reason.

Through the installed command, in a process of its own, as a person would meet them.
"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.suite.small_ablation import WriteAblation

BAKEOFF = Path(sys.executable).with_name("bakeoff")
PATCHES = '["fashion_mnist_patches"]'


def _plan(path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(BAKEOFF), "plan", str(path), *options], capture_output=True, text=True, timeout=60,
        check=False, cwd=path.parent,
    )  # fmt: skip


IMPOSSIBLE = {
    "a causal fnet": (
        'mixer="fnet"', '["shakespeare_characters"]',
        "impossible on shakespeare_characters: fnet cannot be causal, and a language_model must",
    ),
    "heads that do not divide the width": (
        'mixer="attention", heads=3', PATCHES, "attention: heads=3 does not divide dim=16",
    ),
    "rope on fnet": (
        'mixer="fnet", position="rope"', PATCHES,
        "fnet takes no relative position (rope): it computes no score of one token for another",
    ),
    "rope beside the embeddings": (
        'mixer="attention", position="rope", position_mode="concatenated"', PATCHES,
        "position='rope' acts inside the mixer: there is nothing to concatenate with",
    ),
    "a linformer beyond its length": (
        'mixer="linformer", projected_length=50', PATCHES,
        "linformer: projected_length=50 is more than the 49 tokens of the sequence",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_an_impossible_baseline_is_refused_by_name(
    case: str, write_ablation: WriteAblation
) -> None:
    model, tasks, reason = IMPOSSIBLE[case]
    path = write_ablation(baseline=f"Model({model})", tasks=tasks, axes='[vary("depth", [1, 2])]')
    ended = _plan(path)
    assert ended.returncode == 2, ended
    assert ended.stdout == ""
    assert "the baseline is impossible" in ended.stderr
    assert reason in ended.stderr
    assert str(path) in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_impossible_cells_of_a_cross_are_skipped_rows_with_their_reason(
    write_ablation: WriteAblation,
) -> None:
    path = write_ablation(
        tasks='["shakespeare_characters", "fashion_mnist_patches"]',
        axes='[vary("mixer", ["attention", "fnet"]), vary("position", ["sinusoidal", "rope"]), '
        'vary("pooling", ["mean", "class_token"])], combine="cross"',
        probes='["parameters"]',
    )  # fmt: skip
    ended = _plan(path, "--json")
    assert ended.returncode == 0, ended
    rows = {(row["task"], row["variant"]): row for row in json.loads(ended.stdout)}
    assert len(rows) == 2 * 2**3
    told = {key: row["reason"] for key, row in rows.items() if row["state"] == "skipped"}
    assert all(row["reason"] == "" for key, row in rows.items() if key not in told)
    assert told == {**_skipped_of_text(), **_skipped_of_images()}


def _label(mixer: str, position: str, pooling: str) -> str:
    return f"mixer={mixer}, position={position}, pooling={pooling}"


def _skipped_of_text() -> dict[tuple[str, str], str]:
    """FNet is not causal; a language model pools nothing."""
    reasons = {"fnet": "fnet cannot be causal, and a language_model must be"}
    return {
        ("shakespeare_characters", _label(mixer, position, pooling)): reasons.get(
            mixer, "language_model has no knob 'pooling'"
        )
        for mixer in ("attention", "fnet")
        for position in ("sinusoidal", "rope")
        for pooling in ("mean", "class_token")
        if mixer == "fnet" or pooling == "class_token"
    }


def _skipped_of_images() -> dict[tuple[str, str], str]:
    """FNet has no scores for RoPE to act on."""
    reason = "fnet takes no relative position (rope): it computes no score of one token for another"
    return {
        ("fashion_mnist_patches", _label("fnet", "rope", pooling)): reason
        for pooling in ("mean", "class_token")
    }
