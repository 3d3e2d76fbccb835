"""One round: three runs, the kills of its plan, the wait for the end, and then every check."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from _survive import remains
from _survive.blows import Blows
from _survive.checks import Evidence, check
from _survive.diaries import read
from _survive.plan import GANG, QUEUED, SINGLE, STEPS, Plan
from _survive.world import BUILD, PROGRAM, Violation, World, remove, wait_until, world_in

BLOWS_SECONDS = 120.0
END_SECONDS = 90.0
SHAPES = {GANG: ("-n", "2", "-g", "2"), SINGLE: (), QUEUED: ("-n", "2")}


@dataclass
class Result:
    """What a round that kept every promise measured, in seconds, and what its checks looked at."""

    evidence: Evidence
    seconds: float
    seconds_to_answer: list[float]
    seconds_to_state: list[float]


def play(plan: Plan) -> Result:
    """Raises Violation, which tells what happened and where the round's folder is kept."""
    folder = Path(tempfile.mkdtemp(prefix="survive-"))
    try:
        return play_in(folder, plan)
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


def play_in(folder: Path, plan: Plan) -> Result:
    began = time.monotonic()
    with world_in(folder) as world:
        before = remains.shared_memory()
        world.serve()
        with Blows(world, plan) as blows:
            submit_all(world, plan)
            blows.finish(BLOWS_SECONDS)
        await_ends(world)
        remains.await_clean(world, before)
        evidence = collect(world, plan, blows)
        world.ok("serve", "--stop")
        remains.check_stopped(world, evidence)
    check(evidence)
    return Result(
        evidence=evidence,
        seconds=time.monotonic() - began,
        seconds_to_answer=blows.seconds_to_answer,
        seconds_to_state=blows.seconds_to_state,
    )


def submit_all(world: World, plan: Plan) -> None:
    for name in (GANG, SINGLE, QUEUED):
        submit(world, name, plan.queued_exit if name == QUEUED else 0)


def submit(world: World, name: str, exit_code: int) -> None:
    """As a careful user: when the command failed, looks first whether the run is there."""
    program = [sys.executable, str(PROGRAM), str(world.diaries), str(STEPS[name]), str(exit_code)]
    words = ["run", "--detach", "--project", name, *SHAPES[name], "--", *program]
    for _ in range(3):
        done = world.command(*words)
        world.timeline.add(f"submitted {name}: {done.returncode} {done.stderr.strip()}")
        if done.returncode == 0 or is_there(world, name):
            return
    raise Violation(f"the run '{name}' could not be submitted: {done.stderr.strip()}")


def is_there(world: World, name: str) -> bool:
    def listed() -> list[str]:
        done = world.command("ps", "--json")
        return [done.stdout] if done.returncode == 0 else []

    [runs] = wait_until("the daemon lists its runs", 10.0, listed)
    return any(run["spec"]["project"] == name for run in json.loads(runs)["runs"])


def await_ends(world: World) -> None:
    states: dict[str, str] = {}

    def all_ended() -> bool:
        runs = world.runs()
        states.update({run["id"]: f"{run['state']}: {run['reason']}" for run in runs})
        return all(run["ended"] for run in runs)

    try:
        wait_until("", END_SECONDS, all_ended)
    except Violation:
        told = ", ".join(f"{run} is {state}" for run, state in states.items())
        raise Violation(f"after {END_SECONDS:g} s runs have not ended: {told}") from None
    for run, state in states.items():
        world.timeline.add(f"{run} {state}")


def collect(world: World, plan: Plan, blows: Blows) -> Evidence:
    views = [world.show(run["id"]) for run in world.runs()]
    return Evidence(
        plan=plan,
        hits=blows.hits,
        absences=blows.absences,
        views={view["id"]: view for view in views},
        diaries=read(world.diaries),
        points={view["id"]: points(world, view["id"]) for view in views},
        lines={view["id"]: lines(world, view["id"]) for view in views},
        agent_logs={str(path): path.read_text() for path in world.home.rglob("agent.log")},
    )


def points(world: World, run: str) -> dict[tuple[int, int], list[float]]:
    """The metric's values by rank and step: there should be one each."""
    found: dict[tuple[int, int], list[float]] = {}
    for series in json.loads(world.ok("metrics", run, "--json"))["series"]:
        for point in series["points"]:
            found.setdefault((series["rank"], point["step"]), []).append(point["value"])
    return found


def lines(world: World, run: str) -> list[str]:
    printed = world.ok("logs", run, "--json").splitlines()
    return [str(json.loads(line)["text"]) for line in printed]
