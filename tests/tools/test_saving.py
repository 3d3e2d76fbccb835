"""The benchmark of saving: all savers save, and its rows compare them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.tools.benchmark import rows_of


def test_all_who_take_part_save_and_are_compared(tmp_path: Path) -> None:
    made = rows_of("checkpoint", "--quick", "--folder", str(tmp_path))
    assert [(each["case"], each["bar"]) for each in made] == [
        ("persist", 0.9),
        ("stall", 5),
        ("stall", 1),
        ("10 steps", pytest.approx(0.966, abs=1e-3)),
    ]
    persist, *others = made
    assert persist["ratio"] == pytest.approx(persist["ours"] / persist["peer"])  # bytes a second
    for each in others:
        assert each["ours"] > 0
        assert each["ratio"] == pytest.approx(each["peer"] / each["ours"])  # seconds
    assert not list(tmp_path.iterdir()), "nothing is left behind"
