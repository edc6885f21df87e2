"""The training loop, its engines, and checkpoints."""
