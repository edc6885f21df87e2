"""The timing instrument: interleaved samples of several candidates, with their intervals."""
