"""Check properties of all recurrences that the reference does not cover."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from bakeoff.models import Mixer, ModelError, build_mixer
from bakeoff.models.kernels.recurrence import in_dtype_of, run
from tests.models.small_models import tokens

names = pytest.mark.parametrize("name", ["rnn", "gru", "lstm"])
TORCH = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}


def recurrence(name: str, is_causal: bool = False, **knobs: Any) -> Mixer:
    return build_mixer(name, dim=8, is_causal=is_causal, **knobs).double()


def other_direction(key: str) -> str:
    return key.removesuffix("_reverse") if key.endswith("_reverse") else f"{key}_reverse"


@pytest.mark.parametrize("layers", [1, 3])
@names
def test_flipping_time_swaps_the_two_directions(name: str, layers: int) -> None:
    mixer, flipped = recurrence(name, layers=layers), recurrence(name, layers=layers)
    swapped = {other_direction(key): value for key, value in mixer.state_dict().items()}
    for key, value in swapped.items():
        if "weight_ih" in key and "_l0" not in key:  # reads the two halves of the layer below
            swapped[key] = value.roll(4, dims=-1)
    flipped.load_state_dict(swapped)
    expected = mixer(tokens()).roll(4, dims=-1)  # the halves change places
    torch.testing.assert_close(flipped(tokens().flip(1)).flip(1), expected)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("is_unidirectional", [False, True])
@names
def test_weights_of_torchs_own_module_give_its_output(
    name: str, is_unidirectional: bool, layers: int
) -> None:
    torch.manual_seed(0)
    hidden, is_bidirectional = (8, False) if is_unidirectional else (4, True)
    theirs = TORCH[name](8, hidden, layers, batch_first=True, bidirectional=is_bidirectional)
    ours = recurrence(name, layers=layers, is_unidirectional=is_unidirectional)
    ours.network.load_state_dict(theirs.state_dict())
    expected = theirs.double()(tokens())[0]
    torch.testing.assert_close(ours(tokens()), expected)
    torch.testing.assert_close(ours.reference(tokens()), expected)


@names
def test_unidirectional_computes_what_a_causal_one_computes(name: str) -> None:
    free, causal = recurrence(name, is_unidirectional=True), recurrence(name, is_causal=True)
    free.load_state_dict(causal.state_dict())
    assert torch.equal(free(tokens()), causal(tokens()))


@pytest.mark.parametrize("is_causal", [False, True])
@names
def test_padded_tokens_are_as_if_they_were_not_there(name: str, is_causal: bool) -> None:
    mask = torch.tensor([[False, True, True, False, True, False, True]])
    mixer, x = recurrence(name, is_causal, layers=2), tokens(batch=1)
    torch.testing.assert_close(mixer(x, mask)[mask], mixer(x[:, mask[0]])[0])
    assert torch.all(mixer(x, mask)[~mask] == 0)
    assert mixer(x[:0], mask[:0]).shape == (0, 7, 8)


@names
def test_what_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(ModelError, match=f"{name}: layers=0 is below 1"):
        build_mixer(name, layers=0)
    with pytest.raises(ModelError, match="a causal one reads left to right anyway"):
        build_mixer(name, is_causal=True, is_unidirectional=True)
    with pytest.raises(ModelError, match="needs an even dim for its two directions, not dim=7"):
        build_mixer(name, dim=7)
    for odd in (
        build_mixer(name, dim=7, is_unidirectional=True),
        build_mixer(name, 7, None, 9, True),
    ):
        assert odd(torch.zeros(1, 2, 7)).shape == (1, 2, 7)


def test_inputs_and_states_get_the_dtype_of_the_weights() -> None:
    network = nn.LSTM(8, 8, batch_first=True)
    x, part = torch.randn(2, 3, 8).bfloat16(), torch.randn(1, 2, 8).half()
    packed = pack_padded_sequence(x, torch.tensor([3, 2]), batch_first=True)
    for given, state in ((x, (part, part)), (packed, (part, part)), (x, None)):
        outputs, last = network(*in_dtype_of(network, given, state))
        assert {each.dtype for each in (getattr(outputs, "data", outputs), *last)} == {
            torch.float32
        }
    _, last = in_dtype_of(nn.GRU(8, 8).double(), x, part)
    assert last.dtype == torch.float64


@pytest.mark.parametrize("name", ["rnn", "gru"])  # some processors have no LSTM in bfloat16
def test_a_cpu_under_autocast_computes_what_torchs_module_does(name: str) -> None:
    network, x = TORCH[name](8, 8, batch_first=True), torch.randn(2, 5, 8)
    with torch.autocast("cpu", torch.bfloat16):
        (found, _), (expected, _) = run(network, x), network(x)
    assert found.dtype == expected.dtype
    assert torch.equal(found, expected)


@pytest.mark.gpu
@names
def test_a_gpu_under_autocast_keeps_small_gradients(name: str) -> None:
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA device")
    torch.manual_seed(0)
    mixer = build_mixer(name, dim=128, is_causal=True).cuda().train()
    x = torch.randn(8, 16, 128, device="cuda")

    def gradients(factor: float) -> list[torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16):
            output = mixer(x.bfloat16())
        assert output.dtype == torch.float32
        return list(torch.autograd.grad(factor * output.sum(), list(mixer.parameters())))

    # A power of two, which rounds nothing in float32; float16 would give zeros.
    for small, large in zip(gradients(2.0**-40), gradients(1.0), strict=True):
        torch.testing.assert_close(small * 2.0**40, large)
