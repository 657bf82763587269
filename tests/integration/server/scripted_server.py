"""A real server over a small index with a scripted model, to be started as a process of its own.

Run: python -m tests.integration.server.scripted_server FOLDER PORT '{"delay_s": 0.01}'
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import uvicorn

from hpcllm.server.app import create_app
from hpcllm.server.service import AssistantService
from hpcllm.server.store import Store
from tests.unit.server.helpers import RIGHT, open_assistant


def main(folder: Path, port: int, options: dict[str, object]) -> None:
    root_path = str(options.pop("root_path", ""))
    parallel, waiting = int(str(options.pop("parallel", 1))), int(str(options.pop("waiting", 16)))
    words = int(str(options.pop("words", 0)))
    answers = [RIGHT + " word" * words]
    store = Store.open(folder / "var" / "hpcllm.db")
    service = AssistantService(
        open_assistant(folder / "index", answers, **options),  # type: ignore[arg-type]
        index_dir=folder / "index",
        store=store,
        parallel=parallel,
        waiting=waiting,
    )
    app = create_app(service, store)
    uvicorn.run(app, port=port, root_path=root_path, log_level="warning")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), json.loads(sys.argv[3]))
