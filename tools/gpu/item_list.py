"""The list of the acceptance: what is tried, in this order, each in a process of its own.

An item is a function in a module of items/, of one argument, the kind of device: "cuda", "cpu", or
"simulated", which is the device of src/train/simulated_device. It returns what it saw, raises
Skipped if it cannot run there, and any other exception if it fails. devices.py, ranks.py and
training.py have what several items use.
"""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("cuda", "cpu", "simulated")


@dataclass(frozen=True)
class Item:
    name: str
    function: str  # "module:function", in items/
    gpus: int = 1  # that it needs
    seconds: int = 90  # after which it has failed
    needs_torch: bool = True


ITEMS = (
    # One GPU.
    Item("import", "first_steps:import_torch_and_lockstep", seconds=180),
    Item("one-rank", "first_steps:train_one_rank"),
    Item("one-rank-checkpoint", "first_steps:save_and_resume_one_rank"),
    Item("policies", "policies:train_by_every_policy", seconds=120),
    Item("own-stream", "policies:train_under_a_stream_of_its_own"),
    Item("host-reads", "waits:read_once_a_step"),
    Item("host-not-blocked", "waits:return_while_the_device_is_busy"),
    Item("memory", "memory:stay_within_the_estimate", seconds=120),
    Item("two-ranks", "policies:train_two_ranks_on_one_device", seconds=150),
    Item("four-ranks", "policies:train_four_ranks_on_one_device", seconds=180),
    Item("fused-optimizer", "optimizers:resume_with_fused_kernels"),
    Item("random-state", "optimizers:repeat_random_numbers"),
    Item("autocast", "precision:train_under_autocast"),
    Item("grad-scaler", "precision:scale_gradients"),
    Item("compile", "precision:compile_a_model", seconds=240),
    Item("graph-capture", "precision:refuse_capture"),
    Item("save-time", "copies:save_without_a_wait", seconds=180),
    Item("copy-bandwidth", "copies:compare_with_the_card", seconds=120),
    Item("meta-weights", "memory:read_weights_of_a_meta_model"),
    Item("log", "metrics:log_without_a_wait"),
    Item("log-after-assert", "metrics:log_after_a_device_assert", seconds=120),
    Item("discovery", "cluster:describe_this_machine", gpus=0, needs_torch=False),
    Item("telemetry", "cluster:collect_metrics_of_a_run", seconds=120),
    # Several GPUs.
    Item("nccl-policies", "several:train_by_every_policy", gpus=2, seconds=180),
    Item("nccl-checkpoint", "several:resume_with_other_policy", gpus=2, seconds=120),
    Item("current-device", "several:refuse_another_current_device", gpus=2),
    Item("nccl-parts", "several:train_in_parts", gpus=4, seconds=180),
    Item("overlap", "several:overlap_gradients", gpus=2, seconds=120),
    Item("kill-shrink", "failures:continue_with_the_remaining_rank", gpus=2, seconds=180),
    Item("kill-wait", "failures:continue_with_a_replacement", gpus=2, seconds=240),
    Item("kill-in-init", "failures:die_while_groups_are_made", gpus=2, seconds=240),
)
