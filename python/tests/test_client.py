"""lockstep.runs and lockstep.run: which daemon, what it is asked, and what becomes of answers."""

from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fake_daemon
import pytest
from fake_daemon import TOKEN, FakeDaemon, run_view, series

import lockstep
from lockstep._client import connection
from lockstep._client.daemon import Daemon, chosen_daemon
from lockstep._client.parameters import of_command

NOON = "2026-11-22T12:00:00Z"


@pytest.fixture
def daemon() -> Iterator[FakeDaemon]:
    with FakeDaemon().serving() as made:
        yield made


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemon: FakeDaemon) -> Path:
    for name in tuple(os.environ):
        if name.startswith(("LOCKSTEP_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = daemon.write_home(tmp_path / "daemon")
    monkeypatch.setenv("LOCKSTEP_HOME", str(folder))
    return folder


def refusal(code: str = "") -> str:
    with pytest.raises(lockstep.DaemonError) as refused:
        lockstep.runs()
    assert not code or refused.value.code == code
    return str(refused.value)


# --- The daemon ---


def test_the_token_goes_only_to_a_daemon_that_has_proven_itself(home: Path) -> None:
    with FakeDaemon(secret="another").serving() as other:
        other.write_home(home)
        assert "is not the daemon that was started there" in refusal("unavailable")
        assert other.tokens == set()


def test_the_token_is_that_of_the_home(daemon: FakeDaemon) -> None:
    daemon.answer("runs", {"runs": []})
    assert lockstep.runs() == []
    assert daemon.tokens == {f"Bearer {TOKEN}"}


def test_a_home_without_a_daemon_says_how_to_start_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LOCKSTEP_HOME", str(home / "other"))
    message = refusal("unavailable")
    assert str(home / "other") in message
    assert "lockstep serve" in message
    assert "lockstep login" in message


def test_a_daemon_that_has_ended_is_named_with_its_address(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as holder:  # bound, and nothing listens
        holder.bind(("127.0.0.1", 0))
        port = holder.getsockname()[1]
        words = {"url": f"http://127.0.0.1:{port}", "pid": 4711}
        (home / "daemon.json").write_text(json.dumps(words))
        message = refusal("unavailable")
    assert f"process 4711) at http://127.0.0.1:{port} does not answer" in message


def test_a_stopped_daemon_is_told_from_one_that_fails(daemon: FakeDaemon, home: Path) -> None:
    daemon.write_home(home, pid=0)
    assert "was stopped; start it with `lockstep serve`" in refusal("unavailable")


def test_a_damaged_file_is_named(home: Path) -> None:
    (home / "daemon.json").write_text("{")
    assert str(home / "daemon.json") in refusal("corrupt")
    (home / "daemon.json").write_text("[]")
    assert "is damaged" in refusal("corrupt")
    (home / "daemon.json").write_text('{"url": 3}')
    assert "it has no url" in refusal("corrupt")


def test_a_rank_without_a_token_is_told_which_variables_to_set(home: Path) -> None:
    (home / "token").unlink()
    assert "LOCKSTEP_TOKEN_FILE" in refusal("unavailable")


def test_an_address_needs_a_token(monkeypatch: pytest.MonkeyPatch, daemon: FakeDaemon) -> None:
    monkeypatch.setenv("LOCKSTEP_URL", daemon.url)
    assert "LOCKSTEP_TOKEN_FILE is not" in refusal("invalid")


def test_an_address_with_a_token_file_is_called(
    monkeypatch: pytest.MonkeyPatch, daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "mine").write_text(TOKEN + "\r\n")
    monkeypatch.setenv("LOCKSTEP_URL", daemon.url)
    monkeypatch.setenv("LOCKSTEP_TOKEN_FILE", str(tmp_path / "mine"))
    monkeypatch.setenv("LOCKSTEP_HOME", "/nonexistent")
    daemon.answer("runs", {"runs": []})
    assert lockstep.runs() == []
    monkeypatch.setenv("LOCKSTEP_TOKEN_FILE", str(tmp_path / "missing"))
    assert "LOCKSTEP_TOKEN_FILE must name a file" in refusal()


def write_profile(tmp_path: Path, name: str, url: str) -> Path:
    folder = tmp_path / ".config/lockstep/profiles"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(json.dumps({"url": url, "token": TOKEN}))
    path.chmod(0o600)
    return path


def test_profiles_precede_the_home_and_log_ins_serve_an_address(
    monkeypatch: pytest.MonkeyPatch, daemon: FakeDaemon, tmp_path: Path
) -> None:
    path = write_profile(tmp_path, "lab", daemon.url + "#sha256:00")
    monkeypatch.setenv("LOCKSTEP_URL", daemon.url)
    assert chosen_daemon().url == daemon.url + "#sha256:00"
    monkeypatch.delenv("LOCKSTEP_URL")
    assert chosen_daemon().url == daemon.url  # LOCKSTEP_HOME
    monkeypatch.setenv("LOCKSTEP_PROFILE", "lab")
    assert chosen_daemon().url == daemon.url + "#sha256:00"
    path.chmod(0o644)
    assert "chmod 600" in refusal("denied")
    monkeypatch.setenv("LOCKSTEP_PROFILE", "none")
    assert "lockstep login URL none" in refusal("not_found")
    monkeypatch.setenv("LOCKSTEP_PROFILE", "../none")
    assert "no name of a profile" in refusal("invalid")
    monkeypatch.delenv("LOCKSTEP_PROFILE")
    monkeypatch.delenv("LOCKSTEP_HOME")
    assert "no daemon is running" in refusal("unavailable")
    write_profile(tmp_path, "default", daemon.url)
    daemon.answer("runs", {"runs": []})
    assert lockstep.runs() == []


def test_a_daemon_of_another_machine_is_called_where_it_listens_for_others(
    daemon: FakeDaemon, home: Path
) -> None:
    away = {"host": "head", "machine": "x", "boot": "y"}
    daemon.write_home(home, **away)
    assert "runs on head and cannot be called from here" in refusal("unavailable")
    daemon.write_home(home, **away, network_url="https://head:7070", token="theirs")
    assert chosen_daemon() == Daemon("https://head:7070", "theirs", "", "the daemon on head")


def test_the_folder_of_a_shared_home_has_the_token(
    daemon: FakeDaemon, home: Path, tmp_path: Path
) -> None:
    local = tmp_path / "local"
    local.mkdir()
    (home / "token").rename(local / "token")
    words = {"url": daemon.url, "pid": 1, "folder": str(local)}
    (home / "daemon.json").write_text(json.dumps(words))
    assert chosen_daemon().token == TOKEN


# --- A call ---


def call(url: str, timeout: float = 30) -> lockstep.DaemonError:
    with pytest.raises(lockstep.DaemonError) as refused:
        connection.get(Daemon(url, TOKEN), ["runs"], timeout=timeout)
    return refused.value


@pytest.mark.parametrize(
    "url",
    ["ftp://x", "http://", "http://x:99999", "http://x/y", "x", "http://x#y", "http://x#sha256:00"],
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    assert call(url).code == "invalid"


def test_a_daemon_that_does_not_answer_ends_the_call_in_time() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = call(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout=0.1)
    assert error.code == "timeout"
    assert "within 0.1 s" in str(error)


def test_an_answer_that_trickles_ends_the_call_in_time() -> None:
    with socket.socket() as slow:
        slow.bind(("127.0.0.1", 0))
        slow.listen()

        def trickle() -> None:
            with slow.accept()[0] as connection, contextlib.suppress(OSError):
                while True:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n" if is_new else b"a")
                    is_new.clear()
                    time.sleep(0.02)

        is_new = [True]
        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        assert call(f"http://127.0.0.1:{slow.getsockname()[1]}", timeout=0.3).code == "timeout"
        thread.join(timeout=30)
        assert not thread.is_alive()


@pytest.mark.parametrize("field", ["close", "HTTP/1.0"])
def test_the_token_is_not_sent_over_a_connection_without_a_proof(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    daemon.closes_after_health = field == "close"
    if field == "HTTP/1.0":
        monkeypatch.setattr(fake_daemon._Handler, "protocol_version", "HTTP/1.0")
    daemon.answer("runs", {"runs": []})
    assert "the token is not sent" in refusal("unavailable")
    assert daemon.tokens == set()


def test_a_program_that_is_no_daemon_is_recognized(daemon: FakeDaemon) -> None:
    daemon.answer("runs", b"<html>")
    assert "no daemon" in refusal("corrupt")
    daemon.answer("runs", b"", status=502)
    assert "502" in refusal("corrupt")


def test_the_refusal_of_the_daemon_is_the_message(daemon: FakeDaemon) -> None:
    daemon.answer("runs", {"error": {"code": "invalid", "message": "state: no such"}}, status=400)
    assert refusal("invalid") == "state: no such"


def test_an_answer_that_never_ends_is_cut(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_ANSWER_MAX", 200)
    daemon.answer("runs", {"runs": ["x" * 300]})
    assert refusal("corrupt").endswith("MiB")


# --- Runs ---


def test_runs_are_asked_for_by_project_state_and_tag(daemon: FakeDaemon) -> None:
    daemon.answer("runs", {"runs": [run_view(tags={"good": "yes"}, note="n", name="first")]})
    [run] = lockstep.runs(project="demo", state="succeeded", tag="good=yes", limit=5)
    assert daemon.queries("runs") == [
        {"project": "demo", "state": "succeeded", "tag": "good=yes", "limit": "5"}
    ]
    assert (run.id, run.state, run.tags, run.note) == ("demo/7", "succeeded", {"good": "yes"}, "n")
    assert run.results == {"loss": 0.5}
    assert run.spec["command"] == ["python", "train.py"]
    assert run.submitted is not None
    assert run.submitted.isoformat() == "2026-11-22T11:59:59.500000+00:00"
    assert run.ended is None
    assert repr(run) == "<Run demo/7 'first' succeeded>"


def test_runs_of_a_user_are_asked_for(daemon: FakeDaemon) -> None:
    daemon.answer("runs", {"runs": [run_view(origin={"user": "ann"})]})
    assert [run.user for run in lockstep.runs(user="ann", limit=1)] == ["ann"]
    assert daemon.queries("runs") == [{"user": "ann", "limit": "1"}]


@pytest.mark.parametrize("limit", [0, 1001])
def test_a_limit_that_the_daemon_refuses_is_refused(limit: int) -> None:
    with pytest.raises(ValueError, match="between 1 and 1000"):
        lockstep.runs(limit=limit)


def test_a_run_is_found_by_its_id_or_its_number(daemon: FakeDaemon) -> None:
    daemon.answer("runs/demo/7", run_view(latest={"a": "NaN", "b": "-Infinity"}))
    daemon.answer("runs/default/8", run_view("default/8"))
    assert lockstep.run(8).id == lockstep.run("8").id == "default/8"
    results = lockstep.run("demo/7").results
    assert math.isnan(results["a"])
    assert results["b"] == -math.inf
    with pytest.raises(ValueError, match="PROJECT/NUMBER"):
        lockstep.run("demo")
    with pytest.raises(lockstep.DaemonError) as missing:
        lockstep.run("demo/9")
    assert missing.value.code == "not_found"


def test_a_run_is_read_again(daemon: FakeDaemon) -> None:
    daemon.answer("runs/demo/7", run_view(state="running"))
    run = lockstep.run("demo/7")
    daemon.answer("runs/demo/7", run_view(state="failed"))
    assert run.state == "running"
    assert run.refresh().state == run.state == "failed"


def test_lines_are_read_page_by_page(daemon: FakeDaemon) -> None:
    daemon.answer("runs/demo/7", run_view())

    def logs(query: Any) -> tuple[int, Any]:
        first = int(query["after"])
        lines = [
            {"cursor": n, "epoch": 2, "rank": n % 2, "text": f"line {n}"}
            for n in range(first + 1, min(first + 3, 6))
        ]
        return 200, {"lines": lines, "next": first + len(lines)}

    daemon.routes["/api/v1/runs/demo/7/logs"] = logs
    lines = list(lockstep.run("demo/7").logs())
    assert [line.text for line in lines] == [f"line {n}" for n in range(1, 6)]
    assert lines[0] == lockstep.LogLine(rank=1, attempt=2, text="line 1")
    assert len(list(lockstep.run("demo/7").logs(rank=1, tail=2))) == 2
    assert daemon.queries("runs/demo/7/logs")[-1] == {
        "after": "0",
        "rank": "1",
        "tail": "2",
        "limit": "10000",
    }


# --- Metrics ---


def serve_points(daemon: FakeDaemon, found: list[dict[str, Any]], **view: Any) -> lockstep.Run:
    daemon.answer("runs/demo/7", run_view(**view))
    daemon.answer("runs/demo/7/metrics", {"series": found, "left_out": 0, "removed": 0})
    return lockstep.run("demo/7")


def test_a_metric_is_a_frame_with_exact_values(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    points = [[0, NOON, 0.1], [1, "2026-11-22T12:00:01.000002Z", "NaN"], [2, NOON, "Infinity"]]
    frame = serve_points(daemon, [series(0, points)]).metrics("loss")
    assert list(frame.columns) == ["step", "time", "value", "rank", "attempt"]
    assert [str(kind) for kind in frame.dtypes] == [
        "int64",
        "datetime64[us, UTC]",
        "float64",
        "int64",
        "Int64",
    ]
    assert frame["step"].tolist() == [0, 1, 2]
    assert frame["value"][0] == 0.1
    assert math.isnan(frame["value"][1])
    assert frame["value"][2] == math.inf
    assert frame["time"][1].microsecond == 2
    assert frame["attempt"].tolist() == [1, 1, 1]
    assert frame.attrs == {"run": "demo/7", "metric": "loss", "downsampled": []}


def test_points_have_the_attempt_that_was_the_newest_at_their_time(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    attempts = [
        {"epoch": 1, "created": NOON},
        {"epoch": 2, "created": "2026-11-22T12:10:00Z"},
    ]
    points = [
        [0, "2026-11-22T11:00:00Z", 0.0],  # of no attempt: a clock is wrong
        [1, NOON, 1.0],
        [2, "2026-11-22T12:09:59.999999Z", 2.0],
        [3, "2026-11-22T12:10:00Z", 3.0],
    ]
    run = serve_points(daemon, [series(0, points)], attempts=attempts)
    assert run.metrics("loss")["attempt"].isna().tolist() == [True, False, False, False]
    assert run.metrics("loss", attempt=1)["step"].tolist() == [1, 2]
    assert run.metrics("loss", attempt=2)["step"].tolist() == [3]
    assert run.metrics("loss", attempt=3).empty


def test_an_entry_of_a_list_learns_its_attempts_first(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    serve_points(daemon, [series(0, [[0, NOON, 1.0]])])
    daemon.answer("runs", {"runs": [run_view(attempts=[])]})
    [run] = lockstep.runs()
    assert run.metrics("loss")["attempt"].tolist() == [1]


def test_ranks_that_an_answer_cuts_are_asked_for_one_by_one(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    spec = {"command": ["x"], "nodes": 1, "devices": 3}
    run = serve_points(daemon, [], spec=spec)

    def metrics(query: Any) -> tuple[int, Any]:
        if "rank" in query:
            return 200, {"series": [series(int(query["rank"]), [[0, NOON, 1], [1, NOON, 2]])]}
        cut = series(1, [[0, NOON, 1.0]], total=2, downsampled=True)
        whole = series(0, [[5, NOON, 1.0]])
        return 200, {"series": [whole, cut], "left_out": 1}

    daemon.routes["/api/v1/runs/demo/7/metrics"] = metrics
    frame = run.metrics("loss")
    assert frame[["rank", "step"]].values.tolist() == [[0, 5], [1, 0], [1, 1], [2, 0], [2, 1]]
    asked = daemon.queries("runs/demo/7/metrics")
    assert [query.get("rank") for query in asked] == [None, "1", "2"]
    assert {query["points"] for query in asked} == {"100000"}


def test_a_series_too_long_for_an_answer_warns_and_is_marked(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    cut = series(0, [[0, NOON, 1.0]], total=200_000, downsampled=True)
    run = serve_points(daemon, [cut])
    with pytest.warns(UserWarning, match="200000 points on rank 0"):
        assert run.metrics("loss").attrs["downsampled"] == [0]
    assert len(daemon.queries("runs/demo/7/metrics")) == 1


def test_pixels_bound_the_points_of_each_rank_and_warn_of_nothing(
    daemon: FakeDaemon, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("pandas")
    cut = series(0, [[0, NOON, 1.0]], total=200_000, downsampled=True)
    run = serve_points(daemon, [cut], spec={"command": ["x"], "nodes": 2, "devices": 2})
    run.metrics("loss", pixels=100)
    run.metrics("loss", rank=0, pixels=100)
    asked = daemon.queries("runs/demo/7/metrics")
    assert [query["points"] for query in asked] == ["2000", "500"]
    assert not recwarn.list
    with pytest.raises(ValueError, match="pixels must be positive"):
        run.metrics("loss", pixels=0)


def test_an_attempt_has_the_number_of_its_epoch(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    attempts = [
        {"epoch": 4, "created": "2026-11-22T12:00:00Z"},
        {"epoch": 7, "created": "2026-11-22T13:00:00Z"},
    ]
    points = [[0, NOON, 1.0], [1, "2026-11-22T13:00:01Z", 1.0]]
    frame = serve_points(daemon, [series(0, points)], attempts=attempts).metrics("loss")
    assert frame["attempt"].tolist() == [4, 7]


def test_removed_points_warn(daemon: FakeDaemon) -> None:
    pytest.importorskip("pandas")
    run = serve_points(daemon, [])
    found = {"series": [series(0, [[0, NOON, 1.0]])], "left_out": 0, "removed": 12}
    daemon.answer("runs/demo/7/metrics", found)
    with pytest.warns(UserWarning, match="12 points of demo/7 were removed"):
        run.metrics("loss")


def test_a_metric_that_is_missing_names_those_that_are_there(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    run = serve_points(daemon, [], latest={"loss": 1.0, "lr": 1.0})
    for name, rank, words in (
        ("los", None, "it has: loss, lr"),
        ("loss", 3, "rank 3"),
        ("loss", None, "were removed"),
    ):
        with pytest.raises(LookupError, match=words):
            run.export(name, tmp_path / "x.csv", rank=rank)
    assert list(tmp_path.glob("*x.csv*")) == []


def test_without_pandas_the_error_has_the_command_that_installs_it(
    daemon: FakeDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    run = serve_points(daemon, [series(0, [[0, NOON, 1.0]])])
    with pytest.raises(ImportError, match=r"Run\.metrics needs pandas.*pip install pandas"):
        run.metrics("loss")


# --- Files ---

POINTS = [[0, NOON, 0.1], [1, NOON, "NaN"], [2, NOON, "-Infinity"]]


def test_csv_and_json_lines_need_no_package_and_lose_no_value(
    daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run = serve_points(daemon, [series(3, POINTS)])
    assert run.export("loss", tmp_path / "loss.csv") == 3
    with (tmp_path / "loss.csv").open(newline="") as file:
        rows = list(csv.reader(file))
    assert rows[:2] == [
        ["step", "time", "value", "rank", "attempt"],
        ["0", "2026-11-22T12:00:00.000000Z", "0.1", "3", "1"],
    ]
    assert [row[2] for row in rows[2:]] == ["nan", "-inf"]
    run.export("loss", tmp_path / "loss.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "loss.jsonl").read_text().splitlines()]
    assert [line["value"] for line in lines] == [0.1, "NaN", "-Infinity"]
    assert lines[0]["time"] == "2026-11-22T12:00:00.000000Z"


def test_a_parquet_file_is_read_by_pandas_as_it_was(daemon: FakeDaemon, tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    run = serve_points(daemon, [series(0, POINTS)])
    run.export("loss", tmp_path / "loss.parquet")
    read, frame = pandas.read_parquet(tmp_path / "loss.parquet"), run.metrics("loss")
    for name in ("step", "time", "rank", "attempt"):
        assert read[name].tolist() == frame[name].tolist()
    assert str(read["value"].tolist()) == str(frame["value"].tolist()) == "[0.1, nan, -inf]"


def test_an_export_without_pyarrow_or_with_another_end_asks_nothing(
    daemon: FakeDaemon, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    run = serve_points(daemon, [series(0, POINTS)])
    with pytest.raises(ImportError, match="pip install pyarrow"):
        run.export("loss", tmp_path / "loss.parquet")
    with pytest.raises(ValueError, match=r"\.csv, \.jsonl or \.parquet"):
        run.export("loss", tmp_path / "loss.xls")
    assert daemon.queries("runs/demo/7/metrics") == []


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    run = serve_points(daemon, [series(0, POINTS)])
    goal = tmp_path / "loss.csv"
    goal.mkdir()  # cannot be replaced by a file
    with pytest.raises(OSError, match=r"loss\.csv"):
        run.export("loss", goal)
    assert list(tmp_path.glob(".loss.csv*")) == []


# --- Parameters ---


def test_parameters_are_the_options_of_the_command() -> None:
    command = "python train.py --lr 1e-3 --steps=10 --fp16 --shift -2 -b 4 model.size=big +x=true"
    assert of_command(command.split()) == {
        "lr": 0.001,
        "steps": 10,
        "fp16": True,
        "shift": -2,
        "b": 4,
        "model.size": "big",
        "x": True,
    }


def test_the_configuration_of_a_folder_that_is_here_wins(
    daemon: FakeDaemon, tmp_path: Path
) -> None:
    (tmp_path / "wandb-files").mkdir()
    (tmp_path / "wandb-files/config.json").write_text('{"lr": 0.5, "layers": [1, 2]}')
    spec = {"command": ["t", "--lr", "1", "--seed", "7"], "nodes": 1, "devices": 1}
    daemon.answer("runs/demo/7", run_view(spec=spec, checkpoint_folder=str(tmp_path)))
    assert lockstep.run("demo/7").params == {"lr": 0.5, "seed": 7, "layers": [1, 2]}
    daemon.answer("runs/demo/7", run_view(spec=spec, checkpoint_folder="/nonexistent"))
    assert lockstep.run("demo/7").params == {"lr": 1, "seed": 7}
