"""Sub-layers of vision that several architectures share."""
