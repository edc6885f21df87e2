"""Engines that run a training step: on one device, or on several with DeepSpeed."""
