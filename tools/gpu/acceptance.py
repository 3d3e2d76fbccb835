"""./dev gpu: tries Lockstep on this machine's GPUs, item by item (item_list.py).

Each item runs in a process of its own with a time limit and prints one line. Without a GPU the
items run on a simulated device. The exit status is 0 if nothing failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from gpu import processes
from gpu.item_list import ITEMS, KINDS, Item
from gpu.layout import BUILD, LOGS, MANIFEST, environment
from gpu.report import (
    FAILED,
    LOG_LINES,
    PASSED,
    SKIPPED,
    Outcome,
    count,
    summary,
    write_report,
)

PROBE_SECONDS = 120
CPP_TESTS = ("train_simulated_device_test", "train_test", "train_checkpoint_test")
CPP_FILTER = "*Device*:*Policies*"
CPP_SECONDS = 240


def describe_machine() -> tuple[dict[str, Any], list[str]]:
    """Also the output of the process that found it, if that failed."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "machine.json"
        command = [sys.executable, "-m", "gpu.machine", str(result)]
        ended = processes.run(command, LOGS / "machine.log", PROBE_SECONDS, environment())
        unknown = {"cards": [], "gpus": 0, "has_torch": False, "torch": ""}
        machine = json.loads(result.read_text()) if result.exists() else unknown
    return machine, ended.log if ended.problem() else []


def choose_kind(machine: dict[str, Any]) -> str:
    return "cuda" if machine["gpus"] > 0 or machine["cards"] else "simulated"


class Acceptance:
    def __init__(self, kind: str, machine: dict[str, Any]) -> None:
        self.kind = kind
        self.machine = machine
        self.outcomes: list[Outcome] = []
        # The reason why items with torch cannot run; empty if they can.
        self.torch_problem = self._missing_torch()
        self.is_compiled = True

    def _missing_torch(self) -> str:
        if not self.machine["has_torch"]:
            return f"there is no torch in {sys.executable}"
        if not self.machine["torch"]:
            return "torch cannot be imported"
        if self.kind == "cuda" and self.machine["gpus"] == 0:
            return "torch finds no GPU"
        return ""

    def run_all(self, only: list[str]) -> None:
        if MANIFEST.exists():
            self.build()
        for item in ITEMS:
            if not only or item.name in only:
                self.run(item)
        if self.kind == "simulated" and not only:
            self.run_cpp_tests()

    def add(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        print(outcome.line(), flush=True)

    def build(self) -> None:
        """Only in a bundle: compiles what faces torch, for the torch found here."""
        if not self.machine["torch"]:
            return
        from gpu import build

        begun = time.monotonic()
        try:
            text = build.build(self.kind)
            self.add(Outcome("build", PASSED, text, seconds=time.monotonic() - begun))
        except build.BuildError as error:
            self.is_compiled = False
            self.torch_problem = "the sources that face torch are not compiled"
            seconds = time.monotonic() - begun
            self.add(Outcome("build", FAILED, str(error), seconds=seconds, log=error.log))

    def run(self, item: Item) -> None:
        reason = self.why_not(item)
        self.add(Outcome(item.name, SKIPPED, reason) if reason else self.outcome_of(item))

    def why_not(self, item: Item) -> str:
        gpus = self.machine["gpus"]
        # The first item says what is wrong with a torch that is there.
        explains = item is ITEMS[0] and self.is_compiled and self.machine["has_torch"]
        if item.needs_torch and self.torch_problem and not explains:
            return self.torch_problem
        if self.kind == "cuda" and not self.torch_problem and item.gpus > gpus:
            return f"needs {item.gpus} GPUs, this machine has {gpus}"
        return ""

    def outcome_of(self, item: Item) -> Outcome:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder) / "result.json"
            command = [sys.executable, "-m", "gpu.item", item.name, self.kind, str(result)]
            log = LOGS / f"{item.name}.log"
            ended = processes.run(command, log, item.seconds, environment())
            said = json.loads(result.read_text()) if result.exists() else None
        outcome = Outcome(**said) if said else Outcome(item.name, FAILED, last_words(ended))
        if said and ended.problem():
            outcome = Outcome(item.name, FAILED, f"{outcome.saw}; then it {ended.problem()}")
        outcome.seconds = round(ended.seconds, 1)
        if outcome.outcome == FAILED:
            outcome.log = ended.log[-LOG_LINES:]
        return outcome

    def run_cpp_tests(self) -> None:
        """In a checkout without a GPU: the engine's own tests of the simulated device."""
        for name in CPP_TESTS:
            program = BUILD / "tests" / name
            if not program.exists():
                continue
            log = LOGS / f"{name}.log"
            command = [str(program), f"--gtest_filter={CPP_FILTER}"]
            ended = processes.run(command, log, CPP_SECONDS, environment())
            passed = not ended.problem()
            tail = [] if passed else ended.log[-LOG_LINES:]
            outcome = PASSED if passed else FAILED
            saw = next((each for each in reversed(ended.log) if "tests ran" in each), "")
            saw = saw.strip("[= ]") if passed else last_words(ended)
            self.add(Outcome(name, outcome, saw, seconds=round(ended.seconds, 1), log=tail))


