"""Say whether the battery is asked for: without it, thousands of its cases are not even made.

`tests/conftest.py` sets this before it collects any test.
"""

from __future__ import annotations

is_wanted = False
