"""Simulate several hosts on one machine: network namespaces on a bridge, each with an address.

The hosts share the clock and the file system outside one folder. They do not share interfaces,
routes, ports, or that folder, which has the same path but different contents on every host. A
service on loopback is therefore out of reach of the other hosts, and a host whose cable is pulled
disappears silently, like a machine without power. Needs root and iproute2.

The folder is for Ray's sessions, home and output: two raylets of one session that start at once
over one folder choose the same socket, and one of them waits in vain.
"""

from __future__ import annotations

import ipaddress
import json
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

_SECONDS_TO_END = 10.0
_PREFIX = "bo"  # names of interfaces have at most 15 letters
_WITH_OWN_FOLDER = 'mount --bind "$0" "$1" && shift && exec "$@"'


@dataclass(frozen=True)
class Host:
    """One host: a namespace, its address, its folder, and its cable to the bridge.

    Attributes:
        name: The name of the network namespace.
        address: IPv4, reachable from the other hosts.
        cable: The bridge's end of its veth pair.
        folder: The short path of its folder, the same on every host.
        disk: The path of this folder outside the namespace.
    """

    name: str
    address: str
    cable: str
    folder: Path
    disk: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list, repr=False)

    def run(
        self, command: Sequence[str], environment: Mapping[str, str], seconds: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """Run a command on this host to its end, for at most `seconds`."""
        return subprocess.run(
            [*self._inside, *command],
            env=dict(environment),
            text=True,
            timeout=seconds,
            capture_output=True,
            check=False,
        )

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start a command on this host in a new session, with its output in `log`."""
        with log.open("a") as file:
            process = subprocess.Popen(
                [*self._inside, *command],
                env=dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)

    def cut_off(self) -> None:
        """Pull the cable: packets are lost without notice, and processes keep running."""
        _ip("link", "set", self.cable, "down")

    def reconnect(self) -> None:
        """Plug the cable in again."""
        _ip("link", "set", self.cable, "up")

    def pids(self) -> list[int]:
        """Return the ids of all processes that run on this host."""
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def end_processes(self) -> None:
        """Kill all processes of this host and wait until they have ended."""
        # a process that has just started may not be in the namespace yet
        for process in self._started:
            process.kill()
            process.wait()
        deadline = time.monotonic() + _SECONDS_TO_END
        while (pids := self.pids()) and time.monotonic() < deadline:
            for pid in pids:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.1)

    @property
    def _inside(self) -> tuple[str, ...]:
        """The prefix of a command; `ip netns exec` already gives it separate mounts."""
        folders = (str(self.disk), str(self.folder))
        return ("ip", "netns", "exec", self.name, "sh", "-c", _WITH_OWN_FOLDER, *folders)


def missing() -> str:
    """Return why no hosts can be made here, or an empty string if they can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    if not shutil.which("ip"):
        return "iproute2 is not installed (no command `ip`)"
    try:
        with hosts(1):
            return ""
    except subprocess.CalledProcessError as error:
        return f"network namespaces are not permitted here ({error.stderr.strip()})"


@contextmanager
def hosts(number: int) -> Iterator[tuple[Host, ...]]:
    """Yield `number` hosts on one bridge; remove processes, namespaces and bridge afterwards.

    Raises:
        subprocess.CalledProcessError: If the kernel refuses.
    """
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir="/tmp"))
    mark = _PREFIX + secrets.token_hex(3)
    network = _free_network()
    gateway, *addresses = (str(address) for address in network.hosts())
    made = tuple(
        Host(f"{mark}-{index}", address, f"{mark}v{index}", folder, Path(f"{folder}-{index}"))
        for index, address in enumerate(addresses[:number])
    )
    try:
        _ip("link", "add", mark, "type", "bridge")
        _ip("address", "add", f"{gateway}/{network.prefixlen}", "dev", mark)
        _ip("link", "set", mark, "up")
        for host in made:
            _plug_in(host, bridge=mark, prefix=network.prefixlen)
        yield made
    finally:
        for host in made:
            _remove(host)
        with suppress(subprocess.CalledProcessError):
            _ip("link", "delete", mark)
        folder.rmdir()


def _plug_in(host: Host, *, bridge: str, prefix: int) -> None:
    """Make folder and namespace; the host's end of the cable is called eth0."""
    host.disk.mkdir(mode=0o700)
    _ip("netns", "add", host.name)
    _ip("link", "add", host.cable, "type", "veth", "peer", "eth0", "netns", host.name)
    _ip("link", "set", host.cable, "master", bridge, "up")
    inside = ("-netns", host.name)
    _ip(*inside, "address", "add", f"{host.address}/{prefix}", "dev", "eth0")
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "link", "set", "eth0", "up")


def _remove(host: Host) -> None:
    """Remove a host step by step, since some parts may not exist."""
    cable, namespace = ("link", "delete", host.cable), ("netns", "delete", host.name)
    for step in (host.end_processes, partial(_ip, *cable), partial(_ip, *namespace)):
        with suppress(subprocess.CalledProcessError):
            step()
    shutil.rmtree(host.disk, ignore_errors=True)


def _free_network() -> ipaddress.IPv4Network:
    """Return a /24 of 10.0.0.0/8 to which no route of this machine leads."""
    routes = [
        ipaddress.IPv4Network(route["dst"], strict=False)
        for route in json.loads(_ip("-json", "-4", "route", "show", "table", "all"))
        if route["dst"] != "default"
    ]
    while True:
        high, low = secrets.token_bytes(2)
        network = ipaddress.IPv4Network(f"10.{high}.{low}.0/24")
        if not any(network.overlaps(route) for route in routes):
            return network


def _ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], check=True, text=True, capture_output=True)
    return done.stdout
