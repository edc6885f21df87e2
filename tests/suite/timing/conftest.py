"""Fixtures for tests of timing."""

from tests.suite.probes.conftest import one_thread

__all__ = ["one_thread"]