def last_words(ended: processes.Ended) -> str:
    words = next((line.strip() for line in reversed(ended.log) if line.strip()), "no output")
    return f"{ended.problem() or 'no result'}: {words[:160]}"


def parse(words: list[str]) -> argparse.Namespace:
    summary_line = (__doc__ or "").partition("\n")[0]
    program = "./gpu" if MANIFEST.exists() else "./dev gpu"
    parser = argparse.ArgumentParser(prog=program, description=summary_line)
    parser.add_argument("--device", choices=KINDS, help="instead of what this machine has")
    parser.add_argument("--json", metavar="FILE", type=Path, help="keep a report in FILE")
    parser.add_argument("--list", action="store_true", help="list the items")
    names = [item.name for item in ITEMS]
    parser.add_argument("only", nargs="*", metavar="ITEM", help="only these items")
    arguments = parser.parse_args(words)
    if unknown := set(arguments.only) - set(names):
        parser.error(f"there is no item {', '.join(sorted(unknown))}; --list shows them")
    return arguments


def describe(machine: dict[str, Any], kind: str) -> str:
    cards = [card["name"] for card in machine["cards"]] or machine.get("gpu_names", [])
    if kind == "cuda":
        versions = (
            f"driver {machine.get('driver') or 'unknown'}, torch {machine['torch'] or 'none'}"
        )
        return f"{len(cards)} GPUs ({', '.join(dict.fromkeys(cards))}), {versions}"
    if cards:
        return f"on {kind}, not on the GPUs of this machine"
    return f"no GPU was found: the items run on {kind}, which is no acceptance of GPUs"


def main() -> int:
    arguments = parse(sys.argv[1:])
    if arguments.list:
        print("\n".join(item.name for item in ITEMS))
        return 0
    begun = time.monotonic()
    LOGS.mkdir(parents=True, exist_ok=True)
    machine, problem = describe_machine()
    kind = arguments.device or choose_kind(machine)
    print(describe(machine, kind), flush=True)
    if problem:
        print("\n".join(["this machine could not be described:", *problem[-5:]]), flush=True)
    acceptance = Acceptance(kind, machine)
    try:
        acceptance.run_all(arguments.only)
    except KeyboardInterrupt:
        acceptance.add(Outcome("the rest", FAILED, "interrupted"))
    seconds = time.monotonic() - begun
    print(summary(acceptance.outcomes, seconds))
    print(f"the output of each item is in {LOGS}")
    if arguments.json:
        write_report(arguments.json, machine, kind, acceptance.outcomes, seconds)
    return 1 if count(acceptance.outcomes, FAILED) else 0


if __name__ == "__main__":
    sys.exit(main())
