"""./dev demo: a language model learns from Shakespeare on two nodes with two ranks each.

Drives the product as a user would, by its command line alone: starts a daemon of its own that
presents this machine as two hosts, submits the training of examples/gpt, shows it live, then the
loss curve, some text that the model wrote, and where the checkpoints are.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
LOCKSTEP = BUILD / "bin" / "lockstep"
GPT = BUILD / "bin" / "gpt"
DATA = BUILD / "data" / "shakespeare"
HOME = BUILD / "demo"
NODES, DEVICES = 2, 2
KILL_AT = 0.4  # of the steps


class DemoFailed(Exception):
    """The demo cannot go on; the message is for the user."""


def lockstep(*words: str, capture: bool = True) -> str:
    """Run one lockstep command; returns what it printed."""
    done = subprocess.run(
        [str(LOCKSTEP), *words],
        stdout=subprocess.PIPE if capture else None,
        stderr=subprocess.PIPE if capture else None,
        text=True,
        check=False,
    )
    if done.returncode != 0 and capture:
        raise DemoFailed(f"`lockstep {' '.join(words)}` failed: {done.stderr.strip()}")
    return done.stdout or ""


def heading(words: str) -> None:
    bold, plain = ("\033[1m", "\033[0m") if sys.stdout.isatty() else ("", "")
    print(f"\n{bold}{words}{plain}", flush=True)


def show(run: str) -> dict[str, Any]:
    view: dict[str, Any] = json.loads(lockstep("show", run, "--json"))
    return view


def kill_a_rank_on_the_way(run: str, ended: threading.Event) -> None:
    """SIGKILL the last rank, on the second node, once KILL_AT of the steps are done."""
    rank = NODES * DEVICES - 1
    while not ended.wait(0.5):
        progress = show(run).get("progress") or {"step": 0, "steps": 0}
        if progress["steps"] and progress["step"] >= KILL_AT * progress["steps"]:
            print(
                f"\n--kill-rank: {lockstep('kill', run, '--rank', str(rank)).strip()}", flush=True
            )
            return


def submit(steps: int | None) -> str:
    words = ["run", "-n", str(NODES), "-g", str(DEVICES), "--project", "demo"]
    words += ["--name", "shakespeare", "--timeout", "15m", "--json", "--"]
    words += [str(GPT), "train", "--data", str(DATA), "--checkpoint-every", "50"]
    if steps is not None:
        words += ["--steps", str(steps)]
    return str(json.loads(lockstep(*words))["id"])


def watch(run: str, kill_rank: bool) -> dict[str, Any]:
    """Show the run live until it ends; kills a rank on the way when asked."""
    ended = threading.Event()
    killer = threading.Thread(target=kill_a_rank_on_the_way, args=(run, ended))
    if kill_rank:
        killer.start()
    try:
        lockstep("watch", run, capture=False)
    finally:
        ended.set()
        if kill_rank:
            killer.join()
    view = show(run)
    if view["state"] != "succeeded":
        lockstep("logs", run, "--tail", "30", capture=False)
        raise DemoFailed(f"{run} {view['state']}: {view['reason']}")
    return view


def points(run: str, name: str) -> list[dict[str, Any]]:
    series = json.loads(lockstep("metrics", run, "--name", name, "--json"))["series"]
    return series[0]["points"] if series else []


def seconds(first: str, last: str) -> float:
    """Between two times of the API, UTC text."""

    def parse(words: str) -> float:
        whole, _, fraction = words.rstrip("Z").partition(".")
        at = time.strptime(whole, "%Y-%m-%dT%H:%M:%S")
        return time.mktime(at) - time.timezone + float("0." + (fraction or "0"))

    return parse(last) - parse(first)


def result_of(view: dict[str, Any]) -> dict[str, Any]:
    run = view["id"]
    loss, held_out = points(run, "loss"), points(run, "held_out_loss")
    if not loss or not held_out:
        raise DemoFailed(f"{run} logged no loss; see `lockstep logs {run}`")
    speeds = sorted(float(point["value"]) for point in points(run, "tokens_per_second"))
    return {
        "loss_first": loss[0]["value"],
        "loss_last": loss[-1]["value"],
        "held_out_loss": held_out[-1]["value"],
        "seconds": round(seconds(view["started"], view["ended"]), 1),
        "tokens_per_second": round(speeds[len(speeds) // 2]),
        "steps": loss[-1]["step"],
        "attempts": len(view["attempts"]),
    }


def show_what_it_learned(view: dict[str, Any]) -> None:
    run = view["id"]
    folder = view["checkpoint_folder"]
    heading("Loss by step")
    lockstep("plot", run, "loss", "held_out_loss", capture=False)
    heading("What the model writes")
    sample = subprocess.run(
        [str(GPT), "sample", "--checkpoints", folder, "--bytes", "400"],
        stdout=subprocess.PIPE,
        text=True,
        errors="replace",
        check=True,
    )
    print(sample.stdout.strip())
    heading("Checkpoints")
    print(f"{folder}/ (the newest: {view['checkpoints'][-1]['path']})")


def has_page() -> bool:
    return (ROOT / "web" / "dist" / "index.html").is_file()


def show_page(run: str, keep: bool) -> None:
    """A link to the run's page. Without --keep the daemon goes on until the user has looked."""
    waits = not keep and sys.stdin.isatty() and sys.stdout.isatty()
    if not has_page() or not (keep or waits):
        return
    heading("The run in your browser")
    print(f"  {lockstep('open', run, '--print').strip()}")
    if waits:
        input("  The link logs you in once, within 5 minutes. Enter ends the demo. ")


