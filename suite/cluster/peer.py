"""Whom do we speak to: this machine, and a Ray of our version?"""

from __future__ import annotations

import ipaddress
from importlib.metadata import version


def is_loopback(host: str) -> bool:
    """Whether that host is this machine, whatever the network says."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def not_our_version(theirs: str) -> str:
    """Why two versions of Ray do not understand each other; empty if they are one."""
    ours = version("ray")
    return "" if theirs == ours else f"runs Ray {theirs or '(unknown)'}, and this is Ray {ours}"
