"""Shared by the tests: the layouts of ranks, and the backend."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from fake_agent import FakeAgent
from ranks import Crew

SIZE = 4  # ranks of the group

os.environ["HF_HUB_OFFLINE"] = "1"  # the transformers library is to fetch nothing


@pytest.fixture(scope="session")
def backend() -> str:
    """LOCKSTEP_TEST_BACKEND=gloo checks the tests themselves against another backend."""
    return os.environ.get("LOCKSTEP_TEST_BACKEND", "lockstep")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[FakeAgent]:
    """Gets the reports of programs."""
    agent = FakeAgent(tmp_path / "report")
    yield agent
    agent.listener.close()


@pytest.fixture(scope="module", params=[1, 2], ids=["one_host", "two_hosts"])
def hosts(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def crew(hosts: int, backend: str) -> Iterator[Crew]:
    crew = Crew(SIZE, hosts, backend)
    yield crew
    crew.dismiss()
