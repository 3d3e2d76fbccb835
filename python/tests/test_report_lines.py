"""The lines of reports that wait to be sent: what is written at once, and what is refused."""

import json

import pytest

from lockstep._report_lines import Lines, metrics_line


def open_lines(limit: int = 10) -> Lines:
    lines = Lines(limit)
    lines.set_open(True)
    return lines


def test_plain_metrics_are_written_as_the_line_of_other_metrics() -> None:
    lines = open_lines()
    values = {"loss": 0.5, "tokens": 12, "ratio": float("nan")}
    assert lines.put(values, 3, set(values))
    written = lines.take()
    time_us = json.loads(written)["time_us"]
    assert time_us > 1_700_000_000_000_000
    assert written == metrics_line(3, time_us, values)
    assert json.loads(written)["values"] == {"loss": 0.5, "tokens": 12.0, "ratio": "NaN"}


class Name(str):
    """Its hash may be code of Python."""


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ({"loss": 1.0, "flag": True}, 0),
        ({"loss": 1.0, "word": "1"}, 0),
        ({"loss": 10**400}, 0),
        ({"loss": 1.0, "unknown": 1.0}, 0),
        ({"loss": 1.0, Name("flag"): 1.0}, 0),
        ({"loss": 1.0, 7: 1.0}, 0),
        ([("loss", 1.0)], 0),
        ({"loss": 1.0}, -1),
        ({"loss": 1.0}, 2**63),
        ({"loss": 1.0}, -(2**63) - 1),
        ({"loss": 1.0}, True),
        ({"loss": 1.0}, None),
    ],
)
def test_what_needs_python_is_refused_and_leaves_nothing(values: object, step: object) -> None:
    lines = open_lines()
    lines.add(b"before\n")
    assert not lines.put(values, step, {"loss", "flag", "word"})
    assert len(lines) == 1
    assert lines.take() == b"before\n"


def test_closed_or_full_lines_take_no_metrics_but_other_lines() -> None:
    lines = Lines(2)
    assert not lines.put({}, 0, set())
    lines.set_open(True)
    assert [lines.put({}, 0, set()) for _ in range(3)] == [True, True, False]
    lines.add(b"beyond\n")
    assert len(lines) == 3
    assert lines.take().count(b"\n") == 3
    assert len(lines) == 0
    assert lines.put({}, 0, set())


def test_wrong_arguments_are_errors() -> None:
    lines = open_lines()
    with pytest.raises(TypeError):
        lines.put({"loss": 1.0})  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        lines.add("a text")  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        metrics_line(1, 2, {"loss": "high"})  # type: ignore[dict-item]
    assert lines.take() == b""
