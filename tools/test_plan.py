"""The list of checks and tests, and where each runs.

Tests are found: a gtest program by the build that makes it, a pytest file by its name. The builds
for checks are those of cmake/checks.cmake; docs/decisions/0017-checks.md says what each is for.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

from test_programs import PYTHON, ROOT, Check, GoogleTest, Program, PytestFile

# They measure time, or fill the machine with ranks: they run after the others and their
# compilations.
# First those that keep the machine busy, one by one; then those that mostly wait, two at a time.
BUSY = ("comm_*_test", "train*_test")
LAST = ("tests/cluster/*", "python/*")

# The files of such a folder run as one program, because they share what takes seconds to start.
# They mostly wait for others' daemons: they run one by one beside the other tests.
TOGETHER = ("tests/hosts", "tests/slurm")

# Programs in Python without a suffix.
SCRIPTS = tuple(
    f"tools/check_{name}" for name in ("layers", "language", "docs", "tidy", "generated")
)


def but_first(tests: str, parts: int) -> str:
    return ":".join(f"{tests}/{part}" for part in range(1, parts))


# Tests that the sanitized builds skip, in the syntax of gtest's filter, because they repeat the
# same code: more seeds, more sizes of the same groups.
LEFT_OUT = {
    "comm_algorithm_test": ":".join(
        f"*/EveryPlan.*/{group}"
        for group in (
            *("1_1_1_1", "1_1_1_1_1", "1_1_1_1_1_1", "1_1_1_1_1_1_1_1", "1_1_1_1_1_1_1_1_1"),
            *(
                "3_2",
                "3_3",
                "2_2_2_2",
                "4_4_lent",
                "3_3_3_lent",
                "3_2_lent",
                "4_2_3",
                "2_5_some_lent",
            ),
        )
    ),
    "comm_collective_test": ":".join(
        f"All/*/{group}"
        for group in (
            *("shm4", "shm6", "shm7", "shm8", "shm4_lent", "shm5_lent", "shm9_lent"),
            *("shm2_some_lent", "tcp2", "tcp3_lent", "tcp2_some_lent"),
            *("mixed4", "mixed5_lent", "mixed6_some_lent"),
        )
    )
    + ":Hosts/LargeGroup*/On12:Hosts/LargeGroup*/Twelve",
    # Thousands of stacks, and grids of sizes; the broadcasts take the same ways.
    "comm_simulated_test": "SimulatedAlgorithms.A*:SimulatedAlgorithms.R*",
    # The thread sanitizer starts a thread in each child; one with threads enters no container.
    "base_test": "All/SpawnInContainer.*",
    # Writes to pages while the kernel replaces their mapping in one step: mmap counts as a write.
    "comm_fabric_test": "ShareableMemory.WritesOfOtherThreadsDuringForksAreNotLost",
    # The sanitizers themselves need file descriptors to examine memory.
    "comm_rendezvous_test": "Rendezvous.WithoutAFreeFileDescriptor*",
    # The other two of the first seed take the same ways, and hosts and external runs beside them.
    "platform_core_step_test": but_first("Seeds/StepProperties.*", 10)
    + ":Seeds/StepProperties.HoldWhateverHappensAndEveryRunEnds/0",
    # Two minutes each there: runs of a simulated cluster under each mode, and hundreds of seeds.
    "platform_controller_test": "StoreMode.MayBeMovedAndPutBackUnderRunsThatGoOn",
    "platform_finding_test": "Detector.NamesNoRankWronglyInAThousandNoisySteps"
    ":Detector.NamesARankAtHalfSpeedWithinTwentySteps",
    # Ten million points; shorter curves take the same ways.
    "platform_insight_series_test": "StoreTest.ALongCurveKeepsItsSpikesAndItsEnds",
    # Each takes half a minute there; the largest of the departures stays. Seeds take another way
    # with clang, on which a checker of the queue finds the torn commit before that of the store.
    "sim_test": but_first("TwentyFive/Seeds.*", 40)
    + ":Manners/*:World.*:Checks.FindAnEngineThatListsTheDead"
    + ":Checks.FindAStoreThatKeepsHalfACommit"
    + "".join(f":Plays/Departure.*/{which}" for which in ("AMove", "APause", "AnEviction")),
}


# Programs that run optimised as well as under sanitizers, because faults of links between threads
# and processes may depend on optimisation. Those in LEFT_OUT do so too. A whole run has the other
# programs without libtorch only under sanitizers: the same tests a second time show nothing new.
TWICE = ("base_test", "net_test", "comm_*_test")

# Long programs run as several, each with a share of the tests.
PARTS = {"sim_test": 2}


def is_busy(program: Program) -> bool:
    return any(fnmatch(program.name, pattern) for pattern in BUSY)


def mostly_waits(program: Program) -> bool:
    return program.name in TOGETHER


def comes_last(program: Program) -> bool:
    return any(fnmatch(program.name, pattern) for pattern in LAST)


def quick_checks() -> list[Program]:
    ruff = [str(ROOT / "build/venv/bin/ruff"), "check", "--quiet", "--output-format=concise"]
    mypy = [str(PYTHON), "-m", "mypy", "--no-error-summary"]
    typed = [name for name in ("python", "tools") if any((ROOT / name).rglob("*.py"))]
    linted = [name for name in ("bench", "examples", "tests") if any((ROOT / name).rglob("*.py"))]
    return [
        Check("check layers", [str(ROOT / "tools/check_layers")]),
        Check("check language", [str(ROOT / "tools/check_language")]),
        Check("check docs", [str(ROOT / "tools/check_docs")]),
        Check("check format", [str(ROOT / "tools/check_format")]),
        Check("check generated", [str(PYTHON), str(ROOT / "tools/check_generated")]),
        Check("check python lint", [*ruff, *typed, *linted, *SCRIPTS]),
        Check("check python types", [*mypy, *typed]),
        Check("check script types", [*mypy, "--scripts-are-modules", *SCRIPTS]),
    ]


def tidy(everything: bool = False) -> Check:
    command = [str(PYTHON), str(ROOT / "tools/check_tidy")]
    return Check("check tidy", [*command, "--all"] if everything else command, 1800)


@dataclass
class CheckedBuild(Check):
    """Compiles a build for checks: one test, and those of the resulting programs."""

    build: str = ""
    tests: bool = True

    def programs(self) -> list[Program]:
        if not self.tests:
            return []
        folder = ROOT / "build" / self.build
        listed = ninja(folder, "query", "checked")
        names = [line.strip() for line in listed.splitlines()]
        return [
            GoogleTest(
                f"{self.build} {Path(name).name}",
                folder / name,
                LEFT_OUT.get(Path(name).name, ""),
            )
            for name in sorted(names)
            if name.startswith("tests/")
        ]


@dataclass
class FuzzBuild(CheckedBuild):
    """Compiles the fuzz targets; their corpora are kept in build/cache/fuzz for the next time."""

    seconds: int = 0  # of each

    def programs(self) -> list[Program]:
        found = sorted((ROOT / "build" / self.build / "fuzz").iterdir())
        return [self.target(program) for program in found]

    def target(self, program: Path) -> Check:
        corpus, findings = ROOT / "build/cache/fuzz" / program.name, ROOT / "build/logs/fuzz"
        for folder in (corpus, findings):
            folder.mkdir(parents=True, exist_ok=True)
        options = [f"-max_total_time={self.seconds}", f"-artifact_prefix={findings}/"]
        command = [str(program), *options, "-print_final_stats=1", "-timeout=10", str(corpus)]
        return Check(f"fuzz {program.name}", command, self.seconds + 120)


def fuzzing(seconds: int) -> FuzzBuild:
    command = [str(ROOT / "tools/check_build"), "fuzz"]
    return FuzzBuild("build fuzz", command, 1800, "fuzz", seconds=seconds)


def checked_build(build: str, tests: bool = True) -> CheckedBuild:
    command = [str(ROOT / "tools/check_build"), build]
    # From nothing it takes half an hour beside the tests, at its low priority on a slow machine.
    return CheckedBuild(f"build {build}", command, 3600, build, tests)


def with_torch(version: str) -> CheckedBuild:
    """Compiles what needs libtorch, with another torch than that of build/venv."""
    command = [str(ROOT / "tools/check_build"), "clang", version]
    return CheckedBuild(f"build clang with torch {version}", command, 3600, "clang", tests=False)


@dataclass
class UpgradeBuild(CheckedBuild):
    """Builds the last release, and tries it together with build/."""

    def programs(self) -> list[Program]:
        last = ROOT / "build/upgrade/last/bin/lockstep"
        os.environ["LOCKSTEP_LAST_VERSION"] = str(last)
        return [PytestFile("tests/upgrade/versions.py")]


def upgrade() -> UpgradeBuild:
    return UpgradeBuild("build of the last release", [str(ROOT / "tools/check_upgrade")], 3600)


def google_tests(whole_run: bool) -> list[Program]:
    """The programs of the product's build; left-over programs in build/tests are not run. A whole
    run omits those that only the build with sanitizers runs."""
    omitted = only_sanitized() if whole_run else set()
    names = {name for name in inputs("all") if name.startswith("tests/")} - omitted
    return [program for name in sorted(names) for program in parts_of(ROOT / "build" / name)]


def targets_of_whole_run() -> list[str]:
    """The targets of the product's build that a whole run needs."""
    return sorted(inputs("all") - only_sanitized())


