"""Hosts on one machine: network namespaces with names of their own, joined by a bridge.

All addresses live inside; the machine's own network is not touched. Each namespace is held by a
process that ends when this one does, however that ends, and everything goes with it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

NETWORK = "10.77.0"
HOLD = 'hostname "$0" && echo ready && exec cat >/dev/null'
RANDOM = 0xFFFFF000 + 56
"""Where a classic BPF program reads a random number (SKF_AD_OFF + SKF_AD_RANDOM)."""


class NoHosts(Exception):
    """Namespaces cannot be made here; the message says why."""


class Host:
    """A network namespace with a host name of its own."""

    def __init__(self, name: str, number: int = 0) -> None:
        self.name, self.address = name, f"{NETWORK}.{number}"
        command = ["unshare", "--net", "--uts", "sh", "-c", HOLD, name]
        try:
            self._holder = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise NoHosts(str(error)) from error
        assert self._holder.stdout is not None
        assert self._holder.stderr is not None
        if self._holder.stdout.readline() != b"ready\n":
            raise NoHosts(self._holder.stderr.read().decode().strip())

    @property
    def pid(self) -> int:
        return self._holder.pid

    @property
    def prefix(self) -> tuple[str, ...]:
        """What a command begins with that runs on this host."""
        return "nsenter", "--target", str(self.pid), "--net", "--uts"

    def run(self, *command: str) -> None:
        whole = [*self.prefix, *command]
        try:
            done = subprocess.run(whole, capture_output=True, text=True, check=False)
        except OSError as error:
            raise NoHosts(str(error)) from error
        if done.returncode:
            raise NoHosts(f"{' '.join(command)}: {done.stderr.strip()}")

    @contextmanager
    def entered(self) -> Iterator[None]:
        """Let this thread, and the processes that it starts, be on the network of this host."""
        with open("/proc/thread-self/ns/net") as home:
            _enter(f"/proc/{self.pid}/ns/net")
            try:
                yield
            finally:
                _set_namespace(home.fileno())

    def remove(self) -> None:
        self._holder.communicate()


class Network:
    """One database host and some worker hosts on a bridge of their own."""

    def __init__(self, workers: int) -> None:
        self._hosts: list[Host] = []
        try:
            self._hub = self._add("hub")
            self._hub.run("ip", "link", "add", "bridge", "type", "bridge")
            self._hub.run("ip", "link", "set", "bridge", "up")
            self.database = self._joined("database", 1)
            self.workers = [self._joined(f"worker{n}", 10 + n) for n in range(1, workers + 1)]
        except BaseException:
            self.remove()
            raise

    def _add(self, name: str, number: int = 0) -> Host:
        host = Host(name, number)
        self._hosts.append(host)
        return host

    def _joined(self, name: str, number: int) -> Host:
        host = self._add(name, number)
        peer = ("peer", "name", "eth0", "netns", str(host.pid))
        self._hub.run("ip", "link", "add", name, "type", "veth", *peer)
        self._hub.run("ip", "link", "set", name, "master", "bridge", "up")
        host.run("ip", "link", "set", "lo", "up")
        host.run("ip", "address", "add", f"{host.address}/24", "dev", "eth0")
        host.run("ip", "link", "set", "eth0", "up")
        return host

    def cut(self, host: Host) -> None:
        """Let every packet from and to a host be lost without a word."""
        self._hub.run("ip", "link", "set", host.name, "nomaster")

    def mend(self, host: Host) -> None:
        self._hub.run("ip", "link", "set", host.name, "master", "bridge")

    def spoil(self, host: Host, loss: float) -> str:
        """Make a host's link slow and lossy in both directions; say by what means."""
        percent = f"{loss:.0%}"
        try:
            for where, device in ((host, "eth0"), (self._hub, host.name)):
                where.run("tc", "qdisc", "add", "dev", device, "root", "netem",
                          "delay", "40ms", "10ms", "loss", percent)  # fmt: skip
        except NoHosts:
            # A kernel may be built without netem: a narrow link, and packets dropped at random.
            for where, device in ((host, "eth0"), (self._hub, host.name)):
                where.run("tc", "qdisc", "add", "dev", device, "root", "tbf",
                          "rate", "1mbit", "burst", "4kb", "latency", "400ms")  # fmt: skip
                where.run("tc", "qdisc", "add", "dev", device, "clsact")
                where.run("tc", "filter", "add", "dev", device, "egress", "bpf", "da", "bytecode",
                          _dropping(loss))  # fmt: skip
            return f"1 Mbit/s, {percent} of packets lost"
        return f"40 ms, {percent} of packets lost"

    def remove(self) -> None:
        for host in reversed(self._hosts):
            host.remove()


def _dropping(loss: float) -> str:
    """Return a classic BPF program that drops this share of all packets."""
    shot, ok, bound = 2, 0, round(loss * 0xFFFFFFFF)
    # Load a random number; below the bound: shot; else: ok.
    steps = [(0x20, 0, 0, RANDOM), (0x35, 1, 0, bound), (0x06, 0, 0, shot), (0x06, 0, 0, ok)]
    return ",".join([str(len(steps)), *(" ".join(map(str, step)) for step in steps)])


def _enter(path: str) -> None:
    with open(path) as namespace:
        _set_namespace(namespace.fileno())


def _set_namespace(descriptor: int) -> None:
    # Python has os.setns from 3.12 on.
    if ctypes.CDLL(None, use_errno=True).setns(descriptor, 0):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
