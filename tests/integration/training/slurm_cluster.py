"""A real Slurm of one node on this machine, all of its state in one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "sinfo", "scontrol")
CALL_TIMEOUT_S = 30

CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/sock
CredType=cred/munge
SlurmctldPort={controller_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
MailProg={true}
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout=30
KillWait=2
MinJobAge=300
SchedulerParameters=sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
SlurmdParameters=config_overrides
EnforcePartLimits=ALL
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={node_port} CPUs=8 RealMemory=64000
PartitionName=main Nodes=n1 Default=YES MaxTime=00:30:00 DefaultTime=00:05:00
"""


@dataclass
class Cluster:
    """A running cluster.

    Attributes:
        folder: all of its state; short, as a socket's path may have 100 characters only.
    """

    folder: Path

    @property
    def configuration(self) -> Path:
        return self.folder / "slurm.conf"

    def call(self, *command: str) -> str:
        environment = {**os.environ, "SLURM_CONF": str(self.configuration)}
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=True,
            env=environment,
            timeout=CALL_TIMEOUT_S,
        )
        return done.stdout

    def start(self) -> None:
        self._start_munge()
        text = CONFIGURATION.format(
            host=socket.gethostname().split(".")[0],
            folder=self.folder,
            true=shutil.which("true"),
            controller_port=_free_port(),
            node_port=_free_port(),
        )
        self.configuration.write_text(text, encoding="utf-8")
        (self.folder / "cgroup.conf").write_text("", encoding="utf-8")
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        self.call("slurmctld", "-c")
        self.call("slurmd", "-N", "n1")
        until = time.monotonic() + 60
        while "idle" not in self.call("sinfo", "-h", "-o", "%t"):
            assert time.monotonic() < until, (self.folder / "slurmctld.log").read_text()
            time.sleep(0.2)

    def _start_munge(self) -> None:
        munge = self.folder / "munge"
        munge.mkdir(mode=0o755)
        (munge / "key").write_bytes(secrets.token_bytes(1024))
        (munge / "key").chmod(0o600)
        files = {"key-file": "key", "socket": "sock", "pid-file": "pid", "log-file": "log"}
        options = [f"--{option}={munge / name}" for option, name in files.items()]
        subprocess.run(
            ["munged", *options, f"--seed-file={munge / 'seed'}"],
            check=True,
            timeout=CALL_TIMEOUT_S,
        )

    def _end_jobs(self, timeout_s: float = 20) -> None:
        """End what still runs: nobody else would once the daemons are gone."""
        until = time.monotonic() + timeout_s
        while (jobs := self.call("squeue", "-h", "-o", "%A").split()) and time.monotonic() < until:
            self.call("scancel", "--quiet", *jobs)
            time.sleep(0.5)

    def stop(self) -> None:
        with contextlib.suppress(OSError, subprocess.SubprocessError):  # it may not have started
            self._end_jobs()
        for name in ("slurmd.pid", "slurmctld.pid", "munge/pid"):
            path = self.folder / name
            if path.is_file() and path.read_text().strip():
                _end(int(path.read_text()))
        shutil.rmtree(self.folder, ignore_errors=True)


def _end(process: int, timeout_s: float = 20) -> None:
    """End a daemon and wait until it is gone, so that it writes no more."""
    until = time.monotonic() + timeout_s
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGTERM)
        while time.monotonic() < until:
            os.kill(process, 0)
            time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
