"""Record the outlines anew and say what changed; read the changed files by eye before committing.

HPCLLM_ARCHIVES=folder python -m tests.archives.record
"""

from __future__ import annotations

import sys

from tests.archives.outlines import VARIABLE, archives, differences, load, names, outline, save


def main() -> int:
    """Record all files and return an exit code."""
    folder = archives()
    if folder is None:
        sys.stderr.write(f"set {VARIABLE} to the folder that holds the unpacked archives\n")
        return 2
    recorded = load()
    outlines = {name: outline(folder, name) for name in names()}
    changed = 0
    for name in sorted({*recorded, *outlines}):
        found = differences(recorded.get(name, []), outlines.get(name, []))
        changed += bool(found)
        for text in found:
            sys.stdout.write(f"{name}: {text}\n")
    save(outlines.values())
    sys.stdout.write(f"{len(outlines)} outlines recorded, {changed} changed\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
