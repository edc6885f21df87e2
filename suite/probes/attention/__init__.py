"""Probes that compare the attention of a trained model with the alignment or the object."""
