"""Training on machines that joined: hosts lose their power, their network, their disk, their time.

LOCKSTEP_REAL_TIMES=1 takes the daemon's own bounds and real durations: `./dev check hosts`.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from tests.hosts.cluster import REAL_TIMES, Cluster
from tests.hosts.host import Host
from tests.hosts.testbed import Testbed
from tests.hosts.ticking import Ticking

from tests.conftest import BUILD, PATIENCE, wait_until

GPT = str(BUILD / "bin" / "gpt")
PYTHON = str(BUILD / "venv" / "bin" / "python")
STEPS = 300
# From the death of a host to the ranks of the next attempt, at the daemon's own bounds.
RECOVERY_LIMIT = 60.0
SMALL = ["--steps", str(STEPS), "--width", "32", "--layers", "1", "--context", "32"]
SMALL += ["--checkpoint-every", "20", "--evaluate-every", "100"]
# Each rank adds up what all ranks have, and keeps its step in a file of rank 0.
TORCH = """
import os, pathlib, time, torch, torch.distributed as dist
dist.init_process_group("lockstep")
kept = pathlib.Path(os.environ["KEPT"])
first = int(kept.read_text()) if kept.exists() else 0
print("from", first, flush=True)
for step in range(first + 1, 101):
    total = torch.full((1000,), float(step))
    dist.all_reduce(total)
    assert total[0] == step * dist.get_world_size()
    if dist.get_rank() == 0:
        kept.with_suffix(".new").write_text(str(step))
        kept.with_suffix(".new").rename(kept)
    time.sleep(0.1)
