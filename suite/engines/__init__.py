"""How a training step runs: on one device."""
