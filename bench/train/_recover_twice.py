"""Two or three ranks of a run are killed, 0 to 3 s apart; for bench/train/recover.py --twice.

One daemon serves all trials. A trial is a run of 2 x 2 ranks that train a small GPT, examples/gpt
or examples/gpt_python, with --on-failure shrink or wait. It passes if the run succeeds, with its
ranks that are left or by a new attempt from the newest checkpoint, and each step's loss is that of
an undisturbed training: a step lost or counted twice would shift the samples.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("LOCKSTEP_BUILD", ROOT / "build")).resolve()
LOCKSTEP = BUILD / "bin" / "lockstep"
PYTHON = BUILD / "venv" / "bin" / "python"

RANKS = 4
CHECKPOINT_EVERY = 25
SIZES = ["--width", "16", "--layers", "2", "--context", "16", "--batch", "12"]
PROGRAMS = {
    "C++": [str(BUILD / "bin" / "gpt"), "train", "--evaluate-every", "1000000"],
    "Python": [str(PYTHON), str(ROOT / "examples" / "gpt_python" / "train.py")],
}
APART_MAX = 3.0  # seconds between two kills
STARTED_MAX = 60.0  # seconds until the ranks run
ANSWER_MAX = 180.0  # seconds that a trial may take
QUIET = {"OMP_NUM_THREADS": "1"}
# Sums are taken in another order, so the curves part slowly: the median stays much closer.
LOSS_TOLERANCE = 5e-2
MEDIAN_TOLERANCE = 5e-3

View = dict[str, Any]
Curve = dict[int, float]


class Violation(Exception):
    pass


@dataclass(frozen=True)
class Trial:
    seed: int
    policy: str
    mode: str
    language: str
    pauses: tuple[float, ...]  # seconds before each kill
    victims: tuple[int, ...]  # where in the list of the ranks that are alive then

    @staticmethod
    def draw(seed: int, choices: dict[str, list[str]]) -> Trial:
        generator = random.Random(seed)
        policy, mode, language = (
            generator.choice(choices[of]) for of in ("policy", "mode", "language")
        )
        kills = generator.choice((2, 3))
        return Trial(
            seed=seed,
            policy=policy,
            mode=mode,
            language=language,
            pauses=tuple(generator.uniform(0, APART_MAX) for _ in range(kills)),
            victims=tuple(generator.randrange(RANKS) for _ in range(kills)),
        )

    def __str__(self) -> str:
        return f"{self.policy}, {self.mode}, {self.language}"


@dataclass
class Outcome:
    seconds: float
    attempts: int
    killed: list[int]  # ranks


@dataclass
class Cell:
    """All trials of one policy, mode and language."""

    outcomes: list[Outcome] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)  # seeds


def wait_until(
    what: str, condition: Callable[[], Any], patience: float, pause: float = 0.02
) -> Any:
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(pause)
    raise Violation(f"after {patience:.0f} s still not: {what}")


class Daemon:
    def __init__(self, home: Path) -> None:
        self._home = home
        path = f"{BUILD / 'venv' / 'bin'}:{os.environ['PATH']}"
        self._environment = os.environ | QUIET | {"LOCKSTEP_HOME": str(home), "PATH": path}
        self._environment.pop("LOCKSTEP_REPORT", None)
        self.keeps_folder = False  # for debugging
        self.checkpoints = home.parent / "checkpoints"
        self.text = home.parent / "text.txt"
        self.text.write_text(
            "".join(f"the {n % 7} little ducks went out, day {n % 30};\n" for n in range(900))
        )

    def ok(self, *words: str) -> str:
        done = subprocess.run(
            [str(LOCKSTEP), *words],
            env=self._environment,
            text=True,
            capture_output=True,
            timeout=ANSWER_MAX,
            check=False,
        )
        if done.returncode != 0:
            raise Violation(f"lockstep {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def submit(self, language: str, policy: str, steps: int, *words: str) -> str:
        program = [*PROGRAMS[language], "--data", str(self.text), "--policy", policy, *SIZES]
        program += ["--steps", str(steps), "--checkpoint-every", str(CHECKPOINT_EVERY)]
        shutil.rmtree(self.checkpoints, ignore_errors=True)
        options = ["--detach", "--env", f"PYTHONPATH={BUILD / 'python'}", *words]
        options += ["--checkpoint-folder", str(self.checkpoints)]
        return self.ok("run", *options, "--", *program).strip()

    def show(self, run: str) -> View:
        view: View = json.loads(self.ok("show", run, "--json"))
        return view

    def ended(self, run: str) -> View:
        over = ("succeeded", "failed", "timed_out", "cancelled")
        wait_until(
            f"{run} has ended: {self.show(run)['state']}",
            lambda: self.show(run)["state"] in over,
            ANSWER_MAX,
            pause=0.2,
        )
        return self.show(run)

    def stop(self, run: str) -> None:
        if self.show(run)["ended"] is None:
            self.ok("stop", run)
            self.ended(run)

    def curve(self, run: str) -> Curve:
        series = json.loads(self.ok("metrics", run, "--name", "loss", "--json"))["series"]
        return {point["step"]: point["value"] for each in series for point in each["points"]}

    def processes(self, run: str) -> list[tuple[int, int]]:
        """The ranks of the run that are alive, each with its process."""
        mark = f"LOCKSTEP_NODE_TOKEN={(self._home / 'installation').read_text().strip()}:".encode()
        found: dict[int, int] = {}
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            named = dict(word.split(b"=", 1) for word in words if b"=" in word)
            marked = any(word.startswith(mark) for word in words)
            if marked and b"RANK" in named and named.get(b"LOCKSTEP_RUN") == run.encode():
                rank, process = int(named[b"RANK"]), int(entry.name)
                found[rank] = min(process, found.get(rank, process))
        return sorted(found.items())

    def describe_recovery(self, run: str) -> str:
        """For a failure's message."""
        view = self.show(run)
        events = [event["what"] for event in view["events"]]
        lines = self.ok("logs", run).splitlines()
        return "\n  ".join([f"{view['state']}: {view['reason']}", *events, *lines[-25:]])


