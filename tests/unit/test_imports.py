"""Imports point one way, and importing the package loads nothing heavy."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import hpcllm

PACKAGE = Path(hpcllm.__file__).parent
LAYERS = [
    {"errors", "records", "workspace", "workspace_environment", "scaffold"},
    {"corpus", "models", "cluster"},
    {"index"},
    {"assistant"},
    {"evaluation", "training", "server"},
    {"ui"},
    {"cli"},
    {"__main__"},
]
"""Lowest first; a module may import from its own part and from lower layers only."""
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
HEAVY = (
    "torch",
    "faiss",
    "onnxruntime",
    "gradio",
    "transformers",
    "xllamacpp",
    "bm25s",
    "docutils",
)


def part_of(module: str) -> str:
    pieces = module.split(".")
    return pieces[1] if len(pieces) > 1 else ""


def imported_modules(tree: ast.AST) -> list[str]:
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.append(node.module)
    return [name for name in found if name.startswith("hpcllm.")]


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda p: str(p.relative_to(PACKAGE))
)
def test_no_module_imports_from_a_higher_layer(path: Path) -> None:
    relative = path.relative_to(PACKAGE)
    own = relative.parts[0].removesuffix(".py")
    if own == "__init__":
        return
    for module in imported_modules(ast.parse(path.read_text(encoding="utf-8"))):
        part = part_of(module)
        same_rank_other_part = RANK[part] == RANK[own] and part != own and RANK[own] > 0
        assert RANK[part] <= RANK[own] and not same_rank_other_part, f"{relative} imports {module}"


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {
        p.name.removesuffix(".py")
        for p in PACKAGE.iterdir()
        if p.name[0] not in "_." or p.name == "__main__.py"
    }
    assert parts - {"py.typed", "reference"} <= set(RANK)


@pytest.mark.parametrize("statement", ["import hpcllm", "import hpcllm.cli.main"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    code = f"import sys\n{statement}\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""
