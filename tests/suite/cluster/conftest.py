"""Ray reads its authentication once, on import: so it is set before any test file.

Several files of this folder import ray, whatever order they run in; each starts or joins clusters
that ask for the token of this process.
"""

from suite.cluster.address import authenticate

authenticate(None)
