"""Carries out a plan's kills beside the submissions, brings the daemon back, and takes times."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from _survive import diaries, processes
from _survive.plan import Blow, Plan
from _survive.processes import Member
from _survive.world import SERVE, Violation, World, wait_until

MOMENT_SECONDS = 15.0  # for a moment to come; a run may have ended before
SHOW_SECONDS = 20.0


@dataclass(frozen=True)
class Hit:
    """A kill that met its process. Monotonic times."""

    member: Member
    time: float


@dataclass(frozen=True)
class Absence:
    """When no daemon was there."""

    since: float
    until: float


class Blows(threading.Thread):
    """`hits` and what was measured are complete once the thread has ended."""

    def __init__(self, world: World, plan: Plan) -> None:
        super().__init__(name="blows", daemon=True)
        self._world = world
        self._plan = plan
        self._daemon_dead_since: float | None = None
        self.hits: list[Hit] = []
        self.absences: list[Absence] = []
        self.seconds_to_answer: list[float] = []
        self.seconds_to_state: list[float] = []
        self._failure: Exception | None = None
        self._cancelled = threading.Event()

    def __enter__(self) -> Blows:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is killed or started any more once this returns."""
        self._cancelled.set()
        self.join()

    def run(self) -> None:
        try:
            for number, blow in enumerate(self._plan.blows):
                self._carry_out(number, blow)
            self._bring_back(len(self._plan.blows) - 1)
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

    def _carry_out(self, number: int, blow: Blow) -> None:
        if blow.moment == "restart":
            return self._hit_into_restart(number, blow)
        if blow.kind == "daemon":
            self._bring_back(number - 1)
        if not self._await_moment(blow):
            return self._world.timeline.add(f"the moment '{blow.moment}' did not come")
        self._sleep_until(time.monotonic() + blow.delay)
        return self._hit(blow, measured=self._daemon_dead_since is None)

    def _hit_into_restart(self, number: int, blow: Blow) -> None:
        """Kills while the daemon starts: that one itself, or an agent, or a rank."""
        began = self._restart_time(number - 1)
        with ThreadPoolExecutor(1) as beside:
            restart = beside.submit(self._bring_back, number - 1, blow.kind)
            self._sleep_until(began + blow.delay)
            self._hit(blow, measured=False)
            restart.result()

    def _restart_time(self, number: int) -> float:
        since = self._daemon_dead_since or time.monotonic()
        return max(time.monotonic(), since + self._plan.pauses[number])

    def _await_moment(self, blow: Blow) -> bool:
        if blow.moment in ("submit", "now"):
            return True
        reached: Callable[[], object] = {
            "launch": lambda: self._candidates(blow),
            "running": lambda: self._reached(blow),
            "draining": lambda: self._has_ended(blow),
        }[blow.moment]
        try:
            return bool(wait_until(blow.moment, MOMENT_SECONDS, lambda: self._passes(reached)))
        except Violation:
            return False

    def _passes(self, reached: Callable[[], object]) -> object:
        self._sleep_until(0)
        return reached()

    def _diaries(self, blow: Blow) -> list[diaries.Diary]:
        return diaries.read(self._world.diaries, blow.target)

    def _reached(self, blow: Blow) -> bool:
        return any(blow.step in diary.done for diary in self._diaries(blow))

    def _has_ended(self, blow: Blow) -> bool:
        return any(diary.ended for diary in self._diaries(blow))

    def _candidates(self, blow: Blow) -> list[Member]:
        if blow.kind == "daemon":
            daemons = self._world.members("daemon")
            return sorted(daemons, key=lambda daemon: int(daemon.born))[:1]
        living = self._world.members(blow.kind)
        of_target = [each for each in living if each.run.startswith(f"{blow.target}/")]
        return of_target or living

    def _hit(self, blow: Blow, measured: bool) -> None:
        candidates = self._candidates(blow)
        if not candidates:
            return self._world.timeline.add(f"there is no {blow.kind} to kill")
        # By the step, so that not always the same rank of the gang is hit.
        member = sorted(candidates, key=str)[(blow.step + self._plan.index) % len(candidates)]
        before = time.monotonic()
        if not processes.kill(member):
            return self._world.timeline.add(f"{member} ended before it was killed")
        self._world.timeline.add(f"killed {member}")
        self.hits.append(Hit(member, before))
        if member.kind == "daemon":
            self._daemon_dead_since = before
        elif member.kind == "rank" and measured and self._is_last(blow):
            self._measure_state(member)
        return None

    def _is_last(self, blow: Blow) -> bool:
        return blow is self._plan.blows[-1]

    def _measure_state(self, member: Member) -> None:
        """From a rank's death to its state in `lockstep show`, where an agent saw it."""
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

    def _state_of(self, member: Member) -> str:
        shown = self._world.command("show", member.run, "--json")
        if shown.returncode != 0:
            return ""
        for attempt in json.loads(shown.stdout)["attempts"]:
            for node in attempt["nodes"]:
                for rank in node["ranks"]:
                    if (attempt["epoch"], rank["rank"]) == (member.epoch, member.rank):
                        return str(rank["state"])
        return ""

    def _bring_back(self, number: int, disturbed_by: str = "") -> None:
        """Starts the daemon again after its pause, if it is dead."""
        since = self._daemon_dead_since
        if since is None:
            return
        self._sleep_until(self._restart_time(number))
        self._daemon_dead_since = None
        by_command = self._plan.by_command[number]
        began = time.monotonic()
        self.absences.append(Absence(since, began))
        started = self._world.command(*(("ps",) if by_command else SERVE))
        seconds = time.monotonic() - began
        how = "a command" if by_command else "`serve --detach`"
        self._world.timeline.add(
            f"{how} brought the daemon back in {seconds:.3f} s: {started.returncode} "
            f"{started.stderr.strip()}"
        )
        self._judge_start(started.returncode, seconds, disturbed_by, started.stderr)

    def _judge_start(self, status: int, seconds: float, disturbed_by: str, said: str) -> None:
        if status == 0:
            if not disturbed_by:
                self.seconds_to_answer.append(seconds)
        elif disturbed_by != "daemon" and "already serves" not in said:
            raise Violation(f"the daemon did not come back: {said.strip()}")
