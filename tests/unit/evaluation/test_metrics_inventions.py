from __future__ import annotations

from pathlib import Path

import pytest

from hpcllm.evaluation.metrics.inventions import invented_names
from hpcllm.evaluation.metrics.known import KnownNames, collect_known, plain_path, read_known

PAGE = """\
Submit with `sbatch --partition=gpu --time=01:00:00 job.sh`, look with `squeue --me`.

```bash
module load gcc/13.3.0
cp data.tar /scratch/$USER/in/
mytool --fancy input
cat /etc/slurm/slurm.conf
```
"""
SITE = {
    "partition": [{"name": "cpu"}, {"name": "gpu"}],
    "modules": {"available": ["openmpi/4.1.6"]},
    "filesystem": [{"path": "/project/<account>"}],
}
KNOWN = collect_known([PAGE], SITE)


@pytest.mark.parametrize(
    "text",
    [
        "`sbatch --partition=cpu --gres=gpu:1 job.sh`",
        "`sbatch -p gpu -N 2 job.sh`",
        "`module load openmpi`",
        "`module load openmpi/4.1.6 gcc/13.3.0`",
        "`ls /scratch/$USER/in/deep/file`",
        "`ls /project/mer0421/data`",
        "`cat /etc/slurm/slurm.conf`",
        "`mytool --fancy`",
        "`srun --pty ./solver --made-up-option-of-a-users-program`",
        "`sbatch --partition=<name> job.sh`",
        "`module load NAME/VERSION`",
        "plain words about partitions and modules",
        "`rsync -avP a b`",
        "`ssh -J gate host`",
    ],
)
def test_known_names_are_not_invented(text: str) -> None:
    assert invented_names(text, KNOWN) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("`sbatch --gpus-a100=2 job.sh`", ["option sbatch --gpus-a100"]),
        ("```\n#SBATCH --cores=4\n```", ["option sbatch --cores"]),
        ("`squeue --mine`", ["option squeue --mine"]),
        ("`mytool --plain`", ["option mytool --plain"]),
        ("`sbatch -p gpus job.sh`", ["partition gpus"]),
        ("`sbatch --partition=cpu,fast job.sh`", ["partition fast"]),
        ("`module load gcc/99.1`", ["module gcc/99.1"]),
        ("`module load nosuch && squeue --me`", ["module nosuch"]),
        ("`ls /scratch2/$USER`", ["path /scratch2/$USER"]),
        ("`cat /etc/slurm/nosuch/file`", []),
        ("`cat /etc/hpc.conf`", ["path /etc/hpc.conf"]),
        ("use --gpu-count=2 here", ["option --gpu-count"]),
    ],
)
def test_unknown_names_are_invented(text: str, expected: list[str]) -> None:
    assert invented_names(text, KNOWN) == expected


def test_what_the_user_wrote_is_not_invented() -> None:
    text = "`squeue --mine` is no option"
    assert invented_names(text, KNOWN, question="squeue --mine does not work") == []


def test_each_name_is_reported_once() -> None:
    assert invented_names("`squeue --mine` and `squeue --mine`", KNOWN) == ["option squeue --mine"]


def test_paths_have_one_spelling() -> None:
    assert plain_path("~/x/") == "$HOME/x"
    assert plain_path("${HOME}/x") == "$HOME/x"


def test_a_corpus_folder_is_read_with_its_site_facts(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("`sbatch --partition=special job.sh`", encoding="utf-8")
    (tmp_path / "site.toml").write_text('[[partition]]\nname = "big"\n', encoding="utf-8")
    (tmp_path / "questions").mkdir()
    (tmp_path / "questions" / "x.md").write_text("`sbatch -p hidden x`", encoding="utf-8")
    assert read_known(tmp_path).partitions == {"special", "big"}


def test_nothing_is_known_without_pages_but_the_tables() -> None:
    known = collect_known([])
    assert known.has_option("sbatch", "--nodes") and not known.has_option("sbatch", "--node-count")
    assert known.partitions == frozenset()
    assert not KnownNames().has_option("no-such-tool-at-all", "--nodes")
