from __future__ import annotations

import pytest

from hpcllm.evaluation.metrics.commands import commands_in, commands_share

SCRIPT = """\
Write this [1]:

```bash
#!/bin/bash
#SBATCH -p gpu
#SBATCH --gres=gpu:a100:2 --time=12:00:00
module load gcc
module load openmpi/4.1.6
srun ./my_program
```
"""


@pytest.mark.parametrize(
    ("gold", "share"),
    [
        (["#SBATCH --partition=gpu"], 1.0),
        (["#SBATCH --time=12:00:00 --gres=gpu:a100:2"], 1.0),
        (["#SBATCH --gres=gpu:a100:2", "#SBATCH --mem=0"], 0.5),
        (["#SBATCH --time=720"], 1.0),
        (["#SBATCH --time=24:00:00"], 0.0),
        (["module load openmpi/4.1.6 gcc"], 1.0),
        (["module load openmpi/4.1.6 gcc hdf5"], 0.0),
        (["srun ./my_mpi_program"], 1.0),
        (["sbatch job.sh"], 0.0),
    ],
)
def test_share_of_a_script(gold: list[str], share: float) -> None:
    assert commands_share(gold, SCRIPT) == share


def test_an_answer_may_add_options_but_not_leave_any_out() -> None:
    assert commands_share(["squeue --me"], "Use `squeue --me --start`.") == 1.0
    assert commands_share(["squeue --me --start"], "Use `squeue --me`.") == 0.0


def test_a_directive_may_be_given_on_the_command_line_or_alone() -> None:
    for text in ("`sbatch --mem=0 job.sh`", "add `--mem=0`", "#SBATCH --mem=0", "`srun --mem=0 a`"):
        assert commands_share(["#SBATCH --mem=0"], text) == 1.0


def test_unmarked_commands_count() -> None:
    assert commands_share(["scancel --me"], "- scancel --me [1]") == 1.0
    assert commands_share(["umask 0007"], "You can set umask 0007 in your profile.") == 1.0


def test_a_longer_value_is_not_found_in_the_text() -> None:
    assert commands_share(["#SBATCH --mem=2"], "Set `#SBATCH --mem=240G`.") == 0.0


def test_prose_gives_no_commands() -> None:
    assert commands_in("The job waits for time to pass, and python programs too.") == []
