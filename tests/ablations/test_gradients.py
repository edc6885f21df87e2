"""Gradients: which mixers meet at which scale, and what the claim compares."""

from models.mixers.conv import Convolution
from suite.planning.plan import plan


def test_every_mixer_is_measured_at_every_distance_of_a_window() -> None:
    found = plan("gradients", seeds=1)
    mixers = ("rnn", "gru", "lstm", "conv", "attention")
    assert found.about.variants == tuple(f"mixer={mixer}" for mixer in mixers)
    assert not [cell for cell in found.cells if cell.reason]
    cells = [cell for cell in found.cells if cell.probe == "gradient_by_distance"]
    assert len(cells) == len(mixers)
    places = {metric.at for cell in cells for metric in cell.metrics}
    assert places == {f"distance={2**power}" for power in range(7)}
    assert len(found.trials) == 3 * len(mixers) + 1  # the floors of the task


def test_the_claim_is_held_where_a_plain_convolution_cannot_reach() -> None:
    claim = plan("gradients").about.claim
    assert (claim.a, claim.b, claim.at) == ("mixer=lstm", "mixer=rnn", "distance=64")
    for scale in ("quick", "standard"):
        conv = next(
            t for t in plan("gradients", scale=scale).trials if t.subjects[0].mixer == "conv"
        )
        reach = conv.subjects[0].depth * (Convolution.Config().kernel_size - 1)
        assert reach < 64 < conv.length


def test_a_dilated_convolution_joins_where_its_depth_lets_it_reach_64() -> None:
    found = plan("gradients", scale="standard", seeds=1)
    assert "mixer=dilated_conv" in found.about.variants
    depth = found.trials[0].subjects[0].depth
    assert sum(2 * 2**layer for layer in range(depth)) >= 64
