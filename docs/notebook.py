# %% [markdown]
# # A mixer and data of your own: does a convolution help attention to recall?
#
# Attention finds a value by its key only after an earlier layer has joined each key with the value
# that follows it. This notebook puts a small convolution below attention and asks how many tokens
# it must see. All trials take about a minute on two cores.
#
# Jupyter runs `docs/notebook.ipynb`, and `python docs/notebook.py` the same code.

# %% [markdown]
# ## The mixer
#
# Each trial runs in a process of its own and imports the mixer there, so the class must be in a
# file. A class that is defined in a cell is refused.

# %%
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import bakeoff
from bakeoff import Ablation, Arrays, Claim, Model, Scale, vary

Path("causal_convolution.py").write_text('''
"""A convolution over the last tokens, feature by feature."""

from dataclasses import dataclass

from torch import nn

from bakeoff.models import Mixer


class CausalConvolution(Mixer):
    """A convolution over time that sees no later token."""

    supports_causal = True

    @dataclass(frozen=True, kw_only=True)
    class Config:
        window: int = 2

    def make_parameters(self, config):
        self.taps = nn.Conv1d(self.dim, self.dim, config.window, groups=self.dim)

    def forward(self, x, mask=None, context=None, context_mask=None):
        past = nn.functional.pad(x.mT, (self.config.window - 1, 0))
        return self.taps(past).mT
''')
if str(Path.cwd()) not in sys.path:
    sys.path.insert(0, str(Path.cwd()))  # the file is there

# %% [markdown]
# ## The data
#
# An own file takes the place of a shipped task. Each sequence shows four keys, each followed by
# its value, and then asks for the values of the four keys again, in another order. `-100` marks
# tokens that no answer is asked for.

# %%
drawn = np.random.default_rng(0)
inputs = np.zeros((6000, 12), dtype=np.int64)
targets = np.full_like(inputs, -100)
for sequence, answers in zip(inputs, targets, strict=True):
    keys, values = drawn.permutation(8)[:4], drawn.integers(8, 16, 4)
    sequence[0:8:2], sequence[1:8:2] = keys, values
    order = drawn.permutation(4)
    sequence[8:], answers[8:] = keys[order], values[order]
np.savez("recall.npz", inputs=inputs, targets=targets)
print(inputs[0], targets[0], sep="\n")

# %% [markdown]
# ## The sweep
#
# `mixer="A+B"` alternates layers of A and B from the bottom to the top. The axis is a knob of the
# mixer above. The claim is stated before anything runs.

# %%
ablation = Ablation(
    name="window_below_attention",
    question="How many tokens must a convolution below attention see?",
    baseline=Model(
        mixer="causal_convolution:CausalConvolution+attention",
        window=2,
        heads=1,
        position_mode="concatenated",
        feed_forward="none",
    ),
    axes=[vary("window", [1, 2, 4])],
    tasks=[Arrays("recall.npz")],
    probes=["quality", "floors"],
    claim=Claim(
        "a window of two tokens is better than one of one",
        metric="accuracy",
        a="window=2",
        b="window=1",
        by=0.1,
    ),
    scales={
        "quick": Scale(dim=32, depth=2, length=12, steps=150, batch=32, learning_rate=5e-3, seeds=3)
    },
)
outcome = bakeoff.run(ablation, executor="inline")
print(outcome.counts)
print(outcome.report)

# %% [markdown]
# ## The results
#
# One row is one measurement; `axis_window` holds numbers. `bakeoff.results(ablation)` reads the
# same frame again later.

# %%
scores = outcome.results.query("metric == 'accuracy' and probe == 'quality' and at == ''")
print(scores.pivot(index="axis_window", columns="seed", values="value").round(3))

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.4), layout="constrained")
for seed, of_seed in scores.groupby("seed"):
    left.plot(of_seed["axis_window"], of_seed["value"], "o-", label=f"seed {seed}")
left.set(xlabel="window (tokens)", ylabel="accuracy", xticks=[1, 2, 4], ylim=(0, 1))
left.legend()
curves = bakeoff.curves(ablation).query("split == 'validation'")
for window, of_window in curves.groupby("axis_window"):
    mean = of_window.groupby("step")["value"].mean()
    right.plot(mean.index, mean, ".-", label=f"window {window}")
right.set(xlabel="step", ylabel="accuracy (validation)", ylim=(0, 1))
right.legend()
figure.savefig("window_below_attention.png", dpi=100)

# %% [markdown]
# ## The verdict
#
# The interval is that of differences between equal seeds. The verdict is the one that the page
# shows.

# %%
verdict = outcome.verdicts.iloc[0]
print(verdict[["effect", "low", "high", "p", "verdict"]].to_string())
print(verdict["sentence"])
