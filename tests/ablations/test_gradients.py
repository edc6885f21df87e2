"""Test the ablation of gradients: the mixers of each scale, and the claim."""

from bakeoff.models.mixers.conv import Convolution
from bakeoff.suite.planning.plan import plan


def test_every_mixer_is_measured_at_every_distance_of_a_window() -> None:
    found = plan("gradients", seeds=1)
    others = ("mixer=rnn", "mixer=gru", "mixer=conv", "mixer=attention", "forget_bias=0.0")
    assert found.about.variants == ("baseline", *others)  # an LSTM whose forget gate starts open
    assert not [cell for cell in found.cells if cell.reason]
    cells = [cell for cell in found.cells if cell.probe == "gradient_by_distance"]
    assert len(cells) == len(found.about.variants)
    places = {metric.at for cell in cells for metric in cell.metrics}
    assert places == {f"distance={2**power}" for power in range(7)}
    # The search for the rate, the score, the gradients, the parameters; the floors of the task.
    assert len(found.trials) == 4 * len(cells) + 1


def test_the_claim_is_held_where_a_plain_convolution_cannot_reach() -> None:
    claim = plan("gradients").about.claim
    assert (claim.a, claim.b, claim.at) == ("baseline", "mixer=rnn", "distance=64")
    for scale in ("quick", "standard"):
        trials = plan("gradients", scale=scale).trials
        conv = next(t for t in trials if t.subjects and t.subjects[0].mixer == "conv")
        reach = conv.subjects[0].depth * (Convolution.Config().kernel_size - 1)
        assert reach < 64 < conv.length


def test_a_dilated_convolution_joins_where_its_depth_lets_it_reach_64() -> None:
    found = plan("gradients", scale="standard", seeds=1)
    assert "mixer=dilated_conv" in found.about.variants
    depth = next(t.subjects[0].depth for t in found.trials if t.subjects)
    assert sum(2 * 2**layer for layer in range(depth)) >= 64
