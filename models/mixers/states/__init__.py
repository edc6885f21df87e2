"""Mixers with a recurrent state, most of them settings of one matrix recurrence."""