def show_what_next(keep: bool) -> None:
    heading("What to type next")
    if keep:
        print(f"  export LOCKSTEP_HOME={HOME} PATH={BUILD / 'bin'}:$PATH")
        print("  lockstep open demo/1             the run in your browser")
        print("  lockstep show demo/1             the run, its attempts, its nodes")
        print("  lockstep plot demo/1 loss        the curve again")
        print("  lockstep serve --stop            end the daemon")
    else:
        print("  ./dev demo --kill-rank           the same, and a rank is killed on the way")
        print("  ./dev demo --keep                the same, and the daemon stays for a look around")
    print("  README.md                        a first run of your own")


def run_demo(arguments: argparse.Namespace) -> None:
    shutil.rmtree(HOME, ignore_errors=True)
    os.environ["LOCKSTEP_HOME"] = str(HOME)
    print(lockstep("serve", "--hosts", f"{NODES}x{DEVICES}", "--detach").strip(), flush=True)
    try:
        run = submit(arguments.steps)
        heading(f"{run} trains a GPT on {NODES} nodes x {DEVICES} ranks")
        view = watch(run, arguments.kill_rank)
        show_what_it_learned(view)
        result = result_of(view)
        heading("Result")
        print(
            f"  held-out loss {result['held_out_loss']:.3f} nats a byte "
            f"(training began at {result['loss_first']:.2f}), {result['steps']} steps in "
            f"{result['seconds']:.0f} s, {result['tokens_per_second']} tokens/s, "
            f"{result['attempts']} attempt{'s' if result['attempts'] > 1 else ''}"
        )
        if arguments.json:
            Path(arguments.json).write_text(json.dumps(result) + "\n")
        show_what_next(arguments.keep)
        show_page(run, arguments.keep)
    finally:
        if not arguments.keep:
            lockstep("serve", "--stop")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev demo", description=__doc__.partition("\n")[0])
    parser.add_argument("--kill-rank", action="store_true", help="SIGKILL one rank on the way")
    parser.add_argument("--keep", action="store_true", help="leave the daemon running")
    parser.add_argument("--json", metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--steps", type=int, help="training steps (default: the example's own)")
    arguments = parser.parse_args()
    try:
        run_demo(arguments)
    except DemoFailed as failure:
        print(f"demo: {failure}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ndemo: interrupted; everything it started was stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
