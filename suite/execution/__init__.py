"""Run one trial in one process, and manage the processes of trials on this machine without Ray."""
