"""Cuts the network of single processes, in a network of our own: the machine's is never touched.

`enter_private_network()` moves this process, and what it starts from then on, into a new network namespace that
has nothing but a loopback device. In there all talk over 127.0.0.1, and `Firewall` tells nodes apart by the group
id that their processes run under: the packets that a group sends are dropped, and so are all packets of the
connections that it has opened. It needs root, iptables and a kernel that matches owners, and says `False` where
one of them is missing.
"""

import ctypes
import os
import shutil
import subprocess
from collections.abc import Sequence

CLONE_NEWNET = 0x40000000
FIRST_GROUP = 61_001
_TABLE = ("iptables", "-w")


def enter_private_network() -> bool:
    """Call it before threads are started. False: nothing has changed."""
    if os.geteuid() != 0 or not shutil.which("ip") or not _has_iptables():
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    before = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        if libc.unshare(CLONE_NEWNET) != 0:
            return False
        if _works(("ip", "link", "set", "lo", "up")) and _can_match_owners():
            return True
        libc.setns(before, CLONE_NEWNET)
        return False
    finally:
        os.close(before)


class Firewall:
    """Cuts and heals. One instance, made in the private network before the nodes connect anywhere."""

    def __init__(self, groups: Sequence[int], store_port: int) -> None:
        self._store_port = store_port
        for group in groups:
            opened = ("-p", "tcp", "--syn", "-m", "owner", "--gid-owner", str(group))
            mark = ("-j", "CONNMARK", "--set-mark")
            _iptables("-t", "mangle", "-A", "OUTPUT", *opened, *mark, hex(_other(group)))
            _iptables(
                "-t", "mangle", "-A", "OUTPUT", *opened, "--dport", str(store_port), *mark, hex(_store(group))
            )

    def cut_store(self, group: int) -> None:
        """No packet passes between the node and the store; everything else does."""
        _iptables("-I", "OUTPUT", *_marked(_store(group)))

    def cut_all(self, group: int) -> None:
        """No packet leaves the node, and nothing comes to the connections that it opened."""
        for rule in self._whole(group):
            _iptables("-I", "OUTPUT", *rule)

    def heal(self, group: int) -> None:
        """Take back what was cut."""
        for rule in (_marked(_store(group)), *self._whole(group)):
            while _works((*_TABLE, "-D", "OUTPUT", *rule)):
                pass

    def _whole(self, group: int) -> Sequence[tuple[str, ...]]:
        sent = ("-m", "owner", "--gid-owner", str(group), "-j", "DROP")
        return (sent, _marked(_store(group)), _marked(_other(group)))


def _store(group: int) -> int:
    return (group - FIRST_GROUP + 1) * 2


def _other(group: int) -> int:
    return _store(group) + 1


def _marked(mark: int) -> tuple[str, ...]:
    return ("-m", "connmark", "--mark", hex(mark), "-j", "DROP")


def _has_iptables() -> bool:
    """Installs it where that is allowed, for it is no part of a small Debian."""
    if not shutil.which("iptables") and shutil.which("apt-get"):
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        install = ["apt-get", "-q", "install", "-y", "--no-install-recommends", "iptables"]
        subprocess.run(install, env=quiet, capture_output=True, check=False)
    return shutil.which("iptables") is not None


def _can_match_owners() -> bool:
    """Whether this kernel has what `Firewall` uses."""
    rules = (
        ("-t", "mangle", "-A", "OUTPUT", "-m", "owner", "--gid-owner", "1", "-j", "CONNMARK", "--set-mark", "1"),
        ("-A", "OUTPUT", *_marked(1)),
    )
    return all(_works((*_TABLE, *rule)) for rule in rules) and all(
        _works((*_TABLE, *flush)) for flush in (("-t", "mangle", "-F"), ("-F",))
    )


def _iptables(*rule: str) -> None:
    subprocess.run([*_TABLE, *rule], check=True, capture_output=True)


def _works(command: Sequence[str]) -> bool:
    return subprocess.run(command, check=False, capture_output=True).returncode == 0
