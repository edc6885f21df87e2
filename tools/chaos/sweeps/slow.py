"""An ablation of trials that sleep as they train, to be stopped in the middle."""

import time

from bakeoff import Ablation, Model, Scale, vary
from bakeoff.models.mixer import Mixer


class Slow(Mixer):
    """The mean over the sequence; 0.1 seconds for a training batch."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        """Return the mean everywhere."""
        if self.training and len(x) >= 100:
            time.sleep(0.1)
        return x.mean(dim=1, keepdim=True).expand_as(x)


ABLATION = Ablation(
    question="Does a trial come through that is stopped in the middle?",
    baseline=Model(mixer="slow:Slow", position="none"),
    axes=[vary("learning_rate", [0.001, 0.01])],
    tasks=["fashion_mnist_patches"],
    probes=["quality"],
    scales={
        "quick": Scale(dim=8, depth=1, length=49, steps=30, batch=100, num_evaluations=3, seeds=1)
    },
)
