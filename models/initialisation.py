"""Initialisation of linear maps: four rules, by name.

    name               weights                                  paper
    scaled_normal      normal(0, 1 / inputs), or as the         LeCun et al. 1998, "Efficient
                       mixer draws its own                      BackProp"
    truncated_normal   normal(0, 0.02), cut at two standard     Devlin et al. 2019, BERT
                       deviations: drawn within -0.04..0.04     (arXiv:1810.04805, its code);
                                                                ViT (arXiv:2010.11929)
    gpt2               normal(0, 0.02), the last map of each    Radford et al. 2019, section 2.3,
                       sub-layer divided by sqrt(their number)  and their code
    xavier_uniform     uniform within                           Glorot and Bengio 2010,
                       +-sqrt(6 / (inputs + outputs))           equation 16

The first leaves every map as its part has drawn it. The other three draw all of them again, the
mixers' included, from a stream of the map's own name, so that variants of one seed stay paired.
A linear map is a parameter of two axes or more: a matrix, the kernel of a convolution, or a stack
of matrices, drawn one by one. Stacked gates of a recurrence are drawn as the one matrix that they
are stored in. Tables in which something is looked up (embeddings, positions) are no linear maps.
Biases of layers and convolutions become zero, as in both papers; those of gates stay.

Two attributes of any module name parts of it, parameters or modules, by their paths below it:

    keeps_own_draw     what no rule draws again: tables of relative positions, maps that start near
                       zero, dt_bias
    no_weight_decay    what weight decay leaves alone, besides vectors such as biases and gains:
                       A_log, class tokens

The attributes `_no_reinit` and `_no_weight_decay` of a parameter, as Mamba's code sets them, say
the same of it.

Each part of a model draws from a random stream of its own. Were all parts drawn from one stream, a
mixer with one more parameter would shift every later draw, and two variants with the same seed
would differ in their embeddings too. Here a part's stream depends on the seed and on the part's
path only, so that parts of equal path and shape start equal in every variant: paired seeds pair
the noise of initialisation as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from models.errors import ModelError
from models.positions.absolute import Position
from models.positions.relative import RelativePosition


class PartSeeds:
    """Seeds for the parts of one model; takes one draw from torch's global CPU generator.

    One draw, so that two models built one after the other differ, as anyone expects. Models are
    initialised on the CPU and moved afterwards; on another device the parts are not paired.
    """

    def __init__(self) -> None:
        self._base = int(torch.randint(2**62, (), device="cpu"))
        self._prefix = ""
        self._drawn: set[str] = set()

    def within(self, prefix: str) -> PartSeeds:
        """The same seeds for the parts below `prefix`, as ``encoder`` of ``encoder.blocks.0.mlp``.

        A model with two stacks gives each a prefix; without one they would start as twins.
        """
        inner = PartSeeds.__new__(PartSeeds)
        inner._base, inner._drawn = self._base, self._drawn
        inner._prefix = f"{self._prefix}{prefix}."
        return inner

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Whatever is initialised inside draws from the stream of this part.

        Raises:
            ModelError: the part has been drawn before: two parts of one path start bit-identical.
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
    """Zeros where torch would draw, for models that have only shapes; nothing on the meta device.

    Zeros, since torch draws a truncated normal again until all numbers are within its limits.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Return the tensor that was to be drawn; call anything else."""
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
_ADDED = ("mixer.output.weight", "mlp.contract.weight")  # what a sub-layer ends in
_STANDARD_DEVIATION = 0.02
_TABLES = (nn.Embedding, Position, RelativePosition)
_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def scaled_normal(linear: nn.Linear) -> None:
    """Draw weights from normal(0, 1 / inputs), set biases to zero.

    Outputs are then as large as the inputs at any width. GPT-2's fixed 0.02 suits its width of
    768 and trains small models more slowly: at width 64, 300 steps on Shakespeare's characters
    end 0.1 to 0.3 bits worse, whatever the mixer.
    """
    nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    if linear.bias is not None:
        nn.init.zeros_(linear.bias)


def linear_map(inputs: int, outputs: int) -> nn.Linear:
    """A linear map without bias, drawn by `scaled_normal`."""
    linear = nn.Linear(inputs, outputs, bias=False)
    scaled_normal(linear)
    return linear


_MISSING = object()
Declaration = Literal["keeps_own_draw", "no_weight_decay"]
# Attributes of parameters that say the same, in Mamba's code and in code after its model.
_MARKS = {"keeps_own_draw": "_no_reinit", "no_weight_decay": "_no_weight_decay"}


def declared(model: nn.Module, attribute: Declaration) -> set[nn.Parameter]:
    """The parameters that the modules of a model declare, or that bear a mark; see the note above.

    Raises:
        ModelError: a name of what its module does not have.
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
    """Draw every linear map of the model again, save what keeps its own; a shared map once."""
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
    """Name, the module that holds it, and the weights."""
    seen: set[int] = set()
    for path, module in model.named_modules():
        if isinstance(module, _TABLES):
            continue
        for name, parameter in module.named_parameters(recurse=False):
            if parameter.dim() >= 2 and id(parameter) not in seen:
                seen.add(id(parameter))
                yield f"{path}.{name}" if path else name, module, parameter


def _draw(owner: nn.Module, weight: Tensor, initialisation: Initialisation) -> None:
    """A layer's map as one; a stack of matrices one by one."""
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
