from __future__ import annotations

import pytest

from hpcllm.errors import ConfigError
from hpcllm.server.listening import listen


def test_a_taken_port_names_address_and_remedy() -> None:
    with listen("127.0.0.1", 0) as taken:
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=rf"127\.0\.0\.1 port {port}: .*in use.*--port"):
            listen("127.0.0.1", port)
