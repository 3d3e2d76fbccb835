"""A real Slurm on this machine: munged, slurmctld and a slurmd for each of its hosts."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conftest import wait_until

HOSTS = tuple(f"n{number}" for number in range(1, 9))
GPU_HOSTS = ("g1", "g2", "g3")  # in the partitions gpus and types alone
CPUS = 4
# A killed slurmd counts as down after this many seconds.
SILENT_AFTER = 10

CONFIG = """\
ClusterName=lockstep
SlurmctldHost={machine}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=2,bf_interval=2
TopologyPlugin=topology/tree
SlurmdParameters=config_overrides
SlurmdTimeout={silent_after}
SlurmctldTimeout=10
KillWait=5
MinJobAge=300
ReturnToService=2
GresTypes=gpu
PreemptType=preempt/partition_prio
PreemptMode=CANCEL
{nodes}
PartitionName=all Nodes=n[1-8] Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO GraceTime=20
PartitionName=other Nodes=n[1-8] MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=n[1-8] MaxTime=INFINITE State=UP PriorityTier=9 PreemptMode=OFF
PartitionName=gpus Nodes=g[1-2] MaxTime=INFINITE State=UP
PartitionName=types Nodes=g3 MaxTime=INFINITE State=UP
"""

TOPOLOGY = """\
SwitchName=leaf1 Nodes=n[1-4]
SwitchName=leaf2 Nodes=n[5-8],g[1-3]
SwitchName=spine Switches=leaf[1-2]
"""


# Their files are copies of /dev/null. Slurm counts no GPUs without files.
GRES = """\
NodeName=g1 Name=gpu Type=a100 File={folder}/gpu[0-1]
NodeName=g2 Name=gpu File={folder}/gpu[2-3]
NodeName=g3 Name=gpu Type=a100 File={folder}/gpu[4-5]
NodeName=g3 Name=gpu Type=h100 File={folder}/gpu[6-7]
"""
PROPERTIES = {
    **{f"n{number}": "Feature=red" for number in range(1, 5)},
    **{f"n{number}": "Feature=blue,fast" for number in range(5, 9)},
    "g1": "Gres=gpu:a100:2",
    "g2": "Gres=gpu:2",
    "g3": "Gres=gpu:a100:2,gpu:h100:2",
}


class Slurm:
    """Started by start(); stop() ends all of its processes. `settings` replaces lines of the
    configuration, and `hosts` are those whose slurmd starts."""

    def __init__(
        self,
        folder: Path,
        hosts: Sequence[str] = HOSTS + GPU_HOSTS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.hosts = hosts
        self.settings = settings or {}
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}

    def start(self) -> None:
        self._configure()
        self.start_munge()
        self.start_controller()
        for host in self.hosts:
            self.start_host(host)
        wait_until("every host of Slurm is idle", self._is_idle)

    def _configure(self) -> None:
        # Ports that are free now; others may take them before the daemons do.
        with contextlib.ExitStack() as held:
            ports: list[int] = []
            for _ in range(len(HOSTS + GPU_HOSTS) + 1):
                holder = held.enter_context(socket.socket())
                holder.bind(("127.0.0.1", 0))
                ports.append(holder.getsockname()[1])
        machine = socket.gethostname().partition(".")[0]
        nodes = "\n".join(
            f"NodeName={host} NodeHostname={machine} NodeAddr=127.0.0.1 Port={port} CPUs={CPUS} "
            f"RealMemory=1000 {PROPERTIES[host]}"
            for host, port in zip(HOSTS + GPU_HOSTS, ports[1:], strict=True)
        )
        text = CONFIG.format(
            machine=machine,
            port=ports[0],
            folder=self.folder,
            nodes=nodes,
            silent_after=SILENT_AFTER,
        )
        for name, value in self.settings.items():
            text = re.sub(f"^{name}=.*$", f"{name}={value}", text, flags=re.M)
        (self.folder / "state").mkdir()
        (self.folder / "slurm.conf").write_text(text)
        (self.folder / "topology.conf").write_text(TOPOLOGY)
        (self.folder / "gres.conf").write_text(GRES.format(folder=self.folder))
        for number in range(8):
            os.mknod(self.folder / f"gpu{number}", 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)

    def start_munge(self) -> None:
        files = {
            "key-file": "munge.key",
            "socket": "munge.socket",
            "pid-file": "munge.pid",
            "log-file": "munge.log",
            "seed-file": "munge.seed",
        }
        options = [f"--{name}={self.folder / file}" for name, file in files.items()]
        self._start("munged", "munged", "--foreground", "--force", *options)
        wait_until("munged listens", (self.folder / "munge.socket").exists)

    def start_controller(self) -> None:
        self._start("slurmctld", "slurmctld", "-D")
        wait_until("slurmctld answers", lambda: self.call("scontrol", "ping").returncode == 0)

    def start_host(self, host: str) -> None:
        self._start(host, "slurmd", "-D", "-N", host)

    def _start(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.output").open("ab") as output:
            self.processes[name] = subprocess.Popen(
                [f"/usr/sbin/{command[0]}", *command[1:]],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def _is_idle(self) -> bool:
        wanted = ("-n", ",".join(self.hosts), "-p", "all,gpus,types")
        states = self.call("sinfo", "-h", "-N", *wanted, "-o", "%t").stdout.split()
        return states == ["idle"] * len(self.hosts)

    def call(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, env=self.environment, text=True, capture_output=True, timeout=30, check=False
        )

    def ok(self, *command: str) -> str:
        done = self.call(*command)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def kill(self, name: str, number: signal.Signals = signal.SIGKILL) -> None:
        """Kill one daemon: munged, slurmctld, or the slurmd of a host."""
        process = self.processes.pop(name)
        process.send_signal(number)
        process.wait(30)

    def kill_host(self, host: str) -> None:
        """Its slurmd and all that runs on it end at once, and Slurm hears that it is down."""
        self.kill(host)
        for process in self._with_variables(self._own, f"SLURMD_NODENAME={host}"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        self.ok("scontrol", "update", f"nodename={host}", "state=down", "reason=power lost")

    def revive_host(self, host: str) -> None:
        self.start_host(host)
        self.ok("scontrol", "update", f"nodename={host}", "state=resume")

    def stop(self) -> None:
        self.call("scancel", "--user=root")
        for name in list(self.processes):
            self.kill(name)
        for process in self._left_behind():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def _left_behind(self) -> list[int]:
        """The step daemons of killed hosts, and what they started."""
        return self._with_variables(self._own)

    @property
    def _own(self) -> str:
        """A variable of all that this Slurm starts: other Slurms of tests have the same hosts."""
        return f"SLURM_CONF={self.folder / 'slurm.conf'}"

    def _with_variables(self, *wanted: str) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = (entry / "environ").read_bytes().split(b"\0")
                is_wanted = all(variable.encode() in variables for variable in wanted)
                if is_wanted and int(entry.name) != os.getpid():
                    found.append(int(entry.name))
        return found


def make_folder() -> Path:
    """Short, since the path of a socket has at most 107 characters."""
    folder = Path(tempfile.mkdtemp(prefix="lockstep-slurm-", dir="/tmp"))
    folder.chmod(0o755)  # jobs of other users pass through it
    return folder
