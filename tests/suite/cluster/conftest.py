"""Ray reads once, on import, how a process proves who it is: so that comes before any test file.

Several files of this folder import ray, whatever order they run in; each starts or joins clusters
that ask for the token of this process.
"""

from suite.cluster.address import authenticate

authenticate(None)
