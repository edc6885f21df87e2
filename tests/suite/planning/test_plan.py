"""Tests for planning: equal questions have equal trials everywhere; invalid ones are refused."""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bakeoff.models import MIXERS
from bakeoff.models.model_spec import content_hash
from bakeoff.suite.journal.editions import bare_json, edition_sha256
from bakeoff.suite.planning.loader import find, shipped
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.probes.probe import probe
from bakeoff.suite.schema import Parallel, Plan, Resources
from bakeoff.suite.spec import Claim, Model, Recipe, Scale, SpecError, vary
from bakeoff.suite.tasks.registry import task_class
from bakeoff.suite.training import loop as training
from tests.suite.small_ablation import SCALE, WriteAblation, make_ablation

TEXT, IMAGES = "shakespeare_characters", "fashion_mnist_patches"
EVERY_PROBE = ["quality", "parameters", "flops", "step_time"]
DIFFERENT = ("heads", "distillation", "depth_in_vision")  # cheap to plan; `make slow-test` has all

PRINT_IDS = """
import json, sys
from bakeoff.suite.planning.plan import plan
print(json.dumps({name: [t.trial_id for t in plan(name).trials] for name in sys.argv[1:]}))
"""


def _ids(found: Plan, probe_name: str | None = None) -> set[str]:
    return {t.trial_id for t in found.trials if probe_name in (None, t.probe)}


