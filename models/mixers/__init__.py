"""Mixers, one per module, with paper, equation, cost, departures, slow reference and fast form."""
