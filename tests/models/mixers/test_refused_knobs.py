"""Check that knobs which no mixer can have are refused by name."""

import math

import pytest

from bakeoff.models import ModelError, build_mixer


@pytest.mark.parametrize(
    ("mixer", "knobs", "message"),
    [
        ("attention", {"heads": 3}, "heads=3 does not divide dim=8"),
        ("attention", {"key_dim": 0}, "key_dim=0 is below 1"),
        ("attention", {"temperature": 0.0}, "temperature=0.0 is not a finite number above 0"),
        ("attention", {"temperature": -1.0}, "temperature=-1.0 is not a finite number above 0"),
        ("attention", {"temperature": math.inf}, "knob temperature=inf is not allowed, give a fin"),
        ("attention", {"temperature": math.nan}, "knob temperature=nan is not allowed, give a fin"),
        (
            "attention",
            {"has_tied_values": True, "value_dim": 3},
            "keys of width 2 cannot serve as values of width 3",
        ),
        ("attention", {"score": "additive", "kernel": "fused"}, "score='additive' has no fused"),
        ("attention", {"score": "additive", "position": "rope"}, "score='additive' has none"),
        ("attention", {"score": "cosine", "position": "shaw"}, "score='cosine' has none"),
        ("attention", {"key_dim": 1, "position": "shaw"}, "not of 1 and 2"),
        ("attention", {"score": "additive", "kernel": "math"}, "score='additive' has no math"),
        ("attention", {"kernel": "fused", "position": "shaw"}, "shaw' has no fused kernel"),
        ("attention", {"kernel": "flash", "position": "t5"}, "takes no mask, and t5 needs one"),
        ("attention", {"kernel": "flash", "position": "alibi"}, "takes no mask, and alibi needs"),
        ("attention", {"kernel": "flash", "key_dim": 3}, "one width, not of 3 and 2"),
        ("attention", {"heads": 8, "position": "rope"}, "the width of a head must be even, not 1"),
        ("local_attention", {"heads": 3}, "heads=3 does not divide dim=8"),
        ("local_attention", {"window": 0}, "window=0 is below 1"),
        ("local_attention", {"position": "shaw"}, "shaw has no form in blocks"),
        ("linear_transformer", {"heads": 3}, "heads=3 does not divide dim=8"),
        ("linear_transformer", {"chunk": 0}, "chunk=0 is below 1"),
        ("linformer", {"heads": 3, "projected_length": 5}, "heads=3 does not divide dim=8"),
        ("linformer", {"projected_length": 64}, "projected_length=64 is more than the 12 tokens"),
        ("linformer", {"projected_length": 0}, "projected_length=0 is below 1"),
        ("performer", {"heads": 0}, "heads=0 does not divide dim=8"),
        ("performer", {"num_features": 0}, "num_features=0 is below 1"),
        ("performer", {"redraw_interval": 0}, "redraw_interval=0 is below 1"),
        ("performer", {"chunk": 0}, "chunk=0 is below 1"),
        ("mlp_mixer", {"hidden": 0}, "hidden=0 is below 1"),
        ("dilated_conv", {"dilation_base": 0}, "dilation_base=0 is below 1"),
        ("dilated_conv", {"num_dilations": 0}, "num_dilations=0 is below 1"),
    ],
)
def test_a_knob_without_sense_is_refused_by_name(
    mixer: str, knobs: dict[str, object], message: str
) -> None:
    with pytest.raises(ModelError, match=message) as refused:
        build_mixer(mixer, dim=8, max_length=12, **knobs)
    assert mixer in str(refused.value) or "position" in knobs
