"""lockstep.log of tensors on the device."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import time

import torch

import lockstep
from gpu import devices
from gpu.items.waits import BUSY, busy
from gpu.report import Seen, Skipped

AFTER_ASSERT = """
import sys
import torch
import lockstep
try:
    {fail}
    lockstep.log({{"loss": bad}}, step=1)
    device.synchronize()
    lockstep.log({{"loss": 1.0}}, step=2)
except Exception as error:
    print(type(error).__name__, str(error).splitlines()[0])
sys.stdout.flush()
"""
FAIL = {
    "cuda": """
    device = torch.cuda
    bad = torch.zeros(2, device="cuda")[torch.tensor([7], device="cuda")]
""",
    "simulated": """
    import simulated_device
    device = torch.simulated
    bad = torch.zeros((), device="simulated:0")
    simulated_device.fail(0, "device-side assert triggered")
""",
}


def log_without_a_wait(kind: str) -> Seen:
    """A loss on a busy device: log() returns at once, and the number is printed later."""
    device = devices.use(kind)
    value = torch.full((), 2.5, device=device)
    # The first use of a kernel loads it, which may wait for the device.
    lockstep.log({"loss": value * 2}, step=0)
    devices.synchronize(device)
    lockstep.log({"plain": 1}, step=1)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        with busy(device) if kind != "cpu" else contextlib.nullcontext():
            begun = time.monotonic()
            lockstep.log({"loss": value * 2, "plain": 1}, step=3)
            took = time.monotonic() - begun
        devices.synchronize(device)
        lockstep.log({"loss": 1.0}, step=4)
    lines = printed.getvalue().splitlines()
    assert lines == ["step 3  loss 5  plain 1", "step 4  loss 1"], f"printed {lines}"
    assert took < BUSY / 2, f"log() returned after {took:.2f} s"
    return Seen(f"log() of a loss returned after {took * 1e3:.1f} ms", {"log_ms": took * 1e3})


def log_after_a_device_assert(kind: str) -> Seen:
    """In a process of its own, which CUDA makes useless: the error names the device's failure."""
    if kind == "cpu":
        raise Skipped("the CPU has no device asserts")
    program = AFTER_ASSERT.format(fail=FAIL[kind].strip())
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=90, check=False
    )
    said = ended.stdout + ended.stderr
    print(said, file=sys.stderr)
    assert "must be one number" not in said, "the failure is reported as a wrong metric"
    lines = [line for line in ended.stdout.splitlines() if "assert" in line]
    assert lines, f"no error names the device's assert: {(said.splitlines() or ['nothing'])[-1]}"
    return Seen(f"raised {lines[0][:80]}")
