"""Initialise linear maps by one of four rules, with a random stream for each part.

    name               weights                                  paper
    scaled_normal      normal(0, 1 / inputs), or the mixer's    LeCun et al. 1998, "Efficient
                       own draw                                 BackProp"
    truncated_normal   normal(0, 0.02), cut at two standard     Devlin et al. 2019, BERT
                       deviations: drawn within -0.04..0.04     (arXiv:1810.04805, its code);
                                                                ViT (arXiv:2010.11929)
    gpt2               normal(0, 0.02), the last map of each    Radford et al. 2019, section 2.3,
                       sub-layer divided by sqrt(their number)  and their code
    xavier_uniform     uniform within                           Glorot and Bengio 2010,
                       +-sqrt(6 / (inputs + outputs))           equation 16

The first keeps every map as its part drew it. The other three draw all maps again, including the
mixers', from a stream of the map's own name, so that variants with the same seed stay paired.
A linear map is a parameter with two axes or more: a matrix, the kernel of a convolution, or a stack
of matrices, which are drawn one by one. Stacked gates of a recurrence are drawn as the one matrix
in which they are stored. Look-up tables (embeddings, positions) are not linear maps. Biases of
layers and convolutions become zero, as in both papers; those of gates are kept.

Two attributes of any module name parts of it, parameters or modules, by their paths relative to it:

    keeps_own_draw     parts that no rule draws again: tables of relative positions, maps that start
                       near zero, dt_bias
    no_weight_decay    parts without weight decay, besides vectors such as biases and gains: A_log,
                       class tokens

The attributes `_no_reinit` and `_no_weight_decay` of a parameter, which Mamba's code sets, mean the
same.

Each part of a model draws from its own random stream. With a single stream for all parts, a mixer
with one more parameter would shift every later draw, and two variants with the same seed would also
differ in their embeddings. Here, a part's stream depends only on the seed and on the part's path,
so parts of equal path and shape start equal in every variant: pairing the seeds also pairs the
noise of initialisation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from bakeoff.models.errors import ModelError
from bakeoff.models.positions.absolute import Position
from bakeoff.models.positions.relative import RelativePosition


class PartSeeds:
    """Seeds for the parts of one model, from one draw of torch's global CPU generator.

    Because of that draw, two models that are built one after the other differ. Models are
    initialised on the CPU and moved afterwards; on another device the parts are not paired.
    """

    def __init__(self) -> None:
        self._base = int(torch.randint(2**62, (), device="cpu"))
        self._prefix = ""
        self._drawn: set[str] = set()

    def within(self, prefix: str) -> PartSeeds:
        """Return the same seeds for the parts below `prefix`, such as ``encoder``.

        The path of a part is then, for example, ``encoder.blocks.0.mlp``. Give each stack of a
        model its own prefix; otherwise their parts would start equal.
        """
        inner = PartSeeds.__new__(PartSeeds)
        inner._base, inner._drawn = self._base, self._drawn
        inner._prefix = f"{self._prefix}{prefix}."
        return inner

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Return a context in which everything is drawn from the stream of this part.

        Raises:
            ModelError: The part has been drawn before; two parts of one path would start equal.
        """
        path = self._prefix + name
        if path in self._drawn:
            raise ModelError(f"the part {path!r} is drawn twice; give each stack seeds.within(...)")
        self._drawn.add(path)
        digest = hashlib.sha256(f"{self._base}:{path}".encode()).digest()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(int.from_bytes(digest[:7], "big"))
            yield


class NothingDrawn(TorchFunctionMode):
    """A mode that replaces torch's draws by zeros, for models of which only shapes are needed.

    On the meta device nothing is written. The values are zeros, since torch repeats the draws of a
    truncated normal until all numbers are within its limits.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor without drawing; call any other function."""
        if getattr(func, "__name__", "") in _DRAWS:
            tensor = args[0] if args else kwargs["tensor"]
            if not tensor.is_meta:
                tensor.detach().zero_()
            return tensor
        return func(*args, **(kwargs or {}))


