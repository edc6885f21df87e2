"""The timing instrument: interleaved samples of several contestants, with their intervals."""
