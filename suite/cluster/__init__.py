"""The only package that imports ray: an executor of trials as Ray tasks, and the jobs of a cluster.

This module sets the variables that Ray reads once, on import, before any module of this package
imports it. A host that stops answering is given up after some ten seconds: the head detects this by
its own health checks, but a driver only by the keep-alive of its connections, which takes seven
minutes by default. `bakeoff.suite.cluster.address.authenticate` sets how a driver authenticates.
"""

import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_grpc_client_keepalive_time_ms", "5000")
os.environ.setdefault("RAY_grpc_client_keepalive_timeout_ms", "5000")
