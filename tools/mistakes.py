"""Plausible bugs that the tests of mixers must notice, at least one for every mixer."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mutant:
    """One mistake.

    Attributes:
        mistake: In words.
        file: Where it is made, below `models/`.
        old: The right text, which stands there once.
        new: The wrong text.
        tests: What pytest's -k selects: the mixers whose battery must notice.
        battery: The file of tests, below `tests/models/`.
    """

    mistake: str
    file: str
    old: str
    new: str
    tests: str
    battery: str = "test_every_mixer.py"


MUTANTS_OF_MIXERS: tuple[Mutant, ...] = (
    Mutant(
        "1/sqrt(d) is dropped",
        "mixers/attention.py",
        '{"1/sqrt(d)": self.key_dim**-0.5,',
        '{"1/sqrt(d)": 1.0,',
        "attention",
    ),
    Mutant(
        "the scale is that of the whole width, not of a head",
        "mixers/attention.py",
        '{"1/sqrt(d)": self.key_dim**-0.5,',
        '{"1/sqrt(d)": self.dim**-0.5,',
        "attention",
    ),
    Mutant(
        "keys and values are swapped",
        "mixers/attention.py",
        "        return queries, keys, values\n",
        "        return queries, values, keys\n",
        "attention",
    ),
    Mutant(
        "heads are cut out of time, not of width",
        "kernels/softmax_attention.py",
        "return x.reshape(batch, time, heads, width // heads).transpose(1, 2)",
        "return x.reshape(batch, heads, time, width // heads)",
        "attention",
    ),
    Mutant(
        "the causal mask is off by one: the next token is seen",
        "kernels/softmax_attention.py",
        "allowed = allowed & (self.distance() <= 0)",
        "allowed = allowed & (self.distance() <= 1)",
        "attention",
    ),
    Mutant(
        "the causal mask is off by one: the token itself is hidden",
        "kernels/softmax_attention.py",
        "allowed = allowed & (self.distance() <= 0)",
        "allowed = allowed & (self.distance() < 0)",
        "attention",
    ),
    Mutant(
        "the causal flag does not reach the fused kernel",
        "kernels/softmax_attention.py",
        "queries, keys, values, is_causal=is_causal, scale=scale)",
        "queries, keys, values, scale=scale)",
        "attention",
    ),
    Mutant(
        "padding is not masked",
        "kernels/softmax_attention.py",
        "return allowed if self.real is None else allowed & self.real[:, None, None, :]",
        "return allowed",
        "attention",
    ),
    Mutant(
        "weights are not normalised again after masking",
        "kernels/softmax_attention.py",
        "return scores.masked_fill_(hidden, lowest).softmax(dim=-1).masked_fill(hidden, 0.0)",
        "return scores.softmax(dim=-1).masked_fill(hidden, 0.0)",
        "attention",
    ),
    Mutant(
        "a query that may see nothing looks everywhere",
        "kernels/softmax_attention.py",
        "    return heads.masked_fill(sees_nothing, 0.0)\n",
        "    return heads\n",
        "attention",
    ),
    Mutant(
        "padding of a prepared context is not masked",
        "mixers/attention.py",
        "return prepared if context_mask is None else (*prepared, context_mask)",
        "return prepared",
        "attention",
    ),
    Mutant(
        "padding of a context is summed too",
        "kernels/kernel_mixer.py",
        "phi, values, log_scale = self._summed(keys, values, context_mask)",
        "phi, values, log_scale = self._summed(keys, values, None)",
        "performer",
    ),
    Mutant(
        "the learned temperature is its own logarithm",
        "mixers/attention.py",
        "return x * self.log_temperature.exp().reshape(-1, 1, 1)",
        "return x * self.log_temperature.reshape(-1, 1, 1)",
        "attention",
    ),
    Mutant(
        "the score's own parameters are not read",
        "kernels/scores.py",
        "        return queries @ self.matrix, keys\n",
        "        return queries, keys\n",
        "attention",
    ),
    Mutant(
        "cosine scores forget the length of keys",
        "kernels/scores.py",
        "functional.normalize(keys, dim=-1, eps=least),",
        "keys,",
        "attention",
    ),
    Mutant(
        "the window is one token too wide",
        "kernels/softmax_attention.py",
        "is_near = self.distance().abs() <= self.window",
        "is_near = self.distance().abs() <= self.window + 1",
        "local_attention",
    ),
    Mutant(
        "a step keeps one token too few",
        "mixers/local_attention.py",
        "kept = tuple(part[:, :, -self.window :] for part in (keys, values))",
        "kept = tuple(part[:, :, 1 - self.window :] for part in (keys, values))",
        "local_attention",
    ),
    Mutant(
        "RoPE turns keys the other way",
        "positions/relative.py",
        "turned = [first * cos - second * sin, first * sin + second * cos]",
        "turned = [first * cos + second * sin, second * cos - first * sin]",
        "rope",
    ),
    Mutant(
        "RoPE's angles use the width of the wrong pair",
        "positions/relative.py",
        "10000 ** (-even / self.head_dim)",
        "10000 ** (-even / (2 * self.head_dim))",
        "rope",
    ),
    Mutant(
        "ALiBi's first head has no slope of its own",
        "positions/relative.py",
        "head = torch.arange(1, self.heads + 1,",
        "head = torch.arange(0, self.heads,",
        "alibi",
    ),
    Mutant(
        "T5's buckets forget the direction",
        "positions/relative.py",
        "later = 0 if self.is_causal else num * (distance > 0).long()",
        "later = 0",
        "t5",
    ),
    Mutant(
        "Shaw's vectors reach the scores but not the values",
        "mixers/attention.py",
        "                heads = heads + position.added_to_values(weights, visible.distance())\n",
        "                heads = heads + 0\n",
        "shaw",
    ),
    Mutant(
        "the attention of a token on itself is not counted",
        "mixers/plain_attention.py",
        "seen = torch.cat([state[0].to(x_t), x_t.unsqueeze(1)], dim=1)",
        "seen = torch.cat([state[0].to(x_t), 0 * x_t.unsqueeze(1)], dim=1)",
        "plain_attention",
    ),
    Mutant(
        "the prefix sum is not causal inside a chunk",
        "kernels/kernel_attention.py",
        "products = products.tril_() if scales is None",
        "products = products if scales is None",
        "linear_transformer",
    ),
    Mutant(
        "the sum before a chunk leaves out its neighbour",
        "kernels/kernel_attention.py",
        "middle, peak_of_middle = _add(before, peak_before, first, peak_of_first)",
        "middle, peak_of_middle = before, peak_before",
        "linear_transformer or performer",
    ),
    Mutant(
        "sums of features are not normalised",
        "kernels/kernel_attention.py",
        "return sums[..., -1:].clamp(min=_floor(sums.dtype)).reciprocal()",
        "return torch.ones_like(sums[..., -1:])",
        "linear_transformer",
    ),
    Mutant(
        "old sums are not brought to the new scale",
        "kernels/kernel_attention.py",
        "factor_of_a, factor_of_b = (peak_of_a - peak).exp(), (peak_of_b - peak).exp()",
        "factor_of_a, factor_of_b = torch.ones_like(peak), (peak_of_b - peak).exp()",
        "performer",
    ),
    Mutant(
        "padded keys count in the denominator",
        "kernels/kernel_mixer.py",
        "            values = values.masked_fill(~real[:, None, :, None], 0.0)\n",
        "            values = values.clone()\n",
        "linear_transformer",
    ),
    Mutant(
        "the slope of elu + 1 is never 1",
        "mixers/linear_transformer.py",
        "slope: Tensor = phi.clamp(max=1.0)",
        "slope: Tensor = phi",
        "linear_transformer",
    ),
    Mutant(
        "features forget the length of the key",
        "mixers/performer.py",
        "exponents = products.sub_(squares / (2 * math.sqrt(self.head_dim)))",
        "exponents = products + 0 * squares",
        "performer",
    ),
    Mutant(
        "queries and keys are divided by sqrt(d) each",
        "mixers/performer.py",
        "(self.directions.to(wide) * self.head_dim**-0.25)",
        "(self.directions.to(wide) * self.head_dim**-0.5)",
        "performer",
    ),
    Mutant(
        "features are never redrawn",
        "mixers/performer.py",
        "if self.num_calls and self.num_calls % self.redraw_interval == 0:",
        "if self.num_calls < 0:",
        "performer",
    ),
    Mutant(
        "features are redrawn in evaluation too",
        "mixers/performer.py",
        "        if self.training:\n",
        "        if self.redraw_interval:\n",
        "performer",
    ),
    Mutant(
        "E projects the values, F the keys",
        "mixers/linformer.py",
        "return projections[0] @ keys, projections[1] @ values",
        "return projections[1] @ keys, projections[0] @ values",
        "linformer",
    ),
    Mutant(
        "scores of projected keys are not scaled",
        "mixers/linformer.py",
        "functional.scaled_dot_product_attention(queries, keys, values)",
        "functional.scaled_dot_product_attention(queries, keys, values, scale=1.0)",
        "linformer",
    ),
    Mutant(
        "the second bias over time is forgotten",
        "mixers/mlp_mixer.py",
        "functional.gelu(hidden), out_of, self.contract.bias[:length])",
        "functional.gelu(hidden), out_of)",
        "mlp_mixer",
    ),
    Mutant(
        "the imaginary part is kept",
        "mixers/fnet.py",
        "torch.fft.rfft2(x, norm=norm).real",
        "torch.fft.rfft2(x, norm=norm).imag",
        "fnet",
    ),
    Mutant(
        "the causal window looks one token ahead",
        "kernels/window.py",
        "functional.pad(channels, (window.num_before, 0))",
        "functional.pad(channels, (window.num_before - 1, 1))",
        "conv",
    ),
    Mutant(
        "the bias is forgotten at length 1",
        "mixers/conv.py",
        "channels, kernel, self.conv.bias, padding=num_padding",
        "channels, kernel, self.conv.bias if channels.shape[2] > 1 else None, padding=num_padding",
        "conv",
    ),
    Mutant(
        "every layer has the bottom layer's dilation",
        "mixers/dilated_conv.py",
        "        self.dilation = self._dilation_of(layer)\n",
        "        self.dilation = 1\n",
        "dilated_conv",
    ),
    Mutant(
        "the kernel is read backwards",
        "mixers/separable_conv.py",
        "kernel = self.depthwise.weight[:, :, window.taps]",
        "kernel = self.depthwise.weight.flip(2)[:, :, window.taps]",
        "separable_conv",
    ),
    Mutant(
        "sums and gates are swapped",
        "mixers/gated_conv.py",
        "return functional.glu(sums, dim=1)",
        "return functional.glu(sums.roll(self.dim, 1), dim=1)",
        "gated_conv",
    ),
    Mutant(
        "the recurrence reads padding",
        "kernels/recurrence.py",
        "if mask is not None and len(x) > 0:",
        "if mask is not None and len(x) < 0:",
        "rnn or gru",
    ),
    Mutant(
        "a step forgets the state",
        "kernels/recurrence.py",
        "last = tuple(part.transpose(0, 1).contiguous() for part in state)",
        "last = tuple(0 * part.transpose(0, 1).contiguous() for part in state)",
        "rnn or lstm",
    ),
    Mutant(
        "padding of a grid is read",
        "mixers/grid_conv.py",
        "image = without_padding(x, mask).transpose(1, 2)",
        "image = x.transpose(1, 2)",
        "grid_conv",
    ),
    Mutant(
        "rows and columns of a grid are swapped",
        "mixers/grid_conv.py",
        ".reshape(len(x), self.dim, rows, columns)",
        ".reshape(len(x), self.dim, columns, rows)",
        "grid_conv",
    ),
)
