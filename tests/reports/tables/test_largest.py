"""Test that only running out of memory counts as too large, and the table on GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pandas as pd

from bakeoff.reports.pages.mixers import mixers_section
from bakeoff.reports.results.frame import results_frame
from bakeoff.reports.tables.largest import failures_in_words, largest_table
from bakeoff.suite.schema import MIXER_ALONE, MetricSpec
from tests.reports import conftest as synthetic
from tests.reports import mixers_alone
from tests.reports.conftest import known
from tests.reports.mixers_alone import PLACE, whole

GPU = replace(PLACE, device="NVIDIA H100", num_gpus=1.0)
TIME = MetricSpec(name="forward_backward_seconds", unit="s", better="lower")
RATE = MetricSpec(name="decode_tokens_per_second", unit="tokens/s", better="higher")
ABOUT = synthetic.about(
    variants=("a", "b", "c"),
    baseline="a",
    tasks=("t", MIXER_ALONE),
    claim=None,
    probes=("mixer_time", "decode"),
    metrics={},
    provenances={
        PLACE.environment_id: PLACE,
        GPU.environment_id: GPU,
    },
)
OUT = {"value": None, "status": "out_of_memory", "reason": "CUDA out of memory"}


def rows(place: Any, lost: dict[tuple[str, str], dict[str, Any]]) -> pd.DataFrame:
    """Return rows of three lengths, and three batches with two beams; `lost` changes some."""
    probes = {
        "mixer_time": (MIXER_ALONE, TIME, ["length=32", "length=512", "length=4096", "dim=64"]),
        "decode": (
            "t",
            RATE,
            [
                "length=64",
                "length=64, batch=8",
                "length=64, batch=64",
                "length=64, batch=512, beam=2",
            ],
        ),
    }
    made = [
        synthetic.row(
            ABOUT,
            variant,
            task,
            probe,
            spec,
            **{
                "value": 10.0 + seed,
                "seed": seed,
                "at": at,
                "environment_id": place.environment_id,
                **lost.get((variant, at), {}),
            },
        )
        for probe, (task, spec, places) in probes.items()
        for at in places
        for variant in ABOUT.variants
        for seed in range(3)
    ]
    return results_frame(made)


def test_the_last_that_fits_stands_beside_the_first_that_does_not() -> None:
    skipped = {"value": None, "status": "skipped", "reason": "it has no step form"}
    lost = {
        ("b", "length=4096"): OUT,
        ("b", "length=64, batch=64"): OUT,
        **{("c", at): OUT for at in ("length=32", "length=512", "length=4096")},
        **{("c", f"length=64{at}"): skipped for at in ("", ", batch=8", ", batch=64")},
    }
    table = known(largest_table(ABOUT, rows(PLACE, lost), PLACE.environment_id))
    said = {row.name: [(e.text, e.note) for e in row.entries] for row in table.rows}
    assert said == {
        "a": [("4,096", ""), ("64", "11 tokens/s")],
        "b": [("512", "out of memory at 4,096"), ("8", "11 tokens/s, out of memory at 64")],
        "c": [("out of memory at 32", ""), ("–", "")],
    }
    assert failures_in_words(ABOUT, rows(PLACE, lost), PLACE.environment_id) == (
        "B runs out of memory at 4,096 tokens; c runs out of memory at 32 tokens; "
        "b runs out of memory at 64 sequences."
    )


def test_what_one_process_managed_fits() -> None:
    frame = rows(PLACE, {})
    is_one = (frame["variant"] == "b") & (frame["at"] == "length=4096") & (frame["seed"] == 1)
    frame.loc[is_one, ["value", "status"]] = [None, "out_of_memory"]
    assert largest_table(ABOUT, frame, PLACE.environment_id) is None


def test_that_all_fits_is_said_of_a_gpu_alone() -> None:
    assert largest_table(ABOUT, rows(PLACE, {}), PLACE.environment_id) is None
    table = known(largest_table(ABOUT, rows(GPU, {}), GPU.environment_id))
    assert [column.title for column in table.columns] == [
        "longest sequence, forward and backward",
        "most sequences decoded at once, t",
    ]
    assert failures_in_words(ABOUT, rows(GPU, {}), GPU.environment_id) == ""


def test_a_page_has_it_where_a_mixer_ran_out_of_memory() -> None:
    frame = whole().results.copy()
    is_lost = (frame["variant"] == "kernel=materialised") & (frame["at"] == "length=4096")
    is_lost &= frame["metric"] == TIME.name
    frame.loc[is_lost, ["value", "status"]] = [None, "out_of_memory"]
    section = known(mixers_section(mixers_alone.about(), frame))
    (shown,) = (one for one in section.exhibits if one.title == "The largest that fits")
    assert shown.sentences[0] == "Kernel materialised runs out of memory at 4,096 tokens."
