"""On one Slurm: Lockstep's engine against an sbatch script that calls srun."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from tests.slurm.testbed import Slurm, make_folder

from _engines.start import NODES, RANK, RANKS, compare
from tests.conftest import PROGRAM

# Slurm schedules at most every 2 s, and the end of a job counts: each turn begins after that.
REST = 3.0


class Gang:
    def __init__(self, folder: Path, slurm: Slurm) -> None:
        self.folder = folder
        shared = folder / "shared"
        shared.mkdir()
        self.environment = {**slurm.environment, "LOCKSTEP_HOME": str(folder / "home")}
        self.lockstep("serve", "--engine", "slurm", "--shared", str(shared), "--detach")

    def command(self, *words: str) -> str:
        done = subprocess.run(
            words,
            env=self.environment,
            cwd=self.folder,
            check=False,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            raise SystemExit(f"{' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def lockstep(self, *words: str) -> str:
        return self.command(str(PROGRAM), *words)

    def ours(self, stamps: Path) -> Callable[[], bool]:
        size = ["-n", str(NODES), "-g", str(RANKS), "--env", f"STAMPS={stamps}"]
        name = self.lockstep("run", "--detach", *size, "--", "sh", "-c", RANK + 'stamp "$RANK"')
        show = ["show", name, "--json"]
        return lambda: bool(json.loads(self.lockstep(*show))["ended"]) and self.is_idle()

    def peer(self, stamps: Path) -> Callable[[], bool]:
        script = self.folder / "job.sh"
        script.write_text(f"#!/bin/sh\nsrun sh -c '{RANK}stamp \"$SLURM_PROCID\"'\n")
        size = [f"--nodes={NODES}", f"--ntasks-per-node={RANKS}"]
        job = self.command(
            "sbatch", "--parsable", *size, f"--export=ALL,STAMPS={stamps}", str(script)
        )
        state = ["squeue", "-h", "-t", "all", "-j", job, "-o", "%T"]
        return lambda: self.command(*state) in ("COMPLETED", "FAILED") and self.is_idle()

    def is_idle(self) -> bool:
        free = ["sinfo", "-h", "-N", "-p", "all", "-o", "%t"]
        return set(self.command(*free).split()) == {"idle"}


def compare_with_sbatch(rounds: int) -> None:
    folder = make_folder()
    slurm = Slurm(folder)
    try:
        slurm.start()
        gang = Gang(folder, slurm)
        try:
            compare("slurm", "sbatch + srun", gang.ours, gang.peer, folder, rounds, REST)
        finally:
            gang.lockstep("serve", "--stop")
    finally:
        slurm.stop()
        shutil.rmtree(folder, ignore_errors=True)
