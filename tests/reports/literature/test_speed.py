"""Test that published speeds are quoted correctly, with the right numbers and limitations."""

from __future__ import annotations

import statistics
from functools import cache

import pytest

from bakeoff.reports.document import ReportTable, Row
from bakeoff.reports.literature.csv import CONDITIONS, rows_of
from bakeoff.reports.literature.speed import printed, published_table
from bakeoff.reports.results.length_sweep import growths
from bakeoff.suite.schema import About, MixerFacts, Provenance
from tests.reports import mixers_alone
from tests.reports.conftest import known
from tests.reports.mixers_alone import whole


def _made(about: About | None = None) -> ReportTable | None:
    grown = growths(whole().about, whole().results)
    return published_table(about or whole().about, grown, mixers_alone.PLACE.environment_id)


@cache
def _table() -> ReportTable:
    return known(_made())


def _row(start: str) -> Row:
    (row,) = (row for row in _table().rows if row.name.startswith(start))
    return row


def _number(row: Row, key: str) -> float | None:
    index = [column.key for column in _table().columns].index(key)
    return row.entries[index].estimate.point


def _seconds(variant: str, metric: str, at: str) -> dict[int, float]:
    rows = whole().results.query("variant == @variant and metric == @metric and at == @at")
    return dict(zip(rows["seed"], rows["value"], strict=True))


def test_ratios_are_those_of_the_papers() -> None:
    """Compare with LRA's Table 2 at 1K: Linformer 9.3 and 0.37, the Transformer 8.1 and 0.85."""
    found = {
        (one.system, one.length, one.projected_length, one.is_memory): one.ratio
        for one in printed()
    }
    assert found["Linformer", 1024, 0, False] == pytest.approx(9.3 / 8.1)
    assert found["Linformer", 1024, 0, True] == pytest.approx(0.85 / 0.37)
    assert found["Linformer", 65536, 128, False] == 20
    assert found["FNet", 512, 0, False] == 1.8


def test_what_was_not_checked_is_not_quoted() -> None:
    """Check that the unverified TPU figure in fnet.csv is not quoted."""
    assert [one.ratio for one in printed() if one.system == "FNet"] == [1.8]


def test_only_what_has_a_counterpart_is_shown() -> None:
    names = [row.name for row in _table().rows]
    assert names == [
        *(
            f"{system}, {n}, training"
            for system in ("Linformer", "Performer")
            for n in ("1,024 tokens", "2,048 tokens", "4,096 tokens")
        ),
        *(f"Linformer, {n} tokens, k=128, inference" for n in ("512", "1,024", "2,048", "4,096")),
        "FNet, 512 tokens, training",
    ]


def test_ours_are_the_median_ratios_to_each_kernel() -> None:
    row = _row("Linformer, 1,024 tokens, training")
    mine = _seconds("mixer=linformer", "forward_backward_seconds", "length=1024")
    for rival, key in (("kernel=materialised", "written_out"), ("baseline", "fused")):
        theirs = _seconds(rival, "forward_backward_seconds", "length=1024")
        ratio = statistics.geometric_mean(theirs[seed] / mine[seed] for seed in mine)
        assert _number(row, f"ours_speed_against_{key}_attention") == pytest.approx(ratio)
    assert _number(row, "published_speed") == pytest.approx(9.3 / 8.1)


def test_inference_is_held_against_the_forward_pass() -> None:
    row = _row("Linformer, 512 tokens, k=128, inference")
    mine = _seconds("mixer=linformer", "forward_seconds", "length=512")
    theirs = _seconds("baseline", "forward_seconds", "length=512")
    ratio = statistics.geometric_mean(theirs[seed] / mine[seed] for seed in mine)
    assert _number(row, "ours_speed_against_fused_attention") == pytest.approx(ratio)
    peaks = [
        _seconds(v, "forward_peak_bytes", "length=512")[0]
        for v in ("kernel=materialised", "mixer=linformer")
    ]
    found = _number(row, "ours_memory_against_written_out_attention")
    assert found == pytest.approx(peaks[0] / peaks[1])


def test_why_nothing_compares_is_read_off_both_sides() -> None:
    said = {row.name: row.entries[-1].text for row in _table().rows}
    assert said["Performer, 1,024 tokens, training"] == "no: whole model, 4x4 TPU v3, batch 32"
    assert said["FNet, 512 tokens, training"] == "no: whole model, GPU"
    assert said["Linformer, 512 tokens, k=128, inference"] == (
        "no: whole model, device not noted, k=128 (here 32)"
    )
    assert "AMD EPYC 7B13" in _table().introduction


def test_the_same_hardware_is_no_difference() -> None:
    place = Provenance(
        commit="c",
        device="slice of a 4x4 TPU v3",
        num_threads=2,
        num_cpus=2,
        num_gpus=0,
        versions={},
    )
    about = mixers_alone.about(provenances={mixers_alone.PLACE.environment_id: place})
    made = known(_made(about))
    assert made.rows[0].entries[-1].text == "no: whole model, batch 32"


def test_one_kernel_is_one_rival_and_none_is_no_table() -> None:
    said = mixers_alone.about()
    one = {name: facts for name, facts in said.subjects.items() if name != "kernel=materialised"}
    made = known(_made(mixers_alone.about(subjects=one)))
    notes = [column.note for column in made.columns]
    assert notes == ["published", "measured here, against attention"] * 2 + [""]
    none = {name: MixerFacts(mixer="lstm") for name in said.variants}
    assert _made(mixers_alone.about(subjects=none)) is None


def test_every_condition_of_the_table_is_one_of_its_file_and_agrees_with_its_words() -> None:
    for row in rows_of(CONDITIONS):
        assert row["condition"] in {figure["condition"] for figure in rows_of(row["file"])}
        said = row["condition"]
        assert f"n={row['length']}" in said or f"length {row['length']}" in said
        assert row["projected_length"] in said
        assert row["batch"] in said
        assert row["hardware"] in said
        assert (row["phase"] == "inference") == ("inference" in said)


def test_no_checked_figure_at_a_length_lacks_its_condition() -> None:
    known = {(row["file"], row["condition"]) for row in rows_of(CONDITIONS)}
    for name in ("lra_speed.csv", "linformer.csv", "fnet.csv"):
        for row in rows_of(name):
            has_length = "n=" in row["condition"] or "length " in row["condition"]
            assert not has_length or (name, row["condition"]) in known, row
