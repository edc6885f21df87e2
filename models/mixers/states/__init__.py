"""Mixers with a matrix state: settings of one recurrence."""
