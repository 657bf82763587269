from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpcllm.evaluation.metrics.command_tables import kibibytes_of, seconds_of
from hpcllm.evaluation.metrics.commandline import Command, parse_commands, split_words


def parse(text: str) -> Command:
    (command,) = parse_commands(text)
    return command


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sbatch -N 2 -t 1:00:00 job.sh", "sbatch --time=01:00:00 --nodes=2 job.sh"),
        ("sbatch -N2 job.sh", "sbatch --nodes 2 job.sh"),
        ("sbatch --time=60 job.sh", "sbatch -t 01:00:00 job.sh"),
        ("sbatch --time=1-00:00:00 job.sh", "sbatch --time=24:00:00 job.sh"),
        ("srun --mem=16G --pty bash -i", "srun --pty --mem 16384M bash -i"),
        ("#SBATCH -p gpu -c 8", "#SBATCH --cpus-per-task=8 --partition=gpu"),
        ("squeue --me --start", "squeue --start --me"),
        ("squeue -u $USER", "squeue --user=$USER"),
        ("sacct -j 123456 -o JobID,State", "sacct --format=State,JobID --jobs=<jobid>"),
        ("module load gcc openmpi", "module add openmpi gcc"),
        ("ml gcc/13.3.0", "module load gcc/13.3.0"),
        ("ml", "module list"),
        ("ml av", "module avail"),
        ("rsync -avP data/ my_name@dtn:/x/", "rsync --archive --partial data/ <user>@dtn:/x/"),
        ("singularity exec --nv -B /a,/b i.sif ./x", "apptainer exec --bind=/b,/a --nv i.sif ./x"),
        ('touch "$HOME/a b"', "touch '$HOME/a b'"),
        ("cd ~/data", "cd ${HOME}/data"),
        ("$ sudo squeue --me", "squeue --me"),
        ("pip install --user numpy", "pip3 install numpy --user"),
        ("ssh -J gate me@c1", "ssh -Jgate me@c1"),
    ],
)
def test_equal_commands_are_equal(one: str, other: str) -> None:
    assert parse(one) == parse(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sbatch -N 2 job.sh", "sbatch -n 2 job.sh"),
        ("sbatch --time=60 job.sh", "sbatch --time=60:00:00 job.sh"),
        ("sbatch --mem=16 job.sh", "sbatch --mem=16G job.sh"),
        ("rsync a b", "rsync b a"),
        ("rsync a/ b", "rsync a b"),
        ("scp -r a b", "scp a b"),
        ("module load gcc/12", "module load gcc/13"),
        ("module load gcc", "module unload gcc"),
        ("apptainer exec i.sif ls", "apptainer run i.sif ls"),
        ("srun --pty bash -i", "srun --pty bash"),
    ],
)
def test_different_commands_differ(one: str, other: str) -> None:
    assert parse(one) != parse(other)


def test_options_of_the_started_program_are_arguments() -> None:
    command = parse("srun --mpi=pmix apptainer exec --nv i.sif ./a -n 3")
    assert command.option_names == {"--mpi"}
    assert command.arguments == ("apptainer", "exec", "--nv", "i.sif", "./a", "-n", "3")


def test_lists_pipes_and_lines_give_several_commands() -> None:
    text = "module purge && module load gcc\nsqueue --me | head -5; sinfo > nodes.txt 2>&1"
    assert [c.tool for c in parse_commands(text)] == [
        "module purge", "module load", "squeue", "head", "sinfo",
    ]  # fmt: skip
    assert parse_commands(text)[-1] == Command("sinfo")


def test_continued_lines_are_one_command() -> None:
    assert parse("sbatch --nodes=2 \\\n    job.sh") == parse("sbatch --nodes=2 job.sh")


def test_comments_are_dropped_and_directives_are_not() -> None:
    assert parse_commands("# a comment\n#!/bin/bash") == []
    assert parse("#SBATCH --mem=0   # all of it") == Command(
        "#SBATCH", frozenset({("--mem", "0K")})
    )


def test_assignments_count_as_exports() -> None:
    exported = Command("export", frozenset({("OMP_NUM_THREADS", "4")}))
    assert parse("export OMP_NUM_THREADS=4") == exported
    assert parse_commands("OMP_NUM_THREADS=4 ./a") == [exported, Command("./a")]


def test_an_option_by_itself_is_read_as_one_of_a_job() -> None:
    assert parse("--cpus-per-task=12") == Command("option", frozenset({("--cpus-per-task", "12")}))
    assert parse("-c 12") == parse("--cpus-per-task=12")


def test_substitutions_and_placeholders_stay_whole() -> None:
    assert split_words('eval "$(conda shell.bash hook)"') == [["eval", "$(conda shell.bash hook)"]]
    assert split_words("a $(b; c | d) e") == [["a", "$(b; c | d)", "e"]]
    assert parse("scancel <job id>").arguments == ("□",)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("90", "5400s"), ("1:30", "90s"), ("01:30:00", "5400s"), ("1-12", "129600s"),
        ("2-00:00:00", "172800s"), ("1-0:30", "88200s"), ("unlimited", "UNLIMITED"),
    ],
)  # fmt: skip
def test_times_become_seconds(value: str, expected: str) -> None:
    assert seconds_of(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("16G", "16777216K"), ("16384M", "16777216K"), ("16384", "16777216K"), ("1T", "1073741824K"),
     ("0", "0K"), ("16GB", "16777216K"), ("$MEM", "$MEM")],
)  # fmt: skip
def test_memory_becomes_kibibytes(value: str, expected: str) -> None:
    assert kibibytes_of(value) == expected


@given(st.text(alphabet="ab -=\"'$()<>|&;#\\\n/.0", max_size=60))
def test_any_text_can_be_parsed(text: str) -> None:
    for command in parse_commands(text):
        assert command.tool
