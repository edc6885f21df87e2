"""Runs one trial in one process, and the processes of trials on this machine without Ray."""
