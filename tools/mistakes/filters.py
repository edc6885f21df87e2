"""Plausible bugs in S4D, Hyena and their long convolutions that the tests must notice."""

from __future__ import annotations

from mistakes import Mutant

_LONG = "kernels/long_convolution.py"
_FILTER = "kernels/implicit_filter.py"
_S4D = "mixers/states/s4d.py"
_HYENA = "mixers/hyena.py"

MUTANTS_OF_FILTERS: tuple[Mutant, ...] = (
    Mutant(
        "the transform is half as long, so that the end meets the start",
        _LONG,
        "    least = 2 * length - 1\n",
        "    least = length\n",
        "s4d",
    ),
    Mutant(
        "the gradient of the sequence is a convolution, not a correlation",
        _LONG,
        "torch.fft.irfft(turned * response.conj(), n=ctx.size)",
        "torch.fft.irfft(turned * response, n=ctx.size)",
        "s4d",
    ),
    Mutant(
        "the second kernel reads the token itself, too",
        _LONG,
        "torch.cat([past, gap, future[:, : length - 1].flip(-1)], dim=-1)",
        "torch.cat([past, gap, future[:, 1:].flip(-1)], dim=-1)",
        "s4d",
    ),
    Mutant(
        "a token is written by Euler's rule, not held over the step",
        _S4D,
        "return [_times(c.unbind(dim=-1), held) for c in self.reading.to(real.dtype)]",
        "step = 2 * self.log_step.to(real.dtype).exp()\n"
        "        return [tuple(step * part for part in c.unbind(dim=-1)) "
        "for c in self.reading.to(real.dtype)]",
        "s4d",
    ),
    Mutant(
        "the imaginary parts are added",
        _S4D,
        "torch.cat([real, -imaginary], dim=2)",
        "torch.cat([real, imaginary], dim=2)",
        "s4d",
    ),
    Mutant(
        "a step reads before it writes",
        _S4D,
        "            real = real + u\n            read = _times(self._weights(log_z)[0], (real, "
        "imaginary))[0].sum(dim=-1)\n",
        "            read = _times(self._weights(log_z)[0], (real, imaginary))[0].sum(dim=-1)\n"
        "            real = real + u\n",
        "s4d",
    ),
    Mutant(
        "A may come to grow",
        _S4D,
        "return -self.log_decay.to(dtype).exp() * step, self.frequency.to(dtype) * step",
        "return self.log_decay.to(dtype).exp() * step, self.frequency.to(dtype) * step",
        "s4d",
    ),
    Mutant(
        "the state space decays with the other weights",
        _S4D,
        'no_weight_decay = ("log_step", "log_decay", "frequency")\n'
        '    keeps_own_draw = (*no_weight_decay, "reading", "skip")',
        'no_weight_decay = ("log_step", "log_decay")\n'
        '    keeps_own_draw = (*no_weight_decay, "frequency", "reading", "skip")',
        "decay",
        "mixers/states/test_s4d.py",
    ),
    Mutant(
        "what a gate lets through enters the next convolution at padding",
        _HYENA,
        "long_convolution(z if real is None else z * real, past)",
        "long_convolution(z, past)",
        "hyena",
    ),
    Mutant(
        "every convolution of a step reads what entered the first",
        _HYENA,
        "entered[:, :, i].to(wide)",
        "entered[:, :, 0].to(wide)",
        "hyena",
    ),
    Mutant(
        "D reaches every place",
        _HYENA,
        "self.skip.to(dtype).unsqueeze(-1) * (places == 0).to(dtype)",
        "self.skip.to(dtype).unsqueeze(-1)",
        "hyena",
    ),
    Mutant(
        "the mask of the direction that is turned is not",
        _HYENA,
        "torch.stack([mask, mask.flip(1)], dim=1)",
        "torch.stack([mask, mask], dim=1)",
        "hyena",
    ),
    Mutant(
        "windows fall from the length of the sequence, not from the longest",
        _FILTER,
        "part = places.double() / max(1, self.max_length - 1)",
        "part = places.double() / max(1, len(places) - 1)",
        "hyena",
    ),
    Mutant(
        "the sines have no frequency",
        _FILTER,
        "            hidden = torch.sin(self.frequency.double() * mapped)\n",
        "            hidden = torch.sin(mapped)\n",
        "hyena",
    ),
)
