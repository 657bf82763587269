"""Take an address to listen on.

Role: binds before anything is loaded, so that a taken port is told at once and not after minutes.
"""

from __future__ import annotations

import socket

from hpcllm.errors import ConfigError


def listen(host: str, port: int) -> socket.socket:
    """Return a bound socket.

    Args:
        host: name or address.
        port: its port; 0 takes a free one.

    Raises:
        ConfigError: the address cannot be had.
    """
    listener = None
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
    except OSError as exc:
        if listener is not None:
            listener.close()
        raise ConfigError(
            f"cannot listen on {host} port {port}: {exc.strerror or exc}; choose others with "
            "--host and --port"
        ) from exc
    return listener
