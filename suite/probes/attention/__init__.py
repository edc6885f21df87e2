"""Probes of the attention of trained models: word alignment and localisation of objects."""
