"""What tests of timing share."""

from tests.suite.probes.conftest import one_thread

__all__ = ["one_thread"]
