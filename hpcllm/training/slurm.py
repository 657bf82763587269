"""Training as a Slurm job.

Role: behind ``hpcllm train RECIPE --slurm``. submitit writes the job script, submits it and brings
back the report. A job that meets its time limit, or is preempted, is requeued and goes on from its
last checkpoint.
"""

from __future__ import annotations

import logging
import shlex
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpcllm.errors import TrainingError, import_extra
from hpcllm.training.process import ALLOCATOR, QUIET

if TYPE_CHECKING:
    from hpcllm.models.catalog import ModelEntry
    from hpcllm.training.recipe import Recipe, ResolvedRecipe
    from hpcllm.training.run import RunPaths

logger = logging.getLogger(__name__)

LOG_LINES = 40
"""Last lines of a failed job's log that are shown."""
JOBS_FOLDER = "slurm"
SIGNAL_BEFORE_END_S = 90
"""Seconds before its time limit at which a job is told to stop and is requeued."""


@dataclass(frozen=True)
class TrainingJob:
    """What runs inside the job.

    Attributes:
        resolved: the recipe.
        entry: catalog entry of the base.
        paths: where to read and write.
        fresh: start anew; only the first time.
    """

    resolved: ResolvedRecipe
    entry: ModelEntry
    paths: RunPaths
    fresh: bool = False

    def __call__(self) -> dict[str, Any]:
        """Train and return the report."""
        from hpcllm.training.run import train

        logging.basicConfig(level=logging.INFO, stream=sys.stderr)
        if tasks_of(self.resolved.recipe) > 1:
            # Rank, size and address of the processes, as torch expects them in the environment.
            import_extra("submitit", "train").helpers.TorchDistributedEnvironment().export()
        return train(self.resolved, self.entry, self.paths, fresh=self.fresh).to_json()

    def checkpoint(self) -> Any:
        """Return what is submitted when the job is stopped before its end: the same, going on."""
        helpers = import_extra("submitit.helpers", "train")
        return helpers.DelayedSubmission(replace(self, fresh=False))


def submit_training(
    resolved: ResolvedRecipe,
    entry: ModelEntry,
    paths: RunPaths,
    *,
    fresh: bool = False,
    wait: bool = True,
    cluster: str = "slurm",
) -> dict[str, Any]:
    """Submit a training run.

    Args:
        resolved: the recipe; its table ``slurm`` says what to ask for.
        entry: catalog entry of the base.
        paths: where to read and write; must be seen from the compute nodes.
        fresh: start anew where the folder holds checkpoints.
        wait: wait for the end and return the report.
        cluster: ``slurm``; ``local`` and ``debug`` run it on this machine.

    Returns:
        ``job`` (id), ``log`` (path of its error stream) and, when waited for, ``report``.

    Raises:
        TrainingError: Slurm is not there or refuses the job, or the job failed; the message holds
            the last lines of its log.
        MissingExtraError: submitit is not installed.
    """
    submitit = import_extra("submitit", "train")
    folder = paths.folder / JOBS_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    job = _submit(submitit, resolved, TrainingJob(resolved, entry, paths, fresh), folder, cluster)
    told: dict[str, Any] = {"job": str(job.job_id), "log": str(job.paths.stderr)}
    logger.warning("submitted job %s; its log is %s", told["job"], told["log"])
    if not wait:
        return told
    try:
        results = job.results()
    except Exception as exc:
        raise TrainingError(_failure(job, exc)) from exc
    return {**told, "report": results[0]}


def _submit(
    submitit: Any, resolved: ResolvedRecipe, task: TrainingJob, folder: Path, cluster: str
) -> Any:
    recipe = resolved.recipe
    try:
        executor = submitit.AutoExecutor(
            folder=folder / "%j",
            cluster=cluster,
            slurm_max_num_timeout=recipe.slurm.requeues,
            slurm_python=shlex.quote(sys.executable),
        )
        executor.update_parameters(**parameters(resolved))
        return executor.submit(task)
    except (RuntimeError, FileNotFoundError, submitit.core.utils.FailedJobError) as exc:
        raise TrainingError(
            f"Slurm did not take the job: {exc}. Check the table [slurm] of {resolved.name}, and "
            "that sbatch works here"
        ) from exc


def tasks_of(recipe: Recipe) -> int:
    """Return the processes of a run: one a GPU where GPUs share the work, else one."""
    return max(1, recipe.slurm.gpus) if recipe.training.distributed != "none" else 1


def parameters(resolved: ResolvedRecipe) -> dict[str, Any]:
    """Return submitit's parameters for a recipe."""
    recipe = resolved.recipe
    slurm, tasks = recipe.slurm, tasks_of(recipe)
    cpus = max(1, slurm.cpus // tasks)
    wanted: dict[str, Any] = {
        "name": f"hpcllm-{resolved.name}"[:60],
        "timeout_min": slurm.minutes,
        "mem_gb": slurm.memory_gb,
        "nodes": 1,
        "tasks_per_node": tasks,
        "cpus_per_task": cpus,
        "slurm_setup": setup_lines(recipe, cpus),
        "slurm_signal_delay_s": SIGNAL_BEFORE_END_S,
        "slurm_additional_parameters": {"requeue": True, "open_mode": "append"},
    }
    if slurm.gpus and slurm.gpu_type:
        wanted["slurm_gres"] = f"gpu:{slurm.gpu_type}:{slurm.gpus}"
    elif slurm.gpus:
        wanted["gpus_per_node"] = slurm.gpus
    named = {"slurm_partition": slurm.partition, "slurm_account": slurm.account}
    return wanted | {key: value for key, value in named.items() if value}


def setup_lines(recipe: Recipe, cpus: int) -> list[str]:
    """Return the shell lines before the run: modules, environment, the site's own."""
    variables = {
        **ALLOCATOR,
        **QUIET,
        "OMP_NUM_THREADS": str(recipe.training.threads or cpus),
        **recipe.slurm.environment,
    }
    lines = [f"module load {shlex.quote(name)}" for name in recipe.slurm.modules]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    return [*lines, *recipe.slurm.setup]


def _failure(job: Any, error: Exception) -> str:
    """Return what a person needs to see of a failed job."""
    paths = [Path(job.paths.stderr), Path(job.paths.stdout)]
    path = next((p for p in paths if p.is_file() and p.stat().st_size), paths[0])
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()[-LOG_LINES:]
    except OSError:
        lines = [str(error)]
    shown = "\n  ".join(lines)
    return (
        f"job {job.job_id} failed. The last lines of its log {path}:\n  {shown}\nMend the cause "
        "and start the same command again; it goes on from the last checkpoint"
    )