@contextmanager
def serve() -> Iterator[Daemon]:
    folder = Path(tempfile.mkdtemp(prefix="recover-"))
    daemon = Daemon(folder / "home")
    try:
        daemon.ok("serve", "--hosts", "2x2", "--detach")
        yield daemon
        daemon.ok("serve", "--stop")
        if daemon.keeps_folder:
            print(f"logs and records are in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder, ignore_errors=True)
    except BaseException:
        for view in json.loads(daemon.ok("ps", "--json"))["runs"]:
            daemon.stop(view["id"])
        daemon.ok("serve", "--stop")
        raise


def kill(daemon: Daemon, run: str, trial: Trial) -> list[int]:
    """Returns the ranks that were killed: fewer than asked for if the run ends before."""
    wait_until(f"all ranks of {run} run", lambda: len(daemon.processes(run)) == RANKS, STARTED_MAX)
    killed = []
    for pause, victim in zip(trial.pauses, trial.victims, strict=True):
        time.sleep(pause)
        alive = daemon.processes(run)
        if not alive:  # between two attempts, or it has ended
            continue
        rank, process = alive[victim % len(alive)]
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
        killed.append(rank)
    return killed


def expect_same_curve(found: Curve, right: Curve, deaths: int) -> None:
    """A step in which a rank died may be missing: the rank that reports it may be dead."""
    missing = sorted(right.keys() - found.keys())
    if len(missing) > deaths:
        raise Violation(f"steps {missing} are missing")
    if extra := sorted(found.keys() - right.keys()):
        raise Violation(f"steps {extra} are too many")
    off = {step: abs(loss - right[step]) for step, loss in found.items()}
    worst = max(off, key=lambda step: off[step])
    if off[worst] > LOSS_TOLERANCE or statistics.median(off.values()) > MEDIAN_TOLERANCE:
        raise Violation(
            f"losses are off by {statistics.median(off.values()):.2g} in the median and by "
            f"{off[worst]:.2g} in step {worst}"
        )


def play(daemon: Daemon, trial: Trial, right: Curve) -> Outcome:
    begun = time.monotonic()
    words = ["-n", "2", "-g", "2", "--on-failure", trial.mode]
    run = daemon.submit(trial.language, trial.policy, len(right), *words)
    try:
        killed = kill(daemon, run, trial)
        view = daemon.ended(run)
        if view["state"] != "succeeded":
            raise Violation(f"it {view['state']}")
        if not (daemon.checkpoints / f"step-{len(right):08}").is_dir():
            raise Violation("it succeeded before its last step")
        expect_same_curve(daemon.curve(run), right, len(killed))
    except Violation as violation:
        description = daemon.describe_recovery(run)
        daemon.stop(run)
        raise Violation(f"{violation}\n  {description}") from None
    return Outcome(time.monotonic() - begun, len(view["attempts"]), killed)


def reference_curve(daemon: Daemon, language: str, steps: int) -> Curve:
    run = daemon.submit(language, "ddp", steps)
    view = daemon.ended(run)
    curve = daemon.curve(run)
    if view["state"] != "succeeded" or len(curve) != steps:
        raise Violation(f"{language}, undisturbed: {daemon.describe_recovery(run)}")
    return curve


def row(case: str, cell: Cell) -> dict[str, object]:
    trials = len(cell.outcomes) + len(cell.failed)
    seconds = [outcome.seconds for outcome in cell.outcomes] or [0.0]
    return {
        "bench": "recover",
        "case": f"twice: {case}",
        "trials": trials,
        "unit": "passed",
        "ours": len(cell.outcomes),
        "kills": sum(len(outcome.killed) for outcome in cell.outcomes),
        "same_attempt": sum(outcome.attempts == 1 for outcome in cell.outcomes),
        "median_s": round(statistics.median(seconds), 1),
        "slowest_s": round(max(seconds), 1),
        "peer": trials,
        "peer_name": "trials",
        "ratio": len(cell.outcomes) / trials,
        "bar": 1.0,
    }


def measure(trials: list[Trial], steps: int) -> int:
    """Runs them and prints a row for each policy, mode and language; 1 if any failed."""
    cells: dict[str, Cell] = {}
    with serve() as daemon:
        right = {
            language: reference_curve(daemon, language, steps)
            for language in sorted({trial.language for trial in trials})
        }
        for trial in trials:
            cell = cells.setdefault(str(trial), Cell())
            try:
                outcome = play(daemon, trial, right[trial.language])
            except Violation as violation:
                cell.failed.append(trial.seed)
                daemon.keeps_folder = True
                print(f"VIOLATED: --seed {trial.seed} ({trial}): {violation}", file=sys.stderr)
                continue
            cell.outcomes.append(outcome)
            summary = f"ranks {outcome.killed} killed, {outcome.attempts} attempts"
            print(f"{trial.seed}: {trial}: {summary}, {outcome.seconds:.1f} s", file=sys.stderr)
    for case in sorted(cells):
        print(json.dumps(row(case, cells[case])))
    return int(any(cell.failed for cell in cells.values()))
