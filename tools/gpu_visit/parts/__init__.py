"""The parts of a visit, one a file: each has `items(visit)`, what to measure, in order of worth."""
