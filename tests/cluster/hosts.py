"""Several hosts on one machine: network namespaces on a bridge, with addresses of their own.

What they share: the clock, and the file system outside one folder. What they do not: interfaces,
routes, ports, and that folder, which every host sees at the same path with contents of its own. So
a service that listens on loopback is out of reach of the others, and a host whose cable is pulled
is gone for the rest, silently, as a machine without power is. Needs root and iproute2.

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
    """One host: a namespace, its address, its folder, and the cable that leads to the bridge.

    Attributes:
        name: Of the network namespace.
        address: IPv4, reachable from the other hosts.
        cable: The bridge's end of its veth pair.
        folder: The path at which this host, like every other, sees its own folder; short.
        disk: The same folder, seen from outside.
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
        """Run a command on this host to its end; `seconds` is its limit."""
        return subprocess.run(
            [*self._inside, *command],
            env=dict(environment),
            text=True,
            timeout=seconds,
            capture_output=True,
            check=False,
        )

    def start(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        """Start a command on this host, in a session of its own; what it says goes to `log`."""
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
        """Pull the cable: nobody is told, packets are lost; its processes live on."""
        _ip("link", "set", self.cable, "down")

    def reconnect(self) -> None:
        """Put the cable back."""
        _ip("link", "set", self.cable, "up")

    def pids(self) -> list[int]:
        """Of every process that lives on this host now."""
        return [int(pid) for pid in _ip("netns", "pids", self.name).split()]

    def end_processes(self) -> None:
        """Kill them all, and wait until they are gone."""
        for process in self._started:  # one that has just begun may not be on this host yet
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
        """What goes before a command; `ip netns exec` gives it mounts of its own already."""
        folders = (str(self.disk), str(self.folder))
        return ("ip", "netns", "exec", self.name, "sh", "-c", _WITH_OWN_FOLDER, *folders)


def missing() -> str:
    """Why no hosts can be made here; empty where they can."""
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
    """That many hosts on one bridge; afterwards processes, namespaces and bridge are gone.

    Raises:
        subprocess.CalledProcessError: if the kernel refuses.
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
    """Make folder and namespace; its end of the cable is called eth0."""
    host.disk.mkdir(mode=0o700)
    _ip("netns", "add", host.name)
    _ip("link", "add", host.cable, "type", "veth", "peer", "eth0", "netns", host.name)
    _ip("link", "set", host.cable, "master", bridge, "up")
    inside = ("-netns", host.name)
    _ip(*inside, "address", "add", f"{host.address}/{prefix}", "dev", "eth0")
    _ip(*inside, "link", "set", "lo", "up")
    _ip(*inside, "link", "set", "eth0", "up")


def _remove(host: Host) -> None:
    """Each step by itself: what was never made cannot be removed, and the rest must be."""
    cable, namespace = ("link", "delete", host.cable), ("netns", "delete", host.name)
    for step in (host.end_processes, partial(_ip, *cable), partial(_ip, *namespace)):
        with suppress(subprocess.CalledProcessError):
            step()
    shutil.rmtree(host.disk, ignore_errors=True)


def _free_network() -> ipaddress.IPv4Network:
    """A /24 of 10.0.0.0/8 to which no route of this machine leads."""
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