_DRAWS = {
    "normal_",
    "uniform_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
}
Initialisation = Literal["scaled_normal", "truncated_normal", "gpt2", "xavier_uniform"]
_ADDED = ("mixer.output.weight", "mlp.contract.weight")  # the last map of a sub-layer
_STANDARD_DEVIATION = 0.02
_TABLES = (nn.Embedding, Position, RelativePosition)
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def scaled_normal(linear: nn.Linear) -> None:
    """Draw weights from normal(0, 1 / inputs), and set biases to zero.

    Outputs are then as large as the inputs at any width. GPT-2's fixed 0.02 suits its width of
    768 and trains small models more slowly: at width 64, a model is 0.1 to 0.3 bits worse after
    300 steps on Shakespeare's characters, for all mixers.
    """
    nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def linear_map(inputs: int, outputs: int) -> nn.Linear:
    """Return a linear map without bias, drawn by `scaled_normal`."""
    linear = nn.Linear(inputs, outputs, bias=False)
    scaled_normal(linear)
    return linear


_MISSING = object()
Declaration = Literal["keeps_own_draw", "no_weight_decay"]
# The corresponding attributes of parameters in Mamba's code and code derived from it.
_MARKS = {"keeps_own_draw": "_no_reinit", "no_weight_decay": "_no_weight_decay"}


def declared(model: nn.Module, attribute: Declaration) -> set[nn.Parameter]:
    """Return the parameters with a declaration: listed by their modules, or marked themselves.

    Raises:
        ModelError: A module names a part that it does not have.
    """
    found = {each for each in model.parameters() if getattr(each, _MARKS[attribute], False)}
    for module in model.modules():
        for name in getattr(module, attribute, ()):
            path, _, last = name.rpartition(".")
            part: Any = getattr(module.get_submodule(path), last, _MISSING)
            if part is _MISSING:
                kind = type(module).__name__
                raise ModelError(f"{kind} has no {name!r}, which its {attribute} names")
            if isinstance(part, nn.Module):
                found.update(part.parameters())
            elif part is not None:
                found.add(part)
    return found


def redraw(model: nn.Module, initialisation: Initialisation, seeds: PartSeeds) -> None:
    """Draw every linear map again, once if it is shared, except those that keep their own draw."""
    if initialisation == "scaled_normal":
        return
    kept = declared(model, "keeps_own_draw")
    maps = [each for each in _linear_maps(model) if each[2] not in kept]
    num_added = sum(name.endswith(_ADDED) for name, _, _ in maps)
    for name, owner, weight in maps:
        with seeds.part(f"{initialisation} {name}"), torch.no_grad():
            _draw(owner, weight, initialisation)
            if initialisation == "gpt2" and name.endswith(_ADDED):
                weight.div_(num_added**0.5)
            if isinstance(owner, _LAYERS) and owner.bias is not None and owner.bias not in kept:
                nn.init.zeros_(owner.bias)


def _linear_maps(model: nn.Module) -> Iterator[tuple[str, nn.Module, nn.Parameter]]:
    """Yield the path, the module that holds it, and the weights of each linear map."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        if isinstance(module, _TABLES):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() >= 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}" if path else name, module, parameter


def _draw(owner: nn.Module, weight: Tensor, initialisation: Initialisation) -> None:
    """Draw the map of a layer as one matrix, a stack of matrices one by one."""
    is_layer = isinstance(owner, _LAYERS)
    for matrix in [weight] if is_layer else weight.view(-1, *weight.shape[-2:]):
        _draw_map(matrix, initialisation)


def _draw_map(weight: Tensor, initialisation: Initialisation) -> None:
    if initialisation == "xavier_uniform":
        nn.init.xavier_uniform_(weight)
        return
    if initialisation == "gpt2":
        nn.init.normal_(weight, std=_STANDARD_DEVIATION)
        return
    limit = 2 * _STANDARD_DEVIATION
    nn.init.trunc_normal_(weight, std=_STANDARD_DEVIATION, a=-limit, b=limit)
