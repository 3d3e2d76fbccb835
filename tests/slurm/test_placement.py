"""The hosts on which runs are placed: partitions, features, GPUs and new hosts of a real Slurm."""

from __future__ import annotations

from tests.slurm.conftest import SlurmCluster

from tests.conftest import wait_until


def hosts_of(cluster: SlurmCluster, run: str) -> set[str]:
    return {node["host"] for node in cluster.show(run)["attempts"][0]["nodes"]}


def test_a_constraint_chooses_hosts_with_its_features(served: SlurmCluster) -> None:
    run = served.submit("--slurm-constraint", "blue&fast", "-n", "2", "--", "true")
    assert served.ended(run)["state"] == "succeeded"
    assert hosts_of(served, run) <= {"n5", "n6", "n7", "n8"}


def test_a_feature_and_a_partition_that_no_host_has_are_refused(served: SlurmCluster) -> None:
    done = served.command("run", "--detach", "--slurm-constraint", "green", "--", "true")
    assert done.returncode == 2
    assert "no host has feature/green=yes" in done.stderr
    done = served.command("run", "--detach", "--slurm-partition", "missing", "--", "true")
    assert "no host has partition/missing=yes" in done.stderr


def test_each_kind_of_device_has_its_partition(waiting: SlurmCluster) -> None:
    waiting.start("--slurm-partition", "gpu=gpus,core=all")
    on_gpus = waiting.submit("--device-kind", "gpu", "-g", "2", "-n", "2", "--", "sleep", "600")
    on_cores = waiting.submit("--device-kind", "core", "-g", "2", "--", "sleep", "600")
    waiting.running_ranks(on_gpus)
    waiting.running_ranks(on_cores)
    assert hosts_of(waiting, on_gpus) == {"g1", "g2"}, "the types of their Gres differ"
    shown = waiting.slurm.ok("scontrol", "show", "job", *waiting.jobs_of(on_gpus))
    assert "Partition=gpus" in shown
    assert "TresPerNode=gres:gpu:2" in shown
    shown = waiting.slurm.ok("scontrol", "show", "job", *waiting.jobs_of(on_cores))
    assert "Partition=all" in shown


def test_a_type_of_gpus_chooses_hosts_and_is_part_of_the_gres(waiting: SlurmCluster) -> None:
    waiting.start("--slurm-partition", "gpus")
    for number in (1, 2):
        run = waiting.submit("--slurm-gpu-type", "a100", "--", "sleep", "600")
        waiting.running_ranks(run)
        assert hosts_of(waiting, run) == {"g1"}
        [job] = waiting.jobs_of(run)
        shown = waiting.slurm.ok("scontrol", "show", "job", job)
        assert "TresPerNode=gres:gpu:a100:1" in shown, number
    done = waiting.command("run", "--detach", "--slurm-gpu-type", "h100", "--", "true")
    assert "no host has gpu-type/h100=yes" in done.stderr


def test_the_gpus_of_each_type_of_a_host_are_counted(waiting: SlurmCluster) -> None:
    waiting.start("--slurm-partition", "types")
    first, second, waits = (
        waiting.submit("--slurm-gpu-type", "h100", "--", "sleep", "600") for _ in range(3)
    )
    for run in (first, second):
        waiting.running_ranks(run)
        assert hosts_of(waiting, run) == {"g3.gpu-h100"}
    other = waiting.submit("--slurm-gpu-type", "a100", "--", "true")
    assert waiting.ended(other)["state"] == "succeeded"
    assert waiting.show(waits)["state"] == "queued", "both GPUs of its type are taken"
    untyped = waiting.submit("-g", "2", "--", "true")
    assert waiting.ended(untyped)["state"] == "succeeded"
    assert hosts_of(waiting, untyped) == {"g3.gpu-a100"}
    waiting.ok("stop", first)
    waiting.running_ranks(waits)


def test_runs_share_the_gpus_of_a_host(waiting: SlurmCluster) -> None:
    waiting.start("--slurm-partition", "gpus")
    runs = [waiting.submit("--", "sleep", "600") for _ in range(4)]
    for run in runs:
        waiting.running_ranks(run)
    used = waiting.slurm.ok("sinfo", "-h", "-N", "-p", "gpus", "-O", "GresUsed:40").split()
    assert sorted(one.partition("(")[0] for one in used) == ["gpu:2", "gpu:a100:2"]


def test_new_hosts_of_a_partition_take_runs_without_a_restart(waiting: SlurmCluster) -> None:
    update = ("PartitionName=growing", "Nodes=n1")
    waiting.slurm.ok("scontrol", "create", *update)
    try:
        waiting.start("--slurm-partition", "growing")
        first = waiting.submit("-g", "4", "--", "sleep", "600")
        second = waiting.submit("-g", "4", "--", "sleep", "600")
        waiting.running_ranks(first)
        waiting.slurm.ok("scontrol", "update", "PartitionName=growing", "Nodes=n1,n6")
        waiting.running_ranks(second)
        assert hosts_of(waiting, second) == {"n6"}
        waiting.slurm.ok("scontrol", "update", "PartitionName=growing", "Nodes=n1")
        wait_until(
            "the host that left takes no run",
            lambda: "no longer has it" in waiting.ok("host", "ls"),
        )
        assert waiting.show(second)["state"] == "running"
    finally:
        waiting.slurm.ok("scancel", "--user=root", "--partition=growing")
        waiting.slurm.call("scontrol", "delete", "PartitionName=growing")
