"""Links between processes over TCP: who is still there, and hints that something has changed.

What is said, in lines of ASCII, at most 256 bytes: the listener greets with `tickwheel-peer 1 <process>` and may
send `nudge` later on. Nothing is read from whoever connects. The port is on the network, so what comes from the
other side is never trusted: a greeting that is no greeting shows nothing, and who sends anything is cut off.
"""

from tickwheel.adapters.peers.tcp_peers import TcpPeers

__all__ = ["TcpPeers"]
