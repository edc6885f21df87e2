"""Sub-layers of vision models that several architectures share."""