def only_sanitized() -> set[str]:
    def runs_twice(program: str) -> bool:
        return program in LEFT_OUT or any(fnmatch(program, pattern) for pattern in TWICE)

    return {name for name in inputs("sanitized") if not runs_twice(Path(name).name)}


def inputs(target: str) -> set[str]:
    """The files and targets on which a target of the product's build depends."""
    lines = ninja(ROOT / "build", "query", target).partition("  outputs:")[0].splitlines()
    found = {line.strip("| ") for line in lines if line.startswith("    ")}
    folders = {name for name in found if name.endswith("/all")}
    return (found - folders).union(*(inputs(folder) for folder in folders))


def parts_of(path: Path) -> list[Program]:
    parts = PARTS.get(path.name, 1)
    if parts == 1:
        return [GoogleTest(path.name, path)]
    names = [f"{path.name} {part + 1} of {parts}" for part in range(parts)]
    return [GoogleTest(name, path, part=part, parts=parts) for part, name in enumerate(names)]


def ninja(folder: Path, tool: str, argument: str) -> str:
    command = ["ninja", "-C", str(folder), "-t", tool, argument]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def pytest_files() -> list[Program]:
    found = (path for folder in ("tests", "python") for path in (ROOT / folder).rglob("test_*.py"))
    names = (str(path.relative_to(ROOT)) for path in found)
    folder_of = {name: str(Path(name).parent) for name in names}
    together = {folder if folder in TOGETHER else name for name, folder in folder_of.items()}
    return [PytestFile(name) for name in sorted(together)]
