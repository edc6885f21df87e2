"""Probes that compare where a trained model looks with what is there."""
