"""The contestants of one policy take turns, one step each; a row for each of them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from _contest.between_hosts import SETPRIV
from _contest.contestant import Contestant, Entry, Failed
from _contest.network import Host, Network
from _contest.peers import python
from _contest.rounds import turns

from .field import ALONE, ENGINE, PAD_SECONDS, SIZES, Job, alone

Row = dict[str, Any]
Say = Callable[[str], None]

START_SECONDS, ANSWER_SECONDS = 180.0, 400.0
# Sums of float32 in another order; a wrong gradient shows in the first digits.
SAME_LOSS = 1e-5


def entry(job: Job, network: Network, build: Path, packages: Path | None) -> Entry:
    """The start of the job's ranks. They end with this process, however it ends."""
    folders = [build / "python", *([packages] if packages and job.part.packages else [])]
    if job.part.program:
        command = [str(build / "bin" / job.part.program)]
    else:
        command = [*python("_train.ranks", *folders), job.contestant]
    words = [job.policy, job.backend, str(job.micro_steps), job.size, str(job.ranks)]
    places = [f"{host.address}={host.path}" for host in network.hosts]
    # In a process namespace psutil, which DeepSpeed uses on itself, would not find them; and every
    # rank would compile its gradient kernels for half a minute.
    dies_with_us = [*SETPRIV, "env", "DS_ACCELERATOR=cpu", "TORCH_COMPILE_DISABLE=1"]
    dies_with_us.append(f"{PAD_SECONDS}={job.pad}")
    return Entry(
        job.name.replace("/", "-"),
        [*dies_with_us, *command, *words, *places],
        start_seconds=START_SECONDS,
        answer_seconds=ANSWER_SECONDS,
    )


class Runner:
    """A contestant, with the measurements of each of its steps."""

    def __init__(self, job: Job, contestant: Contestant, host: Host) -> None:
        self.job = job
        self._contestant, self._host = contestant, host
        self._seconds: list[float] = []
        self._sent: list[int] = []
        self._parts: list[tuple[float, ...]] = []  # if reported: a forward, the update
        self.losses: list[float] = []
        self.memory = math.nan  # not looked at

    def step(self) -> float:
        """Seconds from the first rank's begin to the last one's end."""
        before = self._host.sent_bytes()
        answers = self._contestant.ask("step")
        try:
            said = [[float(word) for word in each.split()] for each in answers]
            begins, ends, losses, *parts = zip(*said, strict=True)
        except ValueError:
            raise Failed(f"{self.job.name} answers no times and losses: {answers}") from None
        self._seconds.append(max(ends) - min(begins))
        self._sent.append(self._host.sent_bytes() - before)
        self._parts.append(tuple(max(each) for each in parts))
        self.losses.append(statistics.fmean(losses))
        return self._seconds[-1]

    def look_at_memory(self) -> None:
        """In one more step: the bytes that a rank has at its most, beside what it had before."""
        answers = self._contestant.ask("memory")
        try:
            self.memory = statistics.fmean(map(float, answers))
        except ValueError:
            raise Failed(f"{self.job.name} answers no bytes: {answers}") from None

    def add(self, other: Runner) -> None:
        """Adds the measurements of the same job, started once more."""
        self._seconds += other._seconds[1:]
        self._sent += other._sent[1:]
        self._parts += other._parts[1:]

    # The first step sets things up and does not count.
    @property
    def seconds(self) -> float:
        return statistics.median(self._seconds[1:])

    @property
    def sent_bytes(self) -> float:
        return statistics.median(self._sent[1:])

    @property
    def parts(self) -> tuple[float, ...]:
        return tuple(statistics.median(each) for each in zip(*self._parts[1:], strict=True))


