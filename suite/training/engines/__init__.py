"""How a training step runs: on one device, or on several with DeepSpeed."""
