"""The timing instrument: who takes how long, so that ten people would find the same."""
