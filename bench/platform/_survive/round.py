"""One round: three runs, the kills of its plan, the wait for the end, and then every check."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _survive import leftovers
from _survive.checks import RoundRecord, check
from _survive.kill_runner import KillRunner
from _survive.local_cluster import (
    BUILD,
    PROGRAM,
    LocalCluster,
    Violation,
    local_cluster_in,
    remove,
    wait_until,
)
from _survive.plan import GANG, QUEUED, SINGLE, STEPS, Plan
from _survive.rank_logs import read

KILLS_SECONDS = 120.0
END_SECONDS = 90.0
SHAPES = {GANG: ("-n", "2", "-g", "2"), SINGLE: (), QUEUED: ("-n", "2")}


@dataclass
class Result:
    """The measurements of a round without a broken promise, in seconds, and its evidence."""

    evidence: RoundRecord
    seconds: float
    seconds_to_answer: list[float]
    seconds_to_state: list[float]


def play(plan: Plan) -> Result:
    """Raises Violation, with the violations and the path of the round's folder."""
    folder = Path(tempfile.mkdtemp(prefix="survive-"))
    try:
        return run_round_in(folder, plan)
    except Violation as violation:
        timeline = (folder / "timeline").read_text()
        raise Violation(
            f"round {plan.index} of seed {plan.seed}: {plan}\n{violation}\n{timeline}"
            f"its folder: {keep(folder, plan)}\n"
            f"again: ./dev bench survive --seed {plan.seed} --only {plan.index}"
        ) from None
    finally:
        remove(folder)


def keep(folder: Path, plan: Plan) -> Path:
    place = BUILD / "logs" / "survive" / f"seed-{plan.seed}-round-{plan.index}"
    remove(place)
    place.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(folder, place)
    return place


def run_round_in(folder: Path, plan: Plan) -> Result:
    began = time.monotonic()
    with local_cluster_in(folder) as world:
        before = leftovers.shared_memory()
        world.serve()
        with KillRunner(world, plan) as kills:
            submit_all(world, plan)
            kills.finish(KILLS_SECONDS)
        await_ends(world)
        leftovers.await_clean(world, before)
        evidence = collect(world, plan, kills)
        world.ok("serve", "--stop")
        leftovers.check_stopped(world, evidence)
    check(evidence)
    return Result(
        evidence=evidence,
        seconds=time.monotonic() - began,
        seconds_to_answer=kills.seconds_to_answer,
        seconds_to_state=kills.seconds_to_state,
    )


def submit_all(world: LocalCluster, plan: Plan) -> None:
    for name in (GANG, SINGLE, QUEUED):
        submit(world, name, plan.queued_exit if name == QUEUED else 0)


def submit(world: LocalCluster, name: str, exit_code: int) -> None:
    """Like a careful user: if the command failed, checks first whether the run exists."""
    program = [sys.executable, str(PROGRAM), str(world.rank_logs), str(STEPS[name]), str(exit_code)]
    words = ["run", "--detach", "--project", name, *SHAPES[name], "--", *program]
    for _ in range(3):
        done = world.command(*words)
        world.timeline.add(f"submitted {name}: {done.returncode} {done.stderr.strip()}")
        if done.returncode == 0 or is_there(world, name):
            return
    raise Violation(f"the run '{name}' could not be submitted: {done.stderr.strip()}")


def is_there(world: LocalCluster, name: str) -> bool:
    def listed() -> list[str]:
        done = world.command("ps", "--json")
        return [done.stdout] if done.returncode == 0 else []

    [runs] = wait_until("the daemon lists its runs", 10.0, listed)
    return any(run["spec"]["project"] == name for run in json.loads(runs)["runs"])


def await_ends(world: LocalCluster) -> None:
    states: dict[str, str] = {}

    def all_ended() -> bool:
        runs = world.runs()
        states.update({run["id"]: f"{run['state']}: {run['reason']}" for run in runs})
        return all(run["ended"] for run in runs)

    try:
        wait_until("", END_SECONDS, all_ended)
    except Violation:
        unfinished = ", ".join(f"{run} is {state}" for run, state in states.items())
        raise Violation(f"after {END_SECONDS:g} s runs have not ended: {unfinished}") from None
    for run, state in states.items():
        world.timeline.add(f"{run} {state}")


def collect(world: LocalCluster, plan: Plan, kills: KillRunner) -> RoundRecord:
    views = [world.show(run["id"]) for run in world.runs()]
    return RoundRecord(
        plan=plan,
        done_kills=kills.done_kills,
        downtimes=kills.downtimes,
        views={view["id"]: view for view in views},
        rank_logs=read(world.rank_logs),
        points={view["id"]: points(world, view["id"]) for view in views},
        lines={view["id"]: lines(world, view["id"]) for view in views},
        agent_logs={str(path): path.read_text() for path in world.home.rglob("agent.log")},
    )


def points(world: LocalCluster, run: str) -> dict[tuple[int, int], list[float]]:
    """The metric's values by rank and step: there should be one each."""
    found: dict[tuple[int, int], list[float]] = {}
    for series in json.loads(world.ok("metrics", run, "--each-rank", "--json"))["series"]:
        for point in series["points"]:
            found.setdefault((series["rank"], point["step"]), []).append(point["value"])
    return found


def lines(world: LocalCluster, run: str) -> list[str]:
    printed = world.ok("logs", run, "--json").splitlines()
    return [str(json.loads(line)["text"]) for line in printed]
