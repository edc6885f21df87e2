"""A mixer that takes its time, whatever the machine."""

import time

from models.mixer import Mixer


class Slow(Mixer):
    """The mean over the sequence; 0.1 seconds for a training batch."""

    def forward(self, x, mask=None, context=None, context_mask=None):
        """Everywhere the mean."""
        if self.training and len(x) >= 100:
            time.sleep(0.1)
        return x.mean(dim=1, keepdim=True).expand_as(x)
