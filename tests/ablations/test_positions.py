"""Test six encodings and none, and their trained distances beyond the trained length."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from bakeoff.models import POSITIONS, build_model
from bakeoff.models.positions.relative import ShawPosition, T5Position
from bakeoff.suite.planning.loader import find
from bakeoff.suite.planning.plan import plan
from bakeoff.suite.schema import Plan, Trial

LONGEST = 8  # times the trained length


@pytest.fixture(scope="module")
def found() -> Plan:
    return plan("positions", seeds=1)


def trial_of(found: Plan, variant: str) -> Trial:
    ids = {c.variant: c.trial_id for c in found.cells if c.probe == "quality"}
    return next(trial for trial in found.trials if trial.trial_id == ids[variant])


def test_six_encodings_and_none_are_compared(found: Plan) -> None:
    of_sequences = {name for name in POSITIONS if not name.endswith("_2d")}
    assert set(found.about.variants) == {f"position={name}" for name in of_sequences}
    assert not [cell for cell in found.cells if cell.reason]
    # The search for the rate, the score, that by position, the parameters; the floors of the task.
    assert len(found.trials) == 4 * len(of_sequences) + 1


def test_each_is_tested_at_two_four_and_eight_times_the_trained_length(found: Plan) -> None:
    for trial in (trial for trial in found.trials if trial.probe == "quality"):
        assert [length / trial.length for length in trial.test_lengths] == [2, 4, LONGEST]
        assert trial.subjects[0].length == LONGEST * trial.length


@pytest.mark.parametrize("scale", ["quick", "standard", "paper"])
def test_the_claim_is_of_a_length_beyond_the_trained_one(scale: str) -> None:
    ablation = find("positions").ablation
    settings = ablation.scales[scale]  # type: ignore[index]
    beyond = [f"length={length}" for length in settings.test_lengths if length > settings.length]
    assert ablation.claim.at in beyond


@pytest.mark.parametrize("position", [name for name in POSITIONS if name != "learned"])
def test_a_model_built_for_the_longest_is_the_one_built_for_the_trained_length(
    found: Plan, position: str
) -> None:
    trial = trial_of(found, "position=sinusoidal")
    spec = replace(trial.subjects[0], position=position)
    tokens = torch.randint(81, (1, trial.length))
    outputs = []
    for length in (spec.length, trial.length):
        torch.manual_seed(0)
        outputs.append(build_model(replace(spec, length=length)).eval()(tokens))
    torch.testing.assert_close(*outputs)


def test_learned_positions_beyond_the_trained_length_are_never_trained(found: Plan) -> None:
    trial = trial_of(found, "position=learned")
    model = build_model(trial.subjects[0])
    model(torch.randint(81, (2, trial.length))).sum().backward()
    table = dict(model.named_parameters())["trunk.position.table"]
    assert len(table) == LONGEST * trial.length
    assert [bool(row.any()) for row in table.grad].count(True) == trial.length


def test_which_distances_shaw_and_t5_have_trained_vectors_for(found: Plan) -> None:
    """Check that Shaw's has all, clipped at 16, and T5's none beyond the trained length."""
    length = found.trials[0].length
    assert ShawPosition.clip < length
    near, all_of_them = torch.arange(length), torch.arange(LONGEST * length)
    shaw = ShawPosition(heads=1, head_dim=2, is_causal=True)
    assert set(shaw._rows(-near).tolist()) == set(shaw._rows(-all_of_them).tolist())
    t5 = T5Position(heads=1, head_dim=2, is_causal=True)
    trained = set(t5.bucket(-near).tolist())
    assert trained == set(range(len(trained)))  # the remaining buckets reach up to 128 tokens
    assert len(set(t5.bucket(-all_of_them).tolist())) == T5Position.num_buckets
