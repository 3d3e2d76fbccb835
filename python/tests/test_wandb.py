"""lockstep.wandb: every call, and the loggers of trainers as they are."""

from __future__ import annotations

import argparse
import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lockstep
from lockstep import _report, _run_files, wandb
from lockstep._media import in_bytes
from lockstep.wandb import _run

PYTHON = Path(lockstep.__file__).parents[1]
Logged = list[tuple[int, dict[str, Any]]]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a run of which this process is rank 0."""
    for name in tuple(os.environ):
        if name.startswith("WANDB_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("LOCKSTEP_CHECKPOINT_DIR", str(tmp_path))
    monkeypatch.setenv("LOCKSTEP_RUN", "demo/7")
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(_run_files, "_warned", set())
    monkeypatch.setattr(_run, "_next_steps", {})
    yield tmp_path / "wandb-files"
    wandb.finish()


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Logged:
    calls: Logged = []
    monkeypatch.setattr(
        _report, "log", lambda values, step=None: calls.append((step, dict(values)))
    )
    return calls


def read(path: Path) -> Any:
    return json.loads(path.read_text())


# --- log ---


def test_rows_are_counted_and_a_step_moves_the_count(logged: Logged) -> None:
    run = wandb.init()
    wandb.log({"loss": 3})
    run.log({"loss": 2.0})
    wandb.log({"loss": 1.0}, step=10)
    wandb.log({"lr": 0.5}, step=10)
    wandb.log({"loss": 0.5}, step=11, commit=True)
    wandb.log({"loss": 0.25})
    assert logged == [
        (0, {"loss": 3}),
        (1, {"loss": 2.0}),
        (10, {"loss": 1.0}),
        (10, {"lr": 0.5}),
        (11, {"loss": 0.5}),
        (12, {"loss": 0.25}),
    ]


def test_a_row_that_is_not_committed_waits_for_the_next_one_or_the_end(logged: Logged) -> None:
    wandb.init()
    wandb.log({"a": 1, "b": 1}, commit=False)
    assert logged == []
    wandb.log({"b": 2})
    wandb.log({"c": 3}, commit=False)
    wandb.finish()
    assert logged == [(0, {"a": 1, "b": 2}), (1, {"c": 3})]
    wandb.finish()
    assert len(logged) == 2


def test_numbers_of_all_kinds_are_metrics_and_nested_names_are_joined(logged: Logged) -> None:
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    wandb.init()
    values = {"a": True, "b": numpy.float32(0.5), "c": torch.tensor([2.0]), "d": float("nan")}
    wandb.log({"train": {"x": values}})
    [(step, row)] = logged
    assert step == 0
    assert sorted(row) == ["train.x.a", "train.x.b", "train.x.c", "train.x.d"]
    assert [float(row[f"train.x.{name}"]) for name in "abc"] == [1.0, 0.5, 2.0]


def test_the_step_metric_of_a_definition_is_the_step(logged: Logged) -> None:
    wandb.init()
    wandb.define_metric("epoch")
    wandb.define_metric("val/*", step_metric="epoch")
    wandb.define_metric("val/best", step_metric=wandb.define_metric("best_step"))
    wandb.log({"loss": 1.0, "val/acc": 0.5, "epoch": 3})
    wandb.log({"val/acc": 0.75})
    wandb.log({"val/best": 0.8, "best_step": 2})
    assert logged == [
        (0, {"loss": 1.0}),
        (3, {"val/acc": 0.5, "epoch": 3}),
        (3, {"val/acc": 0.75}),
        (2, {"val/best": 0.8, "best_step": 2}),
    ]


def test_a_step_metric_that_is_no_whole_number_warns_and_counts_rows(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb.init()
    wandb.define_metric("*", step_metric="epoch")
    for epoch in (0.5, 0.75):
        wandb.log({"loss": 1.0, "epoch": epoch})
    assert [step for step, _ in logged] == [0, 1]
    assert capsys.readouterr().err.count("a step is a whole number") == 1


def test_the_summary_is_the_last_value_or_what_a_definition_asks_for(
    logged: Logged, folder: Path
) -> None:
    run = wandb.init()
    run.define_metric("acc", summary="max,mean")
    run.define_metric("err", goal="minimize", summary="best")
    run.define_metric("noise", summary="none")
    for value in (0.25, 0.75, 0.5):
        run.log({"acc": value, "err": value, "noise": value, "loss": value})
    wandb.summary["note"] = "x"
    run.summary.update({"best_epoch": 2})
    run.finish()
    assert read(folder / "summary.json") == {
        "acc": {"max": 0.75, "mean": 0.5},
        "err": {"min": 0.25},
        "loss": 0.5,
        "note": "x",
        "best_epoch": 2,
        "_step": 2,
    }
    with pytest.raises(ValueError, match="median"):
        run.define_metric("x", summary="median")
    with pytest.raises(ValueError, match="goal"):
        run.define_metric("x", goal="up")


def test_what_is_no_number_is_kept_in_a_file_with_a_warning(
    logged: Logged, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wandb.init()
    wandb.log({"loss": 1.0, "text": "hello", "none": None})
    wandb.log({"text": "world", "list": [1, 2]})
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert {"_step": 0, "text": "hello"} in lines
    assert {"_step": 1, "list": [1, 2]} in lines
    assert len(lines) == 4
    assert logged == [(0, {"loss": 1.0})]
    assert capsys.readouterr().err.count("is no number") == 1


@pytest.mark.parametrize(
    ("data", "step", "error"), [([1], None, TypeError), ({"a": 1}, -1, ValueError)]
)
def test_rows_that_are_none_are_refused(data: Any, step: Any, error: type[Exception]) -> None:
    wandb.init()
    with pytest.raises(error, match=r"wandb\.log"):
        wandb.log(data, step=step)


def test_a_later_attempt_goes_on_counting_and_keeps_what_was_there(
    logged: Logged, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = wandb.init(config={"lr": 1})
    assert not run.resumed
    for _ in range(3):
        wandb.log({"loss": 1.0})
    wandb.finish()
    monkeypatch.setenv("LOCKSTEP_EPOCH", "2")
    run = wandb.init(config={"seed": 2})
    assert run.resumed
    assert run.step == run.starting_step == 3
    wandb.log({"loss": 0.5})
    wandb.log({"loss": 0.75}, step=1)  # a program that goes on from an older checkpoint
    assert [step for step, _ in logged] == [0, 1, 2, 3, 1]
    assert read(folder / "config.json") == {"lr": 1, "seed": 2}


def test_a_second_run_of_a_process_goes_on_counting_with_one_warning(
    logged: Logged, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        with wandb.init():
            wandb.log({"loss": 1.0})
            wandb.log({"loss": 1.0})
        assert wandb.run is None
    assert [step for step, _ in logged] == [0, 1, 2, 3, 4, 5]
    assert capsys.readouterr().err.count("goes on at 2") == 1
    run = wandb.init()
    run.finish()
    assert wandb.run is None
    with pytest.raises(wandb.Error, match="init"):
        wandb.log({"loss": 1.0})


@pytest.mark.parametrize(
    ("name", "value"),
    [("LOCKSTEP_EPOCH", "2"), ("LOCKSTEP_REPLACES", "1")],
    ids=["attempt", "rank"],
)
def test_after_a_kill_no_step_is_sent_twice(
    logged: Logged, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setattr(_run, "_WRITE_EVERY", 0.0)
    wandb.init()
    wandb.log({"a": 1.0, "b": 1.0})
    wandb.log({"a": 1.0, "b": 1.0})
    wandb.run = None  # SIGKILL: nothing more is written
    monkeypatch.setenv(name, value)
    wandb.init()
    wandb.log({"a": 1.0})
    assert [step for step, _ in logged] == [0, 1, 2]


def test_a_row_that_waits_is_sent_at_its_own_step(logged: Logged, folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    wandb.init()
    values = numpy.array([1.0, 2.0])
    wandb.log({"p": 1, "values": values}, commit=False)
    values[:] = 7.0  # the program uses its array again
    wandb.log({"p": 2}, step=10)
    wandb.log({"q": 3}, step=10)
    assert logged == [(0, {"p": 1}), (10, {"p": 2}), (10, {"q": 3})]
    [line] = (folder / "history.jsonl").read_text().splitlines()
    assert json.loads(line) == {"_step": 0, "values": [1.0, 2.0]}


def test_short_arrays_and_texts_stay_exact_and_frames_are_tables(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    pandas = pytest.importorskip("pandas")
    run = wandb.init()
    run.log({"short": numpy.arange(32)})
    run.log({"texts": numpy.array(["x"] * 40)})
    run.log({"frame": pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})})
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert lines[0]["short"] == list(range(32))
    assert lines[1]["texts"] == ["x"] * 40
    [table] = folder.glob("media/frame-*.table.json")
    assert read(table) == {"columns": ["a", "b"], "data": [[1, "x"], [2, "y"]]}


# --- init, config ---


def test_the_run_has_the_names_that_scripts_read(folder: Path) -> None:
    with wandb.init(project="p", tags=["a"], notes="n", group="g", job_type="train") as run:
        assert wandb.run is run
        assert wandb.init(config={"late": 1}) is run
        assert (run.id, run.project, run.name, run.group) == ("demo-7", "p", "demo/7", "g")
        assert run.tags == ("a",)
        assert run.dir == str(folder)
        assert wandb.config["late"] == 1
    wandb.finish()
    assert wandb.run is None
    assert read(folder / "run.json")["project"] == "p"


def test_config_is_written_at_once_and_changes_only_if_allowed(folder: Path) -> None:
    wandb.init(config=argparse.Namespace(lr=0.5, skip=1), config_exclude_keys=["skip"])
    wandb.config.layers = [1, 2]
    wandb.config["path"] = Path("/data")
    assert read(folder / "config.json") == {"lr": 0.5, "layers": [1, 2], "path": "/data"}
    assert (wandb.config.lr, wandb.config.get("none", 3), "lr" in wandb.config) == (0.5, 3, True)
    with pytest.raises(wandb.UsageError, match="allow_val_change=True"):
        wandb.config.update({"new": 1, "lr": 2})
    assert "new" not in wandb.config
    wandb.config.update({"lr": 2}, allow_val_change=True)
    wandb.config.setdefaults({"lr": 3, "seed": 4})
    assert read(folder / "config.json")["lr"] == 2
    assert read(folder / "config.json")["seed"] == 4
    with pytest.raises(AttributeError, match="absent"):
        _ = wandb.config.absent
    with pytest.raises(TypeError, match="read the file"):
        wandb.init(config="config.yaml")


def test_a_class_as_a_value_of_the_config_is_its_name(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    wandb.init(config={"dtype": numpy.float32, "lr": 1})
    wandb.config.seed = 2
    assert read(folder / "config.json")["dtype"] == "<class 'numpy.float32'>"
    assert read(folder / "config.json")["seed"] == 2
    assert list(folder.glob(".config.json.*")) == []


def test_other_users_may_read_the_files_as_the_umask_says(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        wandb.init(config={"lr": 1})
    finally:
        os.umask(before)
    assert (folder / "config.json").stat().st_mode & 0o777 == 0o644


def test_a_full_disk_warns_once_and_ends_no_training(
    logged: Logged,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def full(*_: Any, **named: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    wandb.init()
    monkeypatch.setattr(tempfile, "mkstemp", full)
    monkeypatch.setattr(Path, "open", full)
    monkeypatch.setattr(_run, "_WRITE_EVERY", 0.0)
    for _ in range(3):
        wandb.log({"loss": 1.0, "text": "x"})
    wandb.config.lr = 1
    wandb.finish()
    assert [step for step, _ in logged] == [0, 1, 2]
    assert capsys.readouterr().err.count("wandb.log: files: [Errno 28]") == 1


def test_parameters_of_an_earlier_run_in_the_folder_are_replaced(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.mkdir()
    (folder / "config.json").write_text('{"old": 1}')
    wandb.init(config={"lr": 1})
    wandb.config.seed = 2
    assert read(folder / "config.json") == {"lr": 1, "seed": 2}


def test_calls_before_init_say_so() -> None:
    for call in (
        lambda: wandb.log({}),
        lambda: wandb.config["lr"],
        lambda: wandb.summary.update({}),
        lambda: wandb.alert("x"),
    ):
        with pytest.raises(wandb.Error, match=r"wandb\.init\(\) first"):
            call()


def test_a_disabled_run_does_nothing(
    logged: Logged, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WANDB_MODE", "disabled")
    run = wandb.init(config={"lr": 1})
    run.log({"loss": 1})
    run.config["x"] = 1
    run.alert("x")
    assert run.save("*") == []
    wandb.finish()
    assert logged == []
    assert not folder.exists()
    with pytest.raises(ValueError, match="mode"):
        wandb.init(mode="some")


def test_ranks_have_folders_of_their_own(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    assert wandb.init().dir == str(folder / "rank-3")


def test_without_a_run_the_folder_is_that_of_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCKSTEP_CHECKPOINT_DIR")
    monkeypatch.delenv("LOCKSTEP_RUN")
    run = wandb.init(dir=tmp_path / "own", id="abc")
    assert run.dir == str(tmp_path / "own" / "wandb-files")
    assert run.id == "abc"


@pytest.mark.parametrize("name", ["Api", "sweep", "agent", "plot", "Molecule"])
def test_a_call_that_is_missing_is_named(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"lockstep\.wandb has no wandb\.{name}"):
        getattr(wandb, name)
    with pytest.raises(AttributeError, match=r"wandb\.Run has no 'upsert_artifact'"):
        _ = wandb.init().upsert_artifact


def test_calls_of_the_service_do_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert wandb.login(key="x") is True
    wandb.setup()
    wandb.require("service")
    wandb.Settings(start_method="fork")
    run = wandb.init()
    for _ in range(2):
        run.watch(object())
        wandb.termwarn("said once", repeat=False)
    run.unwatch()
    said = capsys.readouterr().err
    assert said.count("gradients and parameters are not recorded") == 1
    assert said.count("said once") == 1


def test_arguments_without_an_effect_are_named_once(capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        wandb.init(sync_tensorboard=True, settings=wandb.Settings(mode="disabled"))
        wandb.finish()
    said = capsys.readouterr().err
    assert said.count("wandb.init(sync_tensorboard=...): it has no effect") == 1
    assert said.count("mode: settings have no effect") == 1


def test_an_alert_is_an_event_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []
    monkeypatch.setattr(_report, "event", events.append)
    wandb.init()
    wandb.alert("Loss", "is\nNaN", level=wandb.AlertLevel.WARN)
    assert events == ["Loss: is NaN"]


# --- Media ---


def test_an_image_of_an_array_is_a_png_with_its_pixels(
    logged: Logged, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    wandb.init()
    pixels = numpy.array([[0.0, 1.0, 0.5]])
    wandb.log({"a/b": wandb.Image(pixels, caption="grey"), "loss": 1.0})
    wandb.log({"many": [wandb.Image(torch.zeros(3, 2, 4)), wandb.Image(pixels)]})
    [grey] = folder.glob("media/a_b-0-*.png")
    png = grey.read_bytes()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert png[16:25] == bytes([0, 0, 0, 3, 0, 0, 0, 1, 8])
    size = int.from_bytes(png[33:37])
    assert zlib.decompress(png[41 : 41 + size]) == bytes([0, 0, 255, 128])
    assert read(grey.with_name(grey.name + ".json")) == {"caption": "grey"}
    assert len(list(folder.glob("media/many-1-*.png"))) == 2
    lines = [json.loads(line) for line in (folder / "history.jsonl").read_text().splitlines()]
    assert lines[0] == {"_step": 0, "a/b": {"file": f"media/{grey.name}", "kind": "Image"}}
    assert len(lines[1]["many"]) == 2
    assert capsys.readouterr().err.count("wandb.Image") == 1
    assert logged == [(0, {"loss": 1.0})]


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([0.0, 0.5, 1.0], "float32", [0, 128, 255]),
        ([-1.0, 0.0, 1.0], "float32", [0, 128, 255]),
        ([0.0, 100.0, 255.0], "float32", [0, 100, 255]),
        ([0, 1, 0], "int64", [0, 255, 0]),
        ([False, True, True], "bool", [0, 255, 255]),
        ([0, 7, 300], "int64", [0, 7, 255]),
    ],
)
def test_the_range_of_an_image_is_that_of_its_values(
    values: list[Any], kind: str, expected: list[int]
) -> None:
    numpy = pytest.importorskip("numpy")
    assert in_bytes(numpy.array(values, dtype=kind)).tolist() == expected


def test_a_tensor_of_several_images_is_one_picture() -> None:
    torch = pytest.importorskip("torch")
    png = wandb.Image(torch.zeros(9, 3, 2, 4))._png
    assert [int.from_bytes(png[at : at + 4]) for at in (16, 20)] == [32, 4]


def test_an_image_may_be_a_file_or_an_object_that_saves_itself(
    folder: Path, tmp_path: Path
) -> None:
    class Figure:
        def savefig(self, path: Path) -> None:
            path.write_text("figure")

    (tmp_path / "cat.jpg").write_text("cat")
    wandb.init()
    wandb.log({"cat": wandb.Image(tmp_path / "cat.jpg"), "figure": Figure()})
    [cat] = folder.glob("media/cat-*.jpg")
    assert cat.read_text() == "cat"
    [figure] = folder.glob("media/figure-*.png")
    assert figure.read_text() == "figure"
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        wandb.Image("none.png")


def test_an_array_with_another_shape_is_no_image() -> None:
    numpy = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="shape"):
        wandb.Image(numpy.zeros((2, 2, 2)))


def test_tables_are_json_with_their_images(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cat.jpg").write_text("cat")
    table = wandb.Table(columns=["id", "image"])
    table.add_data(1, wandb.Image(tmp_path / "cat.jpg"))
    table.add_column("ok", [True])
    wandb.init().log({"samples": table})
    [path] = folder.glob("media/samples-0-*.table.json")
    shown = read(path)
    assert shown["columns"] == ["id", "image", "ok"]
    [[number, image, ok]] = shown["data"]
    assert (number, ok) == (1, True)
    assert (path.parent / image["file"]).read_text() == "cat"
    assert table.get_column("id") == [1]
    with pytest.raises(ValueError, match="a row has 1 values"):
        table.add_data(1)
    with pytest.raises(ValueError, match="has 2 values"):
        table.add_column("x", [1, 2])


def test_a_table_is_made_of_a_frame() -> None:
    pandas = pytest.importorskip("pandas")
    table = wandb.Table(dataframe=pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]}))
    assert table.columns == ["a", "b"]
    assert table.data == [[1, "x"], [2, "y"]]
    assert table.get_dataframe()["a"].tolist() == [1, 2]


def test_histograms_and_arrays_are_counts_and_edges(folder: Path) -> None:
    numpy = pytest.importorskip("numpy")
    wandb.init()
    wandb.log({"h": wandb.Histogram([0, 0, 1], num_bins=2), "array": numpy.arange(33.0)})
    [path] = folder.glob("media/h-*.histogram.json")
    assert read(path) == {"values": [2.0, 1.0], "bins": [0.0, 0.5, 1.0]}
    assert len(list(folder.glob("media/array-*.histogram.json"))) == 1
    assert wandb.Histogram(np_histogram=([1], [0, 1])).histogram == [1.0]
    both: dict[str, Any] = {"sequence": [1], "np_histogram": ([1], [0, 1])}
    for arguments in ({}, both):
        with pytest.raises(TypeError, match="either"):
            wandb.Histogram(**arguments)


def test_sound_and_films_are_files_and_data_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a.wav").write_text("sound")
    wandb.init().log({"a": wandb.Audio(str(tmp_path / "a.wav")), "h": wandb.Html("<b>")})
    assert [path.read_text() for path in folder.glob("media/*.wav")] == ["sound"]
    assert [path.read_text() for path in folder.glob("media/*.html")] == ["<b>"]
    for kind in (wandb.Audio, wandb.Video):
        with pytest.raises(TypeError, match=rf"wandb\.{kind.__name__}: .* path of a file"):
            kind([0.0, 1.0])


# --- Files ---


def test_files_are_copied_and_those_that_change_again_at_the_end(
    folder: Path, tmp_path: Path
) -> None:
    (tmp_path / "out").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "out" / name).write_text("1")
    wandb.init()
    wandb.save(str(tmp_path / "out" / "*.txt"))
    wandb.save(str(tmp_path / "out" / "a.txt"), base_path=tmp_path, policy="now")
    (tmp_path / "out" / "a.txt").write_text("2")
    wandb.finish()
    assert (folder / "files/a.txt").read_text() == "2"
    assert (folder / "files/b.txt").read_text() == "1"
    assert (folder / "files/out/a.txt").read_text() == "1"
    run = wandb.init()
    with pytest.raises(ValueError, match="is not in the folder"):
        run.save(str(tmp_path / "out" / "a.txt"), base_path=tmp_path / "other")
    with pytest.raises(ValueError, match="policy"):
        run.save("x", policy="never")


def test_a_file_that_is_saved_before_it_exists_is_copied_at_the_end(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = wandb.init()
    for _ in range(3):
        assert run.save(str(tmp_path / "*.ckpt"), base_path=tmp_path) == []
    assert capsys.readouterr().err.count("no file matches") == 1
    assert len(run._live) == 1
    (tmp_path / "a.ckpt").write_text("weights")
    run.finish()
    assert (folder / "files/a.ckpt").read_text() == "weights"


def test_a_copy_that_fails_leaves_the_last_one(
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "a.ckpt").write_text("good")
    run = wandb.init()
    run.save(str(tmp_path / "a.ckpt"), base_path=tmp_path)

    def half(_: Path, goal: Path) -> None:
        goal.write_text("ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", half)
    run.finish()
    assert (folder / "files/a.ckpt").read_text() == "good"
    assert [path.name for path in (folder / "files").iterdir()] == ["a.ckpt"]
    assert "No space left" in capsys.readouterr().err


def test_an_artifact_has_versions_and_aliases(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("one")
    run = wandb.init()
    first = wandb.Artifact("model", type="model", metadata={"score": 1})
    first.add_file(tmp_path / "model.pt", name="weights/model.pt")
    with first.new_file("notes.txt") as file:
        file.write("good")
    (tmp_path / "model.pt").write_text("two")  # what was added stays
    wandb.log_artifact(first, aliases=["best"])
    second = run.log_artifact(tmp_path / "model.pt", name="model", type="model")
    assert (first.version, second.version) == ("v0", "v1")
    best = run.use_artifact("entity/project/model:best")
    assert Path(best.download(), "weights/model.pt").read_text() == "one"
    assert best.metadata == {"score": 1}
    assert best.aliases == ["best", "latest"]
    assert Path(run.use_artifact("model:latest").file()).read_text() == "two"
    assert Path(wandb.use_artifact("model:v0").download(tmp_path / "copy")) == tmp_path / "copy"
    assert (tmp_path / "copy/notes.txt").read_text() == "good"
    assert read(folder / "artifacts/model/v0.artifact.json")["metadata"] == {"score": 1}
    with pytest.raises(ValueError, match=r"there is no 'model:v7' .* this run only"):
        run.use_artifact("model:v7")
    with pytest.raises(ValueError, match="is logged and cannot change"):
        first.add_file(tmp_path / "model.pt")


def test_the_next_version_follows_the_last_one_that_is_there(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    run = wandb.init()
    for _ in range(3):
        run.log_artifact(tmp_path / "a", name="a", type="x")
    shutil.rmtree(folder / "artifacts/a/v0")
    assert run.log_artifact(tmp_path / "a", name="a", type="x").version == "v3"


def test_a_disabled_run_copies_no_artifact(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a")
    run = wandb.init(mode="disabled")
    run.log_artifact(tmp_path / "a", name="a", type="x")
    assert not folder.exists()


def test_an_artifact_is_gathered_in_the_folder_of_init(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LOCKSTEP_CHECKPOINT_DIR")
    (tmp_path / "a").write_text("a")
    wandb.init(dir=tmp_path / "own")
    artifact = wandb.Artifact("a", type="x")
    artifact.add_file(tmp_path / "a")
    assert Path(artifact.download()).is_relative_to(tmp_path / "own")


def test_an_artifact_takes_folders_tables_and_addresses(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint/part").write_text("p")
    artifact = wandb.Artifact("all", type="data")
    artifact.add_dir(tmp_path / "checkpoint", name="c")
    artifact.add_file(tmp_path / "checkpoint", name="f")
    artifact.add(wandb.Table(columns=["a"], data=[[1]]), "table")
    artifact.add_reference("s3://bucket/key")
    wandb.init().log({"artifact": artifact})
    assert (folder / "artifacts/all/v0/c/part").read_text() == "p"
    assert (folder / "artifacts/all/v0/f/part").read_text() == "p"
    assert (folder / "artifacts/all/v0/table.table.json").exists()
    record = read(folder / "artifacts/all/v0.artifact.json")
    assert record["references"] == {"key": "s3://bucket/key"}
    with pytest.raises(ValueError, match="no name of a file within"):
        wandb.Artifact("x", type="y").new_file("../out").__enter__()
    with pytest.raises(ValueError, match="a name has letters"):
        wandb.Artifact("a/b", type="y")


# --- In the place of wandb ---


@pytest.fixture
def in_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """As in a rank of `lockstep run --wandb`."""
    stand_ins = tmp_path / "stand-ins"
    (stand_ins / "wandb-0.21.0.dist-info").mkdir(parents=True)
    metadata = "Metadata-Version: 2.1\nName: wandb\nVersion: 0.21.0\n"
    (stand_ins / "wandb-0.21.0.dist-info/METADATA").write_text(metadata)
    program = "from lockstep.wandb import take_place\ntake_place()\n"
    (stand_ins / "wandb.py").write_text(program)
    monkeypatch.syspath_prepend(str(stand_ins))
    importlib.invalidate_caches()
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "wandb"]:
        del sys.modules[name]


def test_a_script_that_imports_wandb_gets_lockstep(in_place: None) -> None:
    named = importlib.import_module("wandb")
    assert named is wandb
    assert importlib.import_module("wandb.errors").UsageError is wandb.UsageError
    assert importlib.import_module("wandb.sdk.wandb_run").Run is wandb.Run
    assert len(importlib.import_module("wandb.util").generate_id()) == 8
    with pytest.raises(ModuleNotFoundError, match=r"wandb\.keras"):
        importlib.import_module("wandb.keras")


def test_the_logger_of_lightning_works_unchanged(
    in_place: None, logged: Logged, folder: Path, tmp_path: Path
) -> None:
    pytest.importorskip("lightning")
    loggers = importlib.import_module("lightning.pytorch.loggers.wandb")
    logger = loggers.WandbLogger(project="p", save_dir=tmp_path, log_model=True)
    logger.log_hyperparams({"lr": 0.5})
    logger.log_metrics({"loss": 1.0}, step=40)
    logger.log_metrics({"loss": 0.5}, step=50)
    logger.log_table("samples", columns=["a"], data=[[1]])
    logger.log_text("texts", columns=["a"], data=[["x"]])
    logger.watch(object())
    (tmp_path / "model.ckpt").write_text("weights")
    logger.finalize("success")
    assert logged == [
        (40, {"loss": 1.0, "trainer/global_step": 40}),
        (50, {"loss": 0.5, "trainer/global_step": 50}),
    ]
    assert logger.version == "demo-7"
    assert read(folder / "config.json") == {"lr": 0.5}
    assert len(list(folder.glob("media/samples-*.table.json"))) == 1


def test_the_callback_of_transformers_works_unchanged(
    in_place: None, logged: Logged, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")

    class Model(torch.nn.Module):  # type: ignore[name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x: Any, labels: Any) -> dict[str, Any]:
            return {"loss": (self.layer(x) - labels).pow(2).mean()}

    monkeypatch.setenv("WANDB_WATCH", "all")
    data = [{"x": torch.ones(1), "labels": torch.ones(1)} for _ in range(8)]
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path / "out"),
        per_device_train_batch_size=2,
        max_steps=4,
        logging_steps=2,
        report_to="wandb",
        run_name="mine",
        save_strategy="no",
        use_cpu=True,
        disable_tqdm=True,
    )
    transformers.Trainer(Model(), arguments, train_dataset=data).train()
    wandb.finish()
    assert [(step, "train/loss" in row) for step, row in logged][:2] == [(2, True), (4, True)]
    summary = read(folder / "summary.json")
    assert summary["train_runtime"] > 0
    assert read(folder / "config.json")["max_steps"] == 4
    assert read(folder / "run.json")["name"] == "mine"


def test_the_tracker_of_accelerate_works_unchanged(in_place: None, folder: Path) -> None:
    pytest.importorskip("accelerate")
    # In a process of its own: accelerate looks for wandb once, when it is imported.
    said = run_program(
        """
import accelerate
accelerator = accelerate.Accelerator(log_with="wandb", cpu=True)
accelerator.init_trackers("project", config={"lr": 0.5})
accelerator.log({"loss": 1.0}, step=3)
accelerator.end_training()
""",
        str(folder.parent / "stand-ins"),
    )
    assert said == "step 3  loss 1\n"
    assert read(folder / "config.json") == {"lr": 0.5}


def run_program(program: str, *folders: str) -> str:
    environment = os.environ | {"PYTHONPATH": ":".join([*folders, str(PYTHON)])}
    environment.pop("LOCKSTEP_REPORT", None)
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_end_of_a_program_sends_what_waits_and_writes_the_files(folder: Path) -> None:
    said = run_program("""
import lockstep.wandb as wandb
wandb.init(config={"lr": 1})
wandb.log({"loss": 0.5}, commit=False)
""")
    assert said == "step 0  loss 0.5\n"
    assert read(folder / "summary.json") == {"loss": 0.5, "_step": 0}
