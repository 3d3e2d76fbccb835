"""The backend that lockstep's groups use for GPUs, with a substitute for NCCL's class."""

import os
from datetime import timedelta
from typing import Any

import pytest
import torch.distributed as dist

from lockstep._torch import nccl


class Options:
    group_name: str
    global_ranks_in_group: list[int]
    _timeout: timedelta


class Backend:
    """Reads the variable when it is made, as NCCL's does."""

    Options = Options

    def __init__(self, store: Any, rank: int, size: int, options: Any) -> None:
        self.arguments = (store, rank, size)
        self.options = options
        self.handling = os.environ.get(nccl.HANDLING)


@pytest.fixture(autouse=True)
def substitute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "ProcessGroupNCCL", Backend, raising=False)
    monkeypatch.delenv(nccl.HANDLING, raising=False)


def create(recoverable: bool) -> Any:
    return nccl.create("store", 1, 2, "ranks 3, 5", [3, 5], timedelta(seconds=7), recoverable)


def test_each_group_has_options_of_its_own() -> None:
    one, other = create(recoverable=False), create(recoverable=False)
    assert one.options is not other.options
    assert one.arguments == ("store", 1, 2)
    assert one.options.group_name == "ranks 3, 5"
    assert one.options.global_ranks_in_group == [3, 5]
    assert one.options._timeout == timedelta(seconds=7)


def test_an_error_does_not_end_a_process_that_recovers() -> None:
    assert create(recoverable=True).handling == nccl.CLEAN_UP_ONLY
    assert nccl.HANDLING not in os.environ
    assert create(recoverable=False).handling is None


def test_the_users_own_choice_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(nccl.HANDLING, "0")
    assert create(recoverable=True).handling == "0"
    assert os.environ[nccl.HANDLING] == "0"


@pytest.mark.parametrize("has_nccl", [True, False])
def test_it_is_registered_where_torch_has_nccl(
    has_nccl: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dist, "is_nccl_available", lambda: has_nccl)
    registered: list[Any] = []

    class Module:
        @staticmethod
        def register_device_backend(*arguments: Any) -> None:
            registered.append(arguments)

    nccl.register(Module)
    assert registered == ([("cuda", "nccl", nccl.create)] if has_nccl else [])
