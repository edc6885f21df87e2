"""Tests for the examination of own mixers before training, and its reasons for a refusal."""

import pytest
import torch
from torch.nn import functional

from bakeoff.models import MIXERS, Mixer, ModelError, ModelSpec, mixer_class
from bakeoff.suite.planning.examination import try_own_mixer


class Causal(Mixer):
    """A causal running mean, from which faulty mixers are derived."""

    supports_causal = True
    gate = total = 0.0

    def forward(self, x, mask=None, context=None, context_mask=None):
        return self.mix(x.cumsum(1) / torch.arange(1, x.shape[1] + 1).unsqueeze(1))

    def mix(self, x):
        return x


def own(mix, **traits):
    return type("Own", (Causal,), {"mix": mix, **traits})


def count(self, x):
    self.total += 1.0
    return x + self.total


Own: type[Mixer]
MEAN = own(lambda self, x: x + x.mean(1, keepdim=True))
FAULTS = {
    "the next token": (own(lambda self, x: x + x.roll(-1, 1)), "depends on later tokens"),
    "a choice": (own(lambda self, x: x + x.argmax(1, keepdim=True)), "changed with later ones"),
    "a gradient": (
        own(lambda self, x: x + x.roll(-1, 1) - x.roll(-1, 1).detach()),
        "depends on token",
    ),
    "rows": (own(lambda self, x: x - x.mean(0)), "mixes the rows of a batch"),
    "draws": (own(lambda self, x: functional.dropout(x, 0.5)), "declare is_stochastic = True"),
    "counts": (own(count), "keeps state between calls"),
    "in place": (own(None, forward=lambda self, x, *_: x.mul_(2)), "changes its input in place"),
    "padding": (MEAN, "declare mask_mode = 'pads_as_tokens'"),
    "padding, exact": (own(MEAN.mix, mask_mode="exact"), "although it declares mask_mode"),
}


def spec(mixer: str, *, is_causal: bool, length: int = 40) -> ModelSpec:
    return ModelSpec(
        architecture="language_model" if is_causal else "classifier",
        mixer=mixer,
        position="none",
        knobs=vars(mixer_class(mixer).Config()),
        dim=8,
        depth=2,
        length=length,
        input_kind="tokens",
        input_size=5,
        output_size=5,
    )


def tried(kind: type[Mixer], monkeypatch: pytest.MonkeyPatch, *, is_causal: bool) -> None:
    monkeypatch.setitem(globals(), "Own", kind)
    try_own_mixer(spec(f"{__name__}:Own", is_causal=is_causal), is_padded=not is_causal)


@pytest.mark.parametrize("case", FAULTS)
def test_a_broken_promise_is_refused(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, fragment = FAULTS[case]
    with pytest.raises(ModelError, match=f"^{__name__}:Own .*{fragment}"):
        tried(kind, monkeypatch, is_causal="padding" not in case)


def test_what_a_trait_declares_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    tried(own(FAULTS["draws"][0].mix, is_stochastic=True), monkeypatch, is_causal=True)
    tried(own(MEAN.mix, mask_mode="pads_as_tokens"), monkeypatch, is_causal=False)
    tried(Causal, monkeypatch, is_causal=True)


# By default at the first length that a mixer can have, and causal where it can be.
SHIPPED = [
    pytest.param(name, is_causal, length, marks=marks)
    for name in MIXERS
    for is_causal in ([True, False] if mixer_class(name).supports_causal else [False])
    for length in ([40] if name == "linformer" else [8, 40])
    for marks in (
        [()]
        if is_causal == mixer_class(name).supports_causal and (length == 8 or name == "linformer")
        else [pytest.mark.battery]
    )
]


@pytest.mark.parametrize(("name", "is_causal", "length"), SHIPPED)
def test_no_shipped_mixer_is_refused(name: str, is_causal: bool, length: int) -> None:
    try_own_mixer(spec(name, is_causal=is_causal, length=length), is_padded=not is_causal)
