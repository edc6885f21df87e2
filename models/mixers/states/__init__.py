"""Mixers that read a sequence into a matrix of state: settings of one recurrence."""
