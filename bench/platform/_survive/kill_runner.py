"""Executes a plan's kills during the submissions, restarts the daemon, and measures times."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from _survive import processes, rank_logs
from _survive.local_cluster import SERVE, LocalCluster, Violation, wait_until
from _survive.plan import Plan, PlannedKill
from _survive.processes import LockstepProcess

MOMENT_SECONDS = 15.0  # for a moment to come; a run may have ended before
SHOW_SECONDS = 20.0


@dataclass(frozen=True)
class DoneKill:
    """A kill that met its process. Monotonic times."""

    member: LockstepProcess
    time: float


@dataclass(frozen=True)
class DaemonDowntime:
    """A time without a daemon."""

    since: float
    until: float


class KillRunner(threading.Thread):
    """`hits` and the measurements are complete once the thread has ended."""

    def __init__(self, world: LocalCluster, plan: Plan) -> None:
        super().__init__(name="blows", daemon=True)
        self._world = world
        self._plan = plan
        self._daemon_dead_since: float | None = None
        self.done_kills: list[DoneKill] = []
        self.downtimes: list[DaemonDowntime] = []
        self.seconds_to_answer: list[float] = []
        self.seconds_to_state: list[float] = []
        self._failure: Exception | None = None
        self._cancelled = threading.Event()

    def __enter__(self) -> KillRunner:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Once this returns, it kills and starts no more processes."""
        self._cancelled.set()
        self.join()

    def run(self) -> None:
        try:
            for number, kill in enumerate(self._plan.kills):
                self._run_kill(number, kill)
            self._restart_daemon(len(self._plan.kills) - 1)
        except Exception as failure:  # for the thread that joins this one
            self._failure = failure

    def finish(self, patience: float) -> None:
        self.join(patience)
        if self.is_alive():
            raise Violation(f"the kills were not done after {patience:g} s")
        if self._failure:
            raise self._failure

    def _sleep_until(self, moment: float) -> None:
        if self._cancelled.wait(max(0.0, moment - time.monotonic())):
            raise Violation("the round was interrupted")

    def _run_kill(self, number: int, kill: PlannedKill) -> None:
        if kill.moment == "restart":
            return self._kill_during_restart(number, kill)
        if kill.kind == "daemon":
            self._restart_daemon(number - 1)
        if not self._await_moment(kill):
            return self._world.timeline.add(f"the moment '{kill.moment}' did not come")
        self._sleep_until(time.monotonic() + kill.delay)
        return self._hit(kill, measured=self._daemon_dead_since is None)

    def _kill_during_restart(self, number: int, kill: PlannedKill) -> None:
        """Kills while the daemon starts: the daemon itself, an agent, or a rank."""
        began = self._restart_time(number - 1)
        with ThreadPoolExecutor(1) as beside:
            restart = beside.submit(self._restart_daemon, number - 1, kill.kind)
            self._sleep_until(began + kill.delay)
            self._hit(kill, measured=False)
            restart.result()

    def _restart_time(self, number: int) -> float:
        since = self._daemon_dead_since or time.monotonic()
        return max(time.monotonic(), since + self._plan.pauses[number])

    def _await_moment(self, kill: PlannedKill) -> bool:
        if kill.moment in ("submit", "now"):
            return True
        reached: Callable[[], object] = {
            "launch": lambda: self._candidates(kill),
            "running": lambda: self._reached(kill),
            "draining": lambda: self._has_ended(kill),
        }[kill.moment]
        try:
            return bool(wait_until(kill.moment, MOMENT_SECONDS, lambda: self._passes(reached)))
        except Violation:
            return False

    def _passes(self, reached: Callable[[], object]) -> object:
        self._sleep_until(0)
        return reached()

    def _rank_logs(self, kill: PlannedKill) -> list[rank_logs.RankLog]:
        return rank_logs.read(self._world.rank_logs, kill.target)

    def _reached(self, kill: PlannedKill) -> bool:
        return any(kill.step in log.done for log in self._rank_logs(kill))

    def _has_ended(self, kill: PlannedKill) -> bool:
        return any(log.ended for log in self._rank_logs(kill))

    def _candidates(self, kill: PlannedKill) -> list[LockstepProcess]:
        if kill.kind == "daemon":
            daemons = self._world.members("daemon")
            return sorted(daemons, key=lambda daemon: int(daemon.born))[:1]
        living = self._world.members(kill.kind)
        of_target = [each for each in living if each.run.startswith(f"{kill.target}/")]
        return of_target or living

    def _hit(self, kill: PlannedKill, measured: bool) -> None:
        candidates = self._candidates(kill)
        if not candidates:
            return self._world.timeline.add(f"there is no {kill.kind} to kill")
        # Chosen by the step, so that not always the same rank of the gang is killed.
        member = sorted(candidates, key=str)[(kill.step + self._plan.index) % len(candidates)]
        before = time.monotonic()
        if not processes.kill(member):
            return self._world.timeline.add(f"{member} ended before it was killed")
        self._world.timeline.add(f"killed {member}")
        self.done_kills.append(DoneKill(member, before))
        if member.kind == "daemon":
            self._daemon_dead_since = before
        elif member.kind == "rank" and measured and self._is_last(kill):
            self._measure_state(member)
        return None

    def _is_last(self, kill: PlannedKill) -> bool:
        return kill is self._plan.kills[-1]

    def _measure_state(self, member: LockstepProcess) -> None:
        """From a rank's death to its state in `lockstep show`, if an agent noticed it."""
        began = time.monotonic()
        state = ""
        while state != "killed" and time.monotonic() < began + SHOW_SECONDS:
            asked = time.monotonic()
            state = self._state_of(member)
            if state in ("exited", "lost"):  # it had ended when it was killed, or its agent had
                return
            self._world.timeline.add(f"`lockstep show`, {asked - began:.3f} s on: {state}")
        if state != "killed":
            raise Violation(f"`lockstep show` did not tell that {member} was killed")
        self.seconds_to_state.append(time.monotonic() - began)

    def _state_of(self, member: LockstepProcess) -> str:
        shown = self._world.command("show", member.run, "--json")
        if shown.returncode != 0:
            return ""
        for attempt in json.loads(shown.stdout)["attempts"]:
            for node in attempt["nodes"]:
                for rank in node["ranks"]:
                    if (attempt["epoch"], rank["rank"]) == (member.epoch, member.rank):
                        return str(rank["state"])
        return ""

    def _restart_daemon(self, number: int, disturbed_by: str = "") -> None:
        """Starts the daemon again after its pause, if it is dead."""
        since = self._daemon_dead_since
        if since is None:
            return
        self._sleep_until(self._restart_time(number))
        self._daemon_dead_since = None
        by_command = self._plan.by_command[number]
        began = time.monotonic()
        self.downtimes.append(DaemonDowntime(since, began))
        started = self._world.command(*(("ps",) if by_command else SERVE))
        seconds = time.monotonic() - began
        how = "a command" if by_command else "`serve --detach`"
        self._world.timeline.add(
            f"{how} brought the daemon back in {seconds:.3f} s: {started.returncode} "
            f"{started.stderr.strip()}"
        )
        self._check_start(started.returncode, seconds, disturbed_by, started.stderr)

    def _check_start(self, status: int, seconds: float, disturbed_by: str, said: str) -> None:
        if status == 0:
            if not disturbed_by:
                self.seconds_to_answer.append(seconds)
        elif disturbed_by != "daemon" and "already serves" not in said:
            raise Violation(f"the daemon did not come back: {said.strip()}")
