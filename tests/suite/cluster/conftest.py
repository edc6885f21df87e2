"""Ray authentication settings, set before any test file imports Ray.

Ray reads them once, on import. Several files of this folder import Ray, in any order; each starts
or joins clusters that require the token of this process.
"""

from bakeoff.suite.cluster.address import authenticate

authenticate(None)
