"""Ranks that are killed under `lockstep run`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from gpu.items.cluster import Daemon, daemon
from gpu.report import Seen
from gpu.training import EXACT

RANK = "gpu.items.recovering_rank"
STEPS = 80
KILL_AT = 20
HOSTS = {"cpu": ("--hosts", "1x2"), "simulated": ("--hosts", "1x2"), "cuda": ()}
PATIENCE = 120.0  # seconds until a run has come so far


def continue_with_the_remaining_rank(kind: str) -> Seen:
    """--on-failure shrink: one of two ranks is killed, and the other computes the same."""
    return compare_with_undisturbed(kind, "shrink")


def continue_with_a_replacement(kind: str) -> Seen:
    """--on-failure wait: the killed rank is started again, on the same device."""
    return compare_with_undisturbed(kind, "wait")


def die_while_groups_are_made(kind: str) -> Seen:
    """A rank dies before the first collective; the other waits for it in NCCL's initialization."""
    with daemon(*HOSTS[kind]) as one:
        begun = time.monotonic()
        run = submit(one, kind, "restart", "dies")
        view = ended(one, run)
        took = time.monotonic() - begun
    causes = [attempt["cause"] for attempt in view["attempts"]]
    assert causes == ["rank_lost", "ok"], f"the attempts ended with {causes}: {view['reason']}"
    return Seen(f"the second attempt succeeded, {took:.0f} s after the submission", {"s": took})


def compare_with_undisturbed(kind: str, on_failure: str) -> Seen:
    with daemon(*HOSTS[kind]) as one:
        expected = result_of(one, submit(one, kind, on_failure, "lives"))
        run = submit(one, kind, on_failure, "lives")
        wait_for_step(one, run, KILL_AT)
        begun = time.monotonic()
        one.command("kill", run, "--rank", "1")
        wait_for_step(one, run, KILL_AT + 20)
        took = time.monotonic() - begun
        result = result_of(one, run)
        attempts = len(one.json("show", run)["attempts"])
    difference = abs(result - expected) / max(1.0, abs(expected))
    assert attempts == 1, f"a new attempt began: {attempts} in all"
    assert difference < EXACT, f"the parameters' sum differs by {difference:.1e}"
    return Seen(
        f"{on_failure}: 20 further steps {took:.1f} s after SIGKILL; differs by {difference:.1e}",
        {"recovery_s": took},
    )


def submit(one: Daemon, kind: str, on_failure: str, fate: str) -> str:
    words = ("run", "--json", "-g", "2", "--timeout", "5m", "--on-failure", on_failure, "--")
    command = (sys.executable, "-m", RANK, kind, fate, str(STEPS))
    return str(json.loads(one.command(*words, *command))["id"])


def wait_for_step(one: Daemon, run: str, step: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        view = one.json("show", run)
        if (view["progress"] or {"step": 0})["step"] >= step:
            return
        assert view["ended"] is None, failure_of(one, view)
        time.sleep(0.2)
    raise AssertionError(f"{run} had not reached step {step} after {PATIENCE:.0f} s")


def ended(one: Daemon, run: str) -> dict[str, Any]:
    one.command("watch", run, seconds=PATIENCE)
    view: dict[str, Any] = one.json("show", run)
    assert view["state"] == "succeeded", failure_of(one, view)
    return view


def failure_of(one: Daemon, view: dict[str, Any]) -> str:
    return f"{view['state']}: {view['reason']}: {one.command('logs', view['id'])[-1500:]}"


def result_of(one: Daemon, run: str) -> float:
    """The sum of the parameters, which the last rank to end prints."""
    ended(one, run)
    lines = [line for line in one.command("logs", run).splitlines() if "the sum is" in line]
    assert lines, f"no rank of {run} printed its sum"
    return float(lines[-1].split()[-1])