def _ids_elsewhere(names: Iterable[str], hash_seed: str) -> dict[str, list[str]]:
    """Return the ids planned by another process, with another PYTHONHASHSEED."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PRINT_IDS, *names],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def _ids_here(names: Iterable[str]) -> dict[str, list[str]]:
    return {name: [t.trial_id for t in plan(name).trials] for name in names}


@pytest.mark.whole
def test_ids_are_those_of_other_processes_and_follow_a_users_source(
    write_ablation: WriteAblation, tmp_path: Path
) -> None:
    mixer = tmp_path / "own_average.py"
    mixer.write_text(
        "from bakeoff.models import Mixer\n\n\nclass Average(Mixer):\n    supports_causal = True\n"
        "\n"
        "    def forward(self, x, mask=None, context=None, context_mask=None):\n"
        "        return x.cumsum(1)\n"
    )
    own = str(
        write_ablation(
            baseline='Model(mixer="own_average:Average")',
            axes='[vary("mixer", ["own_average:Average", "lstm"])]',
        )
    )
    elsewhere = _ids_elsewhere([*DIFFERENT, own], "1")
    mixer.write_text(mixer.read_text().replace("x.cumsum", "2 * x.cumsum"))
    here = _ids_here([*DIFFERENT, own])
    for name in DIFFERENT:
        assert elsewhere[name] == here[name]
    planned = plan(own)
    lstm = [t.trial_id for t in planned.trials if t.subjects[0].mixer == "lstm"]
    unchanged = set(lstm) - _ids(planned, "step_time")
    assert set(elsewhere[own]) & set(here[own]) == unchanged
    assert len(unchanged) == 4  # quality under three seeds, parameters


@pytest.mark.slow
def test_ids_of_every_shipped_ablation_are_those_of_other_processes() -> None:
    here = _ids_here(shipped())
    for hash_seed in ("1", "2"):
        assert _ids_elsewhere(shipped(), hash_seed) == here


def test_two_ablations_share_the_trials_that_both_ask_for() -> None:
    shipped_one = find("heads").ablation
    axes = (vary("position", ["sinusoidal", "none"]),)
    heads, positions = (
        plan("heads"),
        plan(shipped_one.model_copy(update={"axes": axes, "claim": None})),
    )
    shared = _ids(heads) & _ids(positions)
    baseline = {
        cell.trial_id
        for cell in heads.cells
        if cell.variant == heads.about.baseline and cell.probe != "step_time"
    }
    assert shared == baseline | {cell.trial_id for cell in heads.cells if cell.probe == "floors"}
    # Quality under ten seeds, the search for the learning rate, parameters, FLOPs, and floors.
    assert len(shared) == 14


def test_ids_know_neither_names_nor_questions_nor_order(write_ablation: WriteAblation) -> None:
    axes = [vary("heads", [1, 2, 4]), vary("position", ["sinusoidal", "none"])]
    backwards = [vary("position", ["none", "sinusoidal"]), vary("heads", [4, 2, 1])]
    fields: dict[str, Any] = {"probes": EVERY_PROBE, "tasks": [TEXT, IMAGES]}
    one = plan(make_ablation(axes=axes, **fields))
    for other in (
        plan(make_ablation(axes=backwards, probes=EVERY_PROBE[::-1], tasks=[IMAGES, TEXT])),
        plan(make_ablation(axes=axes, question="Another question?", **fields)),
        plan(
            str(
                write_ablation(
                    axes='[vary("heads", [2, 1, 4]), vary("position", ["none"])]',
                    tasks=repr(fields["tasks"]),
                    probes=repr(EVERY_PROBE),
                    name="renamed.py",
                )
            )
        ),
    ):
        assert _ids(other) == _ids(one)
        assert len(_ids(one)) == len(one.trials)


def test_a_cross_and_one_at_a_time_share_what_they_have_in_common() -> None:
    axes = [vary("heads", [1, 4]), vary("depth", [1, 2])]
    assert _ids(plan(make_ablation(axes=axes))) < _ids(
        plan(make_ablation(axes=axes, combine="cross"))
    )


@pytest.mark.parametrize(
    ("changes", "probes_that_move"),
    [
        ({"dim": 32}, set(EVERY_PROBE)),
        ({"depth": 2}, set(EVERY_PROBE)),
        ({"length": 16}, set(EVERY_PROBE)),
        ({"batch": 4}, {"quality", "step_time"}),
        ({"steps": 5}, {"quality"}),
        ({"learning_rate": 2e-3}, {"quality"}),
        ({"warmup_steps": 1}, {"quality"}),
        ({"weight_decay": 0.1}, {"quality"}),
        ({"num_evaluations": 2}, {"quality"}),
        ({"cpus": 2, "gpus": 1.0, "seeds": 3}, set()),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_setting_moves_the_ids_of_the_probes_that_it_matters_to(
    changes: dict[str, Any], probes_that_move: set[str]
) -> None:
    before = plan(make_ablation(probes=EVERY_PROBE))
    after = plan(make_ablation(probes=EVERY_PROBE, scale=changes))
    moved = {name for name in EVERY_PROBE if not _ids(before, name) & _ids(after, name)}
    kept = {name for name in EVERY_PROBE if _ids(before, name) == _ids(after, name)}
    assert moved == probes_that_move
    assert kept == set(EVERY_PROBE) - probes_that_move


@pytest.mark.parametrize(
    "baseline",
    [
        Model(mixer="attention", heads=2),
        Model(mixer="lstm"),
        Model(mixer="attention", heads=4, position="none"),
        Model(mixer="attention", heads=4, scale="none"),
        Model(mixer="attention", heads=4, dropout=0.1),
        Model(mixer="attention", heads=4, position="rope"),
    ],
    ids=["heads", "mixer", "position", "scale", "architecture's knob", "relative position"],
)
def test_every_part_of_the_model_moves_every_id(baseline: Model) -> None:
    axes = [vary("depth", [1, 2])]
    one = plan(make_ablation(axes=axes, probes=EVERY_PROBE))
    other = plan(make_ablation(axes=axes, probes=EVERY_PROBE, baseline=baseline))
    assert not _ids(one) & _ids(other)


def test_what_a_page_opens_with_is_said_and_moves_nothing() -> None:
    plain, asked = (plan(make_ablation(opens_with=kind)) for kind in ("", "filters"))
    assert (plain.about.opens_with, asked.about.opens_with) == ("", "filters")
    assert asked.trials == plain.trials
    assert edition_sha256(asked) == edition_sha256(plain)
    assert b"opens_with" not in bare_json(plain)  # unchanged from before the field existed
    assert b'"opens_with":"filters"' in bare_json(asked)
    with pytest.raises(SpecError, match="opens_with"):
        make_ablation(opens_with="feelings")


def test_words_for_values_are_kept_and_move_nothing() -> None:
    words = {"heads=1": "a single head"}
    plain, named = (plan(make_ablation(words=each)) for each in ({}, words))
    assert (plain.about.words, named.about.words) == ({}, words)
    assert named.trials == plain.trials
    assert edition_sha256(named) == edition_sha256(plain)
    assert b'"words"' not in bare_json(plain)  # unchanged from before the field existed
    with pytest.raises(SpecError, match="words"):
        make_ablation(words={"hats=1": "a single hat"})
    with pytest.raises(SpecError, match="must differ from the words of 'heads=1'"):
        make_ablation(words={"heads=1": "few", "heads=2": "few"})


def test_an_architectures_default_written_out_moves_nothing() -> None:
    written = Model(mixer="attention", heads=4, norm_placement="pre", dropout=0)
    assert _ids(plan(make_ablation(baseline=written))) == _ids(plan(make_ablation()))


def test_an_architectures_knob_is_an_axis_like_any_other() -> None:
    found = plan(make_ablation(axes=[vary("norm_placement", ["pre", "post"])]), seeds=1)
    assert found.about.baseline == "norm_placement=pre"
    assert found.about.variants == ("norm_placement=pre", "norm_placement=post")
    said = {t.subjects[0].settings["norm_placement"] for t in found.trials}
    assert said == {"pre", "post"}
    assert found.trials[0].trial_id in _ids(plan(make_ablation(), seeds=1))


def test_seeds_move_what_depends_on_them() -> None:
    found = plan(make_ablation(probes=EVERY_PROBE), seeds=2)
    seeds = {name: {t.seed for t in found.trials if t.probe == name} for name in EVERY_PROBE}
    assert seeds == {"quality": {0, 1}, "step_time": {0, 1}, "parameters": {0}, "flops": {0}}
    assert len(_ids(found)) == len(found.trials)


@pytest.mark.parametrize(
    "what", ["task", "probe", "mixer", "position", "architecture", "training", "data"]
)
def test_a_new_version_of_a_definition_moves_the_ids(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bakeoff.models import architecture_class, mixer_class, position_class
    from bakeoff.suite.planning.cells import mixer_version

    before = _ids(plan(make_ablation()))
    source = task_class(TEXT).source
    attribute: tuple[object, str, object] = {
        "task": (task_class(TEXT), "version", 99),
        "probe": (type(probe("quality")), "version", 99),
        "mixer": (mixer_class("attention"), "version", 99),
        "position": (position_class("sinusoidal"), "version", 99),
        "architecture": (architecture_class("language_model"), "version", 99),
        "training": (training, "VERSION", 99),
        "data": (task_class(TEXT), "source", replace(source, sha256="0" * 64)),
    }[what]
    monkeypatch.setattr(*attribute)
    mixer_version.cache_clear()
    after = _ids(plan(make_ablation()))
    mixer_version.cache_clear()
    assert not before & after


def test_whole_numbers_and_their_floats_are_one_number_where_a_number_is_asked() -> None:
    whole = make_ablation(scale={"learning_rate": 1, "weight_decay": 0})
    as_float = make_ablation(scale={"learning_rate": 1.0, "weight_decay": -0.0})
    assert _ids(plan(whole)) == _ids(plan(as_float))


scales = st.fixed_dictionaries(
    {
        "dim": st.sampled_from([8, 16]),
        "depth": st.integers(1, 2),
        "length": st.integers(1, 4),
        "steps": st.integers(1, 3),
        "batch": st.integers(1, 3),
        "learning_rate": st.floats(1e-6, 1.0),
    }
)


@pytest.mark.whole
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(scales, scales, st.sampled_from(sorted(MIXERS)), st.sampled_from(sorted(MIXERS)))
def test_only_the_same_models_and_settings_share_an_id(
    a: dict[str, Any], b: dict[str, Any], mixer_a: str, mixer_b: str
) -> None:
    def first(scale: dict[str, Any], mixer: str) -> str:
        ablation = make_ablation(
            baseline=Model(mixer=mixer),
            tasks=[IMAGES],
            axes=[vary("position", ["none"])],
            scale=scale,
        )
        return plan(ablation, seeds=1).trials[0].trial_id

    a_counts = {**a, "length": 0}  # the images determine the length
    b_counts = {**b, "length": 0}
    is_same = (a_counts, mixer_a) == (b_counts, mixer_b)
    assert (first(a, mixer_a) == first(b, mixer_b)) == is_same


def _claim(**changes: Any) -> Claim:
    fields = {"metric": "bits_per_character", "a": "heads=1", "b": "heads=4", "by": 0.1, **changes}
    return Claim("one beats four", **fields)


@pytest.mark.parametrize(
    ("fields", "has_floors"),
    [
        ({"claim": _claim()}, True),
        ({}, False),
        ({"claim": _claim(metric="forward_flops"), "probes": ["quality", "flops"]}, False),
        ({"claim": _claim(), "probes": ["floors", "quality"]}, True),
        (
            {
                "claim": _claim(metric="training_bits_per_character"),
                "probes": ["quality", "training_score"],
            },
            True,
        ),
        (
            {
                "claim": _claim(
                    metric="accuracy",
                    **{side: f"heads={n}, task={IMAGES}" for side, n in (("a", 1), ("b", 4))},
                ),
                "axes": [vary("heads", [1, 4]), vary("task", [TEXT, IMAGES])],
                "combine": "cross",
            },
            True,
        ),
    ],
)
def test_a_claim_on_a_score_always_has_floors(fields: dict[str, Any], has_floors: bool) -> None:
    """Check that floors are added even if the ablation leaves out the probe."""
    about = plan(make_ablation(**fields)).about
    assert about.probes.count("floors") == has_floors
    assert bool(about.floors) == has_floors


REFUSED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "knobs of another architecture than the task's": (
        {"baseline": Model("classifier", mixer="attention", heads=4, pooling="class_token")},
        ["baseline is impossible", f"{TEXT} asks for next_symbols, and classifier gives class or"],
    ),
    "baseline longer than the data": (
        {"scale": {"length": 2_000_000}},
        ["baseline is impossible", "1048576", "2000000"],
    ),
    "axis that changes nothing": ({"axes": [vary("cpus", [1, 2])]}, ["'cpus' has no effect"]),
    "axis that the data overrule": (
        {"axes": [vary("length", [8, 16])], "tasks": [IMAGES]},
        ["'length' has no effect"],
    ),
    "claim about no task": (
        {"claim": _claim(task="shakespeare")},
        ["the claim", "'shakespeare'", f"'{TEXT}'"],
    ),
    "claim about a side that cannot run": (
        {
            "axes": [vary("mixer", ["attention", "fnet"])],
            "claim": _claim(a="mixer=attention", b="mixer=fnet"),
        },
        ["the claim: 'mixer=fnet' cannot be measured on", TEXT, "fnet cannot be causal"],
    ),
    "check of a score": (
        {"claim": _claim(is_check=True)},
        ["is_check=True", "bits_per_character is of trained"],
    ),
    "claim about what is neither better nor worse": (
        {"claim": _claim(metric="num_parameters"), "probes": ["quality", "parameters"]},
        ["neither more nor less of 'num_parameters' is better"],
    ),
    "claim about one variant twice": ({"claim": _claim(a="heads=4")}, ["both 'heads=4'"]),
    "too many trials": (
        {"axes": [vary("steps", range(10, 5009))], "scale": {"seeds": 100}},
        ["5000 variants x 1 tasks x 100 seeds", "500000", "100000"],
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_meant_is_refused(case: str) -> None:
    changes, fragments = REFUSED[case]
    with pytest.raises(SpecError) as caught:
        plan(make_ablation(**changes))
    sentence = str(caught.value)
    assert [fragment for fragment in fragments if fragment not in sentence] == []
    assert "\n" not in sentence


def test_the_file_is_named(write_ablation: WriteAblation) -> None:
    path = write_ablation(tasks='["shakespear"]')
    with pytest.raises(SpecError, match=f"^{path}: no task 'shakespear'"):
        plan(str(path))


@pytest.mark.parametrize("scale", ["quik", "paper"])
def test_a_scale_that_is_not_there_is_refused(scale: str) -> None:
    with pytest.raises(SpecError, match=f"scale {scale!r}.*quick"):
        plan(make_ablation(), scale=scale)


@pytest.mark.parametrize("seeds", [0, -1, 10**26])
def test_a_number_of_seeds_has_bounds(seeds: int) -> None:
    with pytest.raises(SpecError, match=f"seeds={seeds} must lie between 1 and 10000"):
        plan(make_ablation(), seeds=seeds)


def test_seeds_come_from_the_caller_then_the_scale_then_its_name() -> None:
    own = make_ablation(scale={"seeds": 2})
    assert plan(own, seeds=7).about.num_seeds == 7
    assert plan(own).about.num_seeds == 2
    standard = make_ablation(scales={"standard": Scale(**SCALE)})
    assert plan(make_ablation()).about.num_seeds == 3
    assert plan(standard, scale="standard").about.num_seeds == 5


def test_an_impossible_cell_is_a_row_and_the_rest_is_planned() -> None:
    found = plan(make_ablation(axes=[vary("heads", [3, 4])]), seeds=2)
    reasons = {cell.variant: cell.reason for cell in found.cells}
    assert reasons == {"heads=3": "attention: heads=3 does not divide dim=16", "heads=4": ""}
    assert len(found.trials) == 2


def test_a_plan_says_what_a_report_must_know() -> None:
    ablation = make_ablation(claim=_claim(), tasks=[TEXT, IMAGES], probes=["quality", "flops"])
    about = plan(ablation).about
    assert (about.baseline, about.variants) == ("heads=4", ("heads=1", "heads=4"))
    assert about.tasks == (TEXT, IMAGES)
    assert about.is_indicative
    assert about.claim is not None
    assert about.claim.task == TEXT
    assert about.model["heads"] == 4
    assert about.model["norm_placement"] == "pre"
    assert about.model["pooling"] == "mean"  # the architecture for images has it
    assert "norm_kind" not in about.model  # a late knob is present only where it is set
    assert about.settings["dim"] == 16
    assert [metric.name for metric in about.metrics[IMAGES]["quality"]] == ["accuracy"]
    assert set(about.data_sets) == {TEXT, IMAGES}
    assert about.num_test_examples == {}
    drawn = plan(make_ablation(tasks=["parity"], probes=["quality"])).about
    assert drawn.num_test_examples == {"parity": 2_000}


def test_an_axis_may_hold_whole_models() -> None:
    """Compare attention with two windows; check that their trials are those of other ablations."""
    windows = [Model(mixer="local_attention", window=window) for window in (2, 4)]
    attention = Model(mixer="attention", heads=4)
    found = plan(make_ablation(baseline=attention, axes=[vary("model", [attention, *windows])]))
    assert found.about.variants == (
        "model=attention (heads 4)",
        "model=local_attention (window 2)",
        "model=local_attention (window 4)",
    )
    assert found.about.subjects["model=local_attention (window 2)"].mixer == "local_attention"
    alone = [
        plan(make_ablation(baseline=model, axes=[vary("position", ["sinusoidal"])]))
        for model in (attention, *windows)
    ]
    assert _ids(found) == set().union(*map(_ids, alone))
    crossed = make_ablation(
        axes=[vary("model", [attention, *windows]), vary("window", [2, 8])], combine="cross"
    )
    reasons = {cell.variant: cell.reason for cell in plan(crossed).cells}
    assert reasons["model=attention (heads 4), window=8"] == "attention has no knob 'window'"
    assert reasons["model=local_attention (window 4), window=8"] == ""


@pytest.mark.parametrize(
    ("name", "value"), [("model", "attention"), ("mixer", Model(mixer="attention"))]
)
def test_whole_models_stand_on_the_axis_model_alone(name: str, value: Any) -> None:
    with pytest.raises(SpecError, match=f"vary\\('{name}'\\): .* must be a"):
        vary(name, [value])


def test_every_cell_that_can_be_has_its_trial_and_every_trial_a_cell() -> None:
    ablation = make_ablation(
        axes=[vary("mixer", ["attention", "fnet", "lstm"])],
        tasks=[TEXT, IMAGES],
        probes=EVERY_PROBE,
    )
    found = plan(ablation)
    assert {cell.trial_id for cell in found.cells if not cell.reason} == _ids(found)
    assert len(_ids(found)) == len(found.trials)
    keys = [(c.variant, c.task, c.seed, c.probe) for c in found.cells]
    assert len(set(keys)) == len(keys)


# Defaults of a training. A changed default would change the ids of all trained trials.
IDLE = {
    "label_smoothing": 0.0,
    "optimizer": "adamw",
    "momentum": 0.9,
    "schedule": "cosine",
    "clip_norm": 1.0,
    "precision": "float32",
    "accumulation": 1,
    "ema": 0.0,
    "distillation": "none",
    "distillation_weight": 0.5,
    "distillation_temperature": 3.0,
    "scheduled_sampling": 0.0,
    "flip": False,
    "crop": 0,
    "randaugment": 0.0,
    "erasing": 0.0,
    "mixup": 0.0,
    "cutmix": 0.0,
    "repeated_augmentation": 1,
    "adversarial_steps": 0,
    "is_start_frozen": False,
    "runtime": "auto",
}


def test_an_id_is_the_hash_of_the_content() -> None:
    for trial in plan(make_ablation(recipe=Recipe(schedule="cosine"))).trials:
        content = asdict(trial)
        assert content.pop("parallel") is None  # an absent part does not change the id
        assert (content.pop("test_lengths"), content.pop("decoding")) == ((), ())
        assert content.pop("precision") == "float32"
        assert (content.pop("beam"), content.pop("length_penalty")) == (1, 0.6)
        parents = ("start", "teacher", "trained", "search", "pace", "reference")
        unset = (*parents, "threads", "num_training_examples", "found_rate", "found_steps")
        assert {content.pop(name) for name in unset} == {None}
        if content["training"]:
            for name, idle in IDLE.items():
                assert content["training"].pop(name) == idle
        for subject in content["subjects"]:
            assert subject.pop("runtime") == "eager"
            assert (subject.pop("grid"), subject.pop("others")) == (None, {})
            subject["skeleton"] = subject.pop("architecture")  # it is hashed under its former name
        assert trial.trial_id == content_hash(content)
        assert len(trial.trial_id) == 32
        compiled = tuple(replace(each, runtime="compiled") for each in trial.subjects)
        assert replace(trial, subjects=compiled).trial_id != trial.trial_id


def test_workers_are_part_of_the_ids_of_what_runs_on_them() -> None:
    probes = ["quality", "parameters", "flops"]
    alone = plan(make_ablation(probes=probes))
    spread = plan(make_ablation(probes=probes, scale={"workers": 2, "zero": 1}))
    for name in ("parameters", "flops"):
        assert _ids(alone, name) == _ids(spread, name)
    assert not _ids(alone, "quality") & _ids(spread, "quality")
    found = {t.parallel for t in spread.trials if t.probe == "quality"}
    assert found == {Parallel(workers=2, zero=1, precision="float32", accumulation=1)}
    assert "zero" not in alone.about.settings
    assert spread.about.settings["zero"] == 1


def test_deepspeed_on_one_worker_has_to_be_asked_for() -> None:
    assert {t.parallel for t in plan(make_ablation()).trials} == {None}
    (found,) = {t.parallel for t in plan(make_ablation(scale={"zero": 0})).trials}
    assert found == Parallel(workers=1, zero=0, precision="float32", accumulation=1)


def test_a_batch_that_cannot_be_shared_is_a_skipped_row() -> None:
    planned = plan(make_ablation(axes=[vary("workers", [1, 3])]))
    (reason,) = {cell.reason for cell in planned.cells if cell.reason}
    assert reason == ("a batch of 2 cannot be cut into 3 equal parts (workers=3 x accumulation=1)")


def test_a_plain_timing_says_why_it_leaves_workers_out() -> None:
    planned = plan(make_ablation(axes=[vary("workers", [1, 2])], probes=["step_time"]))
    reasons = {cell.variant: cell.reason for cell in planned.cells}
    assert reasons["workers=1"] == ""
    assert "data_parallel measures workers" in reasons["workers=2"]


def test_resources_are_those_of_one_worker() -> None:
    scale = {"cpus": 4, "threads": 2, "gpus": 1, "gpu_model": "A100", "memory_gib": 1.5}
    assert plan(make_ablation(scale=scale)).resources == Resources(
        num_cpus=4, num_threads=2, num_gpus=1.0, gpu_model="A100", memory_bytes=3 * 2**29
    )