print("at", step, flush=True)
"""


@pytest.fixture
def text(testbed: Testbed) -> str:
    """A corpus that is learnt quickly; its folder as the hosts see it."""
    folder = testbed.shared / "text"
    folder.mkdir(exist_ok=True)
    words = "".join(
        f"the {n % 7} little ducks went out to swim, day {n % 30};\n" for n in range(3000)
    )
    (folder / "train.txt").write_text(words)
    (folder / "heldout.txt").write_text(words[:20000])
    return "/shared/text"


def hosts_of(cluster: Cluster, run: str, attempt: int = -1) -> list[str]:
    return [node["host"] for node in cluster.run(run)["attempts"][attempt]["nodes"]]


def await_next_attempt(cluster: Cluster, run: str) -> float:
    """Waits until all ranks of the second attempt run; returns the seconds."""
    start = time.monotonic()

    def runs() -> bool:
        attempts = cluster.run(run)["attempts"]
        ranks = [rank for node in attempts[-1]["nodes"] for rank in node["ranks"]]
        return len(attempts) == 2 and bool(ranks) and all(one["pid"] for one in ranks)

    wait_until(f"the second attempt of {run} runs", runs, 2 * RECOVERY_LIMIT)
    return time.monotonic() - start


def lose_power(host: Host) -> Callable[[], None]:
    host.power_off()
    return host.boot


def lose_link(host: Host) -> Callable[[], None]:
    host.link_down()
    return host.link_up


def lose_packets(host: Host) -> Callable[[], None]:
    host.drop()
    return host.undrop


# Both sides see that a link is down; silence is the harder case of the two.
LOSSES = [lose_power, lose_packets, *([lose_link] if REAL_TIMES else [])]


@pytest.mark.parametrize("lose", LOSSES)
def test_a_training_run_goes_on_without_a_host_that_is_lost_and_learns_the_same(
    cluster: Cluster, testbed: Testbed, hosts: list[Host], text: str, lose: Callable[..., object]
) -> None:
    folder = f"/shared/{lose.__name__}"
    words = [GPT, "train", "--data", text, "--checkpoints", folder, *SMALL]
    run = cluster.submit_program(words, nodes=2)
    wait_until("a checkpoint is there", lambda: cluster.run(run)["checkpoints"])
    names = hosts_of(cluster, run)
    lost = next(host for host in hosts if host.name == names[1])
    come_back = lose(lost)
    try:
        took = await_next_attempt(cluster, run)
        assert took < RECOVERY_LIMIT, f"{took:.0f} s"
        print(f"{lose.__name__}: the next attempt ran after {took:.1f} s")
        assert lost.name not in hosts_of(cluster, run)
        view = cluster.await_state(run, "succeeded")
        assert cluster.host(lost)["free"] == 0, "its devices are taken until it answers"
    finally:
        come_back()  # type: ignore[operator]
    assert [attempt["cause"] for attempt in view["attempts"]][1] == "ok"
    assert any("resuming from step" in line for line in cluster.lines(run))
    (series,) = cluster.json("metrics", run, "--name", "loss")["series"]
    assert [point["step"] for point in series["points"]] == list(range(1, STEPS + 1))
    assert series["points"][-1]["value"] < series["points"][0]["value"] / 2, "it did not learn"
    cluster.keep_served(lost)
    cluster.await_host(lost, lambda view: view["free"] == view["devices"])
    assert wait_until("its old ranks are gone", lambda: lost.command("pgrep gpt").returncode == 1)


def test_a_script_of_pytorch_goes_on_after_one_of_its_hosts_has_died(
    cluster: Cluster, testbed: Testbed, hosts: list[Host]
) -> None:
    (testbed.shared / "sum.py").write_text(TORCH)
    words = ["env", "KEPT=/shared/kept", PYTHON, "/shared/sum.py"]
    run = cluster.submit_program(words, nodes=2)
    kept = testbed.shared / "kept"
    wait_until("it has made steps", lambda: kept.exists() and int(kept.read_text() or 0) > 10)
    lost = next(host for host in hosts if host.name == hosts_of(cluster, run)[1])
    lost.power_off()
    await_next_attempt(cluster, run)
    cluster.await_state(run, "succeeded")
    assert "at 100" in cluster.lines(run)
    assert {"from 0"} < {line for line in cluster.lines(run) if line.startswith("from")}


def await_end_of_cut(seconds: float) -> None:
    until = time.monotonic() + seconds
    wait_until("the cut is over", lambda: time.monotonic() > until, seconds + PATIENCE)


def test_a_long_cut_between_the_daemon_and_all_hosts_ends_no_run(
    cluster: Cluster, testbed: Testbed, hosts: list[Host]
) -> None:
    gang = Ticking(cluster, testbed, "long-cut")
    for seconds in (5, 40, 600):
        for host in hosts:
            host.drop("login")
        await_end_of_cut(seconds if REAL_TIMES else seconds / 20)
        for host in hosts:
            host.undrop("login")
        gang.await_progress()
    gang.end()


def test_a_host_whose_disk_is_full_takes_no_run_until_it_has_room(
    cluster: Cluster, hosts: list[Host]
) -> None:
    host = hosts[3]
    with host.small_disk("/dev/shm", mib=8):
        host.run("head -c 8000000 /dev/zero >/dev/shm/full || true")
        cluster.restart_service(host)  # it reports at once, and once a minute
        cluster.await_host(host, lambda view: "/dev/shm" in view["unavailable"])
        runs = [cluster.submit("true", nodes=1) for _ in range(4)]
        for run in runs:
            cluster.await_state(run, "succeeded")
            assert host.name not in hosts_of(cluster, run)
    cluster.restart_service(host)
    cluster.await_host(host, lambda view: not view["unavailable"])


def test_a_host_with_a_wrong_clock_takes_no_run(cluster: Cluster, hosts: list[Host]) -> None:
    host = hosts[2]
    host.set_clock(-300)
    cluster.restart_service(host)
    try:
        cluster.await_host(host, lambda view: "clock" in view["unavailable"])
    finally:
        host.set_clock(0)
        cluster.restart_service(host)
    cluster.await_host(host, lambda view: not view["unavailable"])
