"""Loads torch's own tests of distributed operations for one backend.

Torch decides by a backend's name which of its tests run. So that each test does over Lockstep what
it does over Gloo, the text of torch's module is changed before it is compiled:

- Where it has Gloo as the name of a backend, it gets Lockstep: in the conditions by which a test is
  skipped, in the groups that a test makes and in the lists of what backends can do. So a test that
  compares names, such as those of a profiler's events, compares them with ours.
- One place keeps Gloo's name: what DDP's logging data say of Gloo's own settings (its threads, its
  network interface). The test of these data compares all others, the name of the backend too.
- Tests of all_to_all on the CPU, which torch runs over MPI alone, run over Lockstep too.

The tests themselves stay as they are. A test that is skipped counts as skipped, never as passed.
Ranks are forked from a process that has torch loaded, where torch's own program starts a new
Python for each. That shortens a test by the time of an import and changes nothing else.
"""

import importlib
import importlib.util
import os
import sys
import tempfile
import unittest
from types import ModuleType
from typing import Any

MODULE = "torch.testing._internal.distributed.distributed_test"
# {text of torch's module: that for Lockstep}
CHANGES = {
    '"gloo"': '"lockstep"',
    "dist.Backend.GLOO": "dist.Backend.LOCKSTEP",
    'BACKEND != "mpi", "Only MPI': 'BACKEND not in ("mpi", "lockstep"), "Only MPI',
}
# The condition for the fields of Gloo's own settings, which stays.
OF_GLOO = 'ddp_logging_data.get("backend_name") == "gloo"'
LIMIT = 100  # seconds until the ranks of a test are killed


def load(backend: str, ranks: int) -> type[unittest.TestCase]:
    """The class of tests, over "gloo" or "lockstep", with that number of ranks.

    Once in a process: torch reads both when its module is loaded.
    """
    os.environ |= {
        "BACKEND": backend,
        "WORLD_SIZE": str(ranks),
        "TEMP_DIR": tempfile.gettempdir(),  # each test makes its own
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "29500",  # only shown: the ranks meet at a file
        "INIT_METHOD": "file:///",  # of each test's own file
        "GLOO_SOCKET_IFNAME": "lo",
        "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(LIMIT),
    }
    if backend == "lockstep":
        _count_as_capable(backend)
    return _forking(_adapted() if backend == "lockstep" else importlib.import_module(MODULE))


def _count_as_capable(backend: str) -> None:
    """Torch's table of what backends can do."""
    common = importlib.import_module("torch.testing._internal.common_distributed")
    for able in common.DistTestCases.backend_feature.values():
        if "gloo" in able:
            able.add(backend)


def _adapted() -> ModuleType:
    spec = importlib.util.find_spec(MODULE)
    assert spec is not None and spec.loader is not None and spec.origin is not None
    text = spec.loader.get_source(MODULE)  # type: ignore[attr-defined]
    parts = text.split(OF_GLOO)
    for theirs, ours in CHANGES.items():
        parts = [part.replace(theirs, ours) for part in parts]
    module = importlib.util.module_from_spec(spec)
    sys.modules[MODULE] = module
    exec(compile(OF_GLOO.join(parts), spec.origin, "exec"), module.__dict__)
    return module


def _forking(module: Any) -> type[unittest.TestCase]:
    import torch.multiprocessing

    fork = torch.multiprocessing.get_context("fork")

    class TorchSuite(module.TestDistBackend, module.DistributedTest._DistTestBase):
        def setUp(self) -> None:
            super().setUp()
            module.INIT_METHOD = os.environ["INIT_METHOD"]
            self._start_processes(fork.Process)

    return TorchSuite
