"""Tries each package of build/package/ in a fresh Debian 12, as its user would.

A trial has a file system of its own (debootstrap), and its processes end with it. The wheel is
tried without torch and with it. Needs root, and Debian's and PyPI's packages.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from extra_train import torch_version
from make_packages import PACKAGES, ROOT, run

NUMPY = "numpy"
RANKS = """
import torch, torch.distributed as dist
dist.init_process_group("lockstep")
values = torch.full((4,), dist.get_rank() + 1.0)
dist.all_reduce(values)
assert values.tolist() == [3.0] * 4, values
print("rank", dist.get_rank(), "of", dist.get_world_size(), "sums to", values[0].item())
dist.destroy_process_group()
"""
# As the user of each package would type it.
COMMAND = """
lockstep version
lockstep serve --hosts 1x2 --detach | tee /tmp/started
grep 'its page is at' /tmp/started
lockstep run -g 2 --timeout 1m -- sh -c 'echo hello from rank $RANK'
lockstep ps
lockstep serve --stop
"""
WITHOUT_TORCH = """
python3 -m venv /venv
export PATH=/venv/bin:$PATH
pip install --quiet --no-index --find-links /packages lockstep
python - <<'END'
import lockstep
lockstep.log({"loss": 1.5}, step=1)
try:
    lockstep.shard
except ImportError as error:
    print("without torch:", error)
else:
    raise SystemExit("lockstep.shard worked without torch")
END
"""
WITH_TORCH = """
pip install --quiet --no-index --find-links /packages/torch torch numpy
torchrun --nproc-per-node 2 /packages/ranks.py
lockstep serve --hosts 1x2 --detach
lockstep run -g 2 --timeout 2m -- python /packages/ranks.py
lockstep serve --stop
"""
DEBIAN = """
apt-get update -qq
export DEBIAN_FRONTEND=noninteractive
apt-get install -qq -y --no-install-recommends /packages/*.deb >/dev/null
test "$(stat -c %U /var/lib/lockstep)" = lockstep
test -f /usr/lib/systemd/system/lockstep.service
"""
DEBIAN_REMOVED = """
apt-get purge -qq -y lockstep >/dev/null
test ! -e /var/lib/lockstep -a ! -e /usr/bin/lockstep
"""
TARBALL = """
mkdir /opt/lockstep
tar -xzf /packages/lockstep-*-Linux.tar.gz -C /opt/lockstep --strip-components 1
export PATH=/opt/lockstep/bin:$PATH
"""


class Machine:
    """A copy of a fresh Debian in a folder, with /packages."""

    def __init__(self, folder: Path, base: Path, packages: Path) -> None:
        self._root = folder
        run("cp", "--archive", "--reflink=auto", base, folder)
        run("cp", "--archive", packages, folder / "packages")

    def execute(self, script: str) -> None:
        (self._root / "script").write_text(f"set -eux\nexport HOME=/root\ncd /root\n{script}")
        inside = (
            f"mount -t proc proc {self._root}/proc && mount --rbind /dev {self._root}/dev && "
            f"mount --rbind /sys {self._root}/sys && ip link set lo up && "
            f"exec chroot {self._root} /bin/bash /script"
        )
        # The clean environment of a new login; its own processes, which end with it.
        subprocess.run(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "bash", "-c", inside],
            check=True,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
        )


def make_base(folder: Path) -> None:
    """With this machine's settings for apt, which may name a mirror."""
    packages = "python3-venv,ca-certificates,procps"
    mirror = os.environ.get("LOCKSTEP_DEBIAN_MIRROR", "")
    run("debootstrap", "--variant=minbase", f"--include={packages}", "bookworm", folder, mirror)
    for name in ("apt", "hosts", "resolv.conf"):
        here = Path("/etc") / name
        run(
            "cp", "--archive", "--dereference", "--no-target-directory", here, folder / "etc" / name
        )


def main() -> None:
    if os.geteuid() != 0:
        raise SystemExit("./dev package --try: a fresh Debian needs root; run it with sudo")
    with tempfile.TemporaryDirectory(prefix="lockstep-try-") as name:
        work = Path(name)
        packages = work / "packages"
        shutil.copytree(PACKAGES, packages)
        (packages / "ranks.py").write_text(RANKS)
        download = (sys.executable, "-m", "pip", "download", "--quiet", "--dest")
        run(*download, packages / "torch", f"torch=={torch_version()}", NUMPY)
        make_base(work / "base")
        trials = {
            "wheel": WITHOUT_TORCH + COMMAND + WITH_TORCH,
            "deb": DEBIAN + COMMAND + DEBIAN_REMOVED,
            "tarball": TARBALL + COMMAND,
        }
        for package, script in trials.items():
            machine = Machine(work / package, work / "base", packages)
            machine.execute(script)
            print(f"{package}: works", flush=True)
    print(f"every package of {PACKAGES.relative_to(ROOT)} works in a fresh Debian 12")


if __name__ == "__main__":
    main()