def race(
    jobs: Sequence[Job], rounds: int, network: Network, start: Callable[[Job], Contestant], say: Say
) -> list[Runner]:
    """All jobs have as many micro-steps; the one without communication runs too, as the last."""
    runners = []
    for job in (*jobs, alone(jobs[0])):
        say(f"{job.name}: starting")
        runners.append(Runner(job, start(job), network.hosts[0]))
    for runner in runners:
        say(f"{runner.job.name}: first step {runner.step():.2f} s")
    for number, runner in enumerate(turns(runners, rounds)):
        taken = runner.step()
        say(f"{runner.job.name}: round {number // len(runners) + 1}, {taken:.2f} s")
    check_losses(runners)
    if runners[0].job.pad:
        runners[0].look_at_memory()
    return runners


# The estimated peak memory of a rank: parameters, gradients and buffers in flight, in models, and
# the rest of its process.
MODELS_A_RANK, REST_OF_A_RANK = 2.5, 150 << 20


def groups(jobs: Sequence[Job], available: int) -> list[list[Job]]:
    """Groups of jobs that fit into so many bytes, together with the one without communication.

    Our engine, if it takes part, is in each group, so that all contestants take turns with it.
    """
    rank = int(MODELS_A_RANK * SIZES[jobs[0].size].bytes) + REST_OF_A_RANK
    anchors = [job for job in jobs if job.contestant == ENGINE]
    others = [job for job in jobs if job.contestant != ENGINE]
    group_size = max(1, available // (rank * jobs[0].ranks) - 1 - len(anchors))
    parts = [others[first : first + group_size] for first in range(0, len(others), group_size)]
    return [[*anchors, *part] for part in parts or [[]]]


def together(raced: Iterable[Sequence[Runner]]) -> list[Runner]:
    """One runner for each job, with all measurements of it."""
    by_job: dict[Job, Runner] = {}
    for runner in (each for runners in raced for each in runners):
        if runner.job in by_job:
            by_job[runner.job].add(runner)
        else:
            by_job[runner.job] = runner
    return list(by_job.values())


def check_losses(runners: Sequence[Runner]) -> None:
    """A contestant with another loss takes no part in the comparison."""
    first = runners[0]
    for runner in runners:
        # Without communication only the first step is that of one model.
        steps = 1 if runner.job.contestant == ALONE else None
        pairs = list(zip(first.losses, runner.losses, strict=True))[:steps]
        for step, (expected, loss) in enumerate(pairs):
            if not math.isclose(expected, loss, rel_tol=SAME_LOSS):
                raise Failed(
                    f"{runner.job.name} has a loss of {loss:.7f} in step {step}, "
                    f"{first.job.name} {expected:.7f}"
                )


def least_bytes(job: Job) -> float:
    """The bytes that a host must send in a step: its ranks first reduce or share locally."""
    size, hosts = SIZES[job.size].bytes, job.hosts
    once_around = (hosts - 1) / hosts * size  # a gather of the model, or a scatter of its gradient
    if job.policy == "zero3":
        return 3 * job.micro_steps * once_around
    return 2 * once_around


def rows(runners: Sequence[Runner], payload: float | None) -> Iterator[Row]:
    """Ours against the same over Gloo, or else the fastest there. payload: bits a second."""
    compute = _compute(next(each for each in runners if each.job.contestant == ALONE))
    over_gloo = {each.job.contestant: each for each in runners if each.job.backend == "gloo"}
    peers = [each for each in runners if each.job.contestant not in (ALONE, ENGINE)]
    for runner in runners:
        if runner.job.contestant == ALONE:
            continue
        made = _about(runner.job)
        if runner.job.backend == "gloo":
            made |= {"peer": runner.seconds, "peer_name": f"{runner.job.contestant} over gloo"}
        else:
            made["ours"] = runner.seconds
            made |= _against(runner, over_gloo)
        if runner.job.contestant == ENGINE:
            made |= _against_ours([each for each in peers if each.job.backend != "gloo"], runner)
        made |= {"step_s": runner.seconds, **compute}
        made["sent"] = runner.sent_bytes / least_bytes(runner.job)
        if payload is not None:
            wire = least_bytes(runner.job) * 8 / payload
            made |= _bound(runner.seconds, compute["compute_s"], wire)
        yield made


def _compute(alone: Runner) -> Row:
    forward, update = alone.parts
    return {"compute_s": alone.seconds, "forward_s": forward, "update_s": update}


def _about(job: Job) -> Row:
    return {
        "bench": "train",
        "case": "step",
        "policy": job.policy,
        "contestant": job.contestant,
        "backend": job.backend,
        "micro_steps": job.micro_steps,
        "hosts": job.hosts,
        "ranks": job.ranks,
        "model": job.size,
        "unit": "s",
    }


def _against(runner: Runner, over_gloo: dict[str, Runner]) -> Row:
    if not over_gloo:
        return {}
    fastest = min(over_gloo.values(), key=lambda each: each.seconds)
    peer = over_gloo.get(runner.job.contestant, fastest)
    return {
        "peer": peer.seconds,
        "peer_name": f"{peer.job.contestant} over gloo",
        "ratio": peer.seconds / runner.seconds,
        "bar": bar(runner.job),
    }


def bar(job: Job) -> float:
    """The bar against the fastest over Gloo; others over our backend: not slower."""
    if job.contestant != ENGINE:
        return 1.0
    if job.policy == "mics":
        return 2.2 if job.micro_steps == 1 else 3.3
    return {"ddp": 1.2, "zero3": 1.6}[job.policy]


def _against_ours(over_us: Sequence[Runner], engine: Runner) -> Row:
    """The fastest of the others over our backend, which the engine should not be slower than."""
    if not over_us:
        return {}
    fastest = min(over_us, key=lambda each: each.seconds)
    return {
        "over_us": fastest.seconds,
        "over_us_name": fastest.job.contestant,
        "over_us_ratio": fastest.seconds / engine.seconds,
    }


# Within 15 % of it.
BOUND_BAR = 1 / 1.15


def against_the_bound(made: Sequence[Row]) -> Iterator[Row]:
    """Our policies that communicate gradients once, against the least time of such a step.

    Nothing is sent before the last micro-step's forward; then the wire carries the gradients while
    backward computes others, and the update follows.
    """
    for row in made:
        once = row["policy"] in ("ddp", "mics") and row["case"] == "step"
        if not once or row["contestant"] != ENGINE or "wire_bound_s" not in row:
            continue
        passes = (row["compute_s"] - row["update_s"]) / row["micro_steps"]
        before = (row["micro_steps"] - 1) * passes + row["forward_s"]
        bound = before + row["wire_bound_s"] + row["update_s"]
        yield {
            **{key: row[key] for key in _ABOUT},
            "case": "against the bound",
            "ours": row["step_s"],
            "peer": bound,
            "peer_name": "wire + (s - 1) compute + forward + update",
            "ratio": bound / row["step_s"],
            "bar": BOUND_BAR,
        }


_ABOUT = ("bench", "policy", "contestant", "backend", "micro_steps", "hosts", "ranks", "model")
_ABOUT += ("unit",)


def between_policies(made: Sequence[Row]) -> Iterator[Row]:
    """Our MiCS against our own ZeRO-3, of the same hosts and micro-steps."""
    steps = {
        (each["hosts"], each["micro_steps"], each["policy"]): each
        for each in made
        if each["contestant"] == ENGINE
    }
    for (hosts, micro_steps, policy), mics in steps.items():
        zero3 = steps.get((hosts, micro_steps, "zero3"))
        if policy != "mics" or zero3 is None:
            continue
        yield {
            **{key: mics[key] for key in ("bench", "contestant", "backend", "ranks", "model")},
            "case": "mics over zero3",
            "policy": policy,
            "hosts": hosts,
            "micro_steps": micro_steps,
            "unit": "s",
            "ours": mics["step_s"],
            "peer": zero3["step_s"],
            "peer_name": "our zero3",
            "ratio": zero3["step_s"] / mics["step_s"],
            "bar": 1.2,
        }


def _bound(step: float, compute: float, wire: float) -> Row:
    limit = max(compute, wire)  # with computation and communication overlapped
    return {
        "limit": limit,
        "of_limit": limit / step,
        "wire_bound_s": wire,
        "to_wire": step / wire,
        "to_wire_and_compute": step / (wire + compute),
    }
