"""The steps of a rank that record a trace when an order says so."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import lockstep
from lockstep import _profile


class Agent:
    """The files that an agent and its rank 3 exchange."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def order(self, request: str, steps: int, rank: int = 3) -> None:
        order = {"request_id": request, "steps": steps, "base_us": 0, "ranks": [{"rank": rank}]}
        (self.folder / "new").write_text(json.dumps(order))
        (self.folder / "new").rename(self.folder / "order.json")

    def state(self) -> tuple[str, str, int]:
        said = json.loads((self.folder / "rank-3.json").read_text())
        return said["request_id"], said["state"], said["steps"]

    def message(self) -> str:
        return str(json.loads((self.folder / "rank-3.json").read_text())["message"])

    def events(self) -> list[dict[str, Any]]:
        events: list[dict[str, Any]]
        events = json.loads(b"[%b]" % gzip.decompress((self.folder / "rank-3.gz").read_bytes()))
        return events


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setattr(_profile, "_steps", _profile._Steps(str(tmp_path)))
    monkeypatch.setattr(_profile, "_is_automatic", True)
    monkeypatch.setattr(_profile, "_counted", None)
    return Agent(tmp_path)


def step() -> None:
    torch.mm(torch.ones(2, 3), torch.ones(3, 2))
    lockstep.profile_step()


def test_as_many_steps_are_recorded_as_the_order_says(agent: Agent) -> None:
    step()
    assert agent.state() == ("", "waiting", 0)
    agent.order("a", steps=2, rank=0)
    step()
    assert agent.state() == ("", "waiting", 0)
    agent.order("b", steps=2)
    step()
    assert agent.state() == ("b", "recording", 0)
    step()
    assert agent.state() == ("b", "recording", 1)
    step()
    assert agent.state() == ("b", "done", 2)
    names = [event["name"] for event in agent.events()]
    assert names.count("aten::mm") == 2
    assert [name for name in names if name.startswith("Profiler")] == [
        "ProfilerStep#4",
        "ProfilerStep#5",
    ]
    assert all(event["pid"] == 3 for event in agent.events())
    for _ in range(3):
        step()
    assert agent.state() == ("b", "done", 2)
    assert {path.name for path in agent.folder.iterdir()} == {
        "order.json",
        "rank-3.json",
        "rank-3.gz",
    }


def test_the_profiler_of_the_program_goes_on_and_the_trace_fails(agent: Agent) -> None:
    with torch.profiler.profile() as profiler:
        agent.order("a", steps=1)
        step()
        step()
    assert sum(event.name == "aten::mm" for event in profiler.events()) == 2
    assert agent.state() == ("a", "failed", 0)
    assert agent.message() == "the program runs a profiler of its own: ask when it has ended"
    agent.order("b", steps=1)
    step()
    step()
    assert agent.state() == ("b", "done", 1)


def test_training_goes_on_when_the_folder_is_gone(agent: Agent) -> None:
    step()
    for path in agent.folder.iterdir():
        path.unlink()
    agent.folder.rmdir()
    step()


def test_the_first_optimizer_of_a_sharded_model_counts_until_the_program_does(
    agent: Agent,
) -> None:
    first, second = (torch.optim.SGD([torch.ones(1)]) for _ in range(2))
    agent.order("a", steps=2)
    for _ in range(2):
        _profile.end_step_of(first)
        _profile.end_step_of(second)
    assert agent.state() == ("a", "recording", 1)
    step()
    _profile.end_step_of(first)
    assert agent.state() == ("a", "done", 2)
