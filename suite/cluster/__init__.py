"""The only folder that imports ray: an executor of trials as Ray tasks, and the jobs of a cluster.

This file sets what Ray reads once, on import, before any file of this folder imports it. A host
that stops answering is given up after some ten seconds: the head notices by its own health checks,
but a driver only by the keep-alive of its connections, which otherwise takes seven minutes.
`suite.cluster.address.authenticate` sets how a driver authenticates.
"""

import os

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_grpc_client_keepalive_time_ms", "5000")
os.environ.setdefault("RAY_grpc_client_keepalive_timeout_ms", "5000")
