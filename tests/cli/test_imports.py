"""TensorBoard's event files, folders of LOCKSTEP_OFFLINE, OpenTelemetry, images and histograms,
through a real daemon."""

from __future__ import annotations

import gzip
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.api.calls import bearer, call, user_token

from tests.conftest import BUILD, PATIENCE, Cluster, wait_until

numpy = pytest.importorskip("numpy", reason="needs numpy")


def python(cluster: Cluster, code: str, **variables: str) -> str:
    """The standard output of a program of the user."""
    environment = cluster.environment | {"PYTHONPATH": str(BUILD / "python")} | variables
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE * 2,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def points(cluster: Cluster, run: str, name: str, *words: str) -> list[tuple[int, float]]:
    answer = json.loads(cluster.ok("metrics", run, "--name", name, "--json", *words))
    return [
        (point["step"], float(point["value"]))
        for series in answer["series"]
        for point in series["points"]
    ]


def imported(cluster: Cluster, *words: str) -> tuple[str, int, int]:
    """The run, the points that were read, and those that were new."""
    run, _, counts = cluster.ok("import", *words).partition(": ")
    read, _, new = counts.partition(" points read, ")
    return run, int(read), int(new.split()[0])


# --- TensorBoard ---


def write_events(folder: Path, steps: range) -> None:
    """By TensorBoard's own writers, with both forms of scalars."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(folder) as writer:
        for step in steps:
            writer.add_scalar("loss", 2.0**-step, step)
            writer.add_scalar("new/lr", step, step, new_style=True)
        writer.add_histogram("w", numpy.array([0.0, 0.0, 1.0]), 3)
        writer.add_image("picture", numpy.zeros((3, 2, 4), dtype="uint8"), 4)
    other = EventFileWriter(str(folder / "validation"))
    value = Summary.Value(tag="loss", simple_value=float("nan"))
    other.add_event(Event(wall_time=1, step=9, summary=Summary(value=[value])))
    other.close()


def test_files_of_tensorboard_become_a_run_and_each_point_counts_once(
    cluster: Cluster, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    folder = tmp_path / "exp1"
    write_events(folder, range(5))
    run, read, new = imported(cluster, "tensorboard", str(folder))
    assert (read, new) == (11, 11)
    assert points(cluster, run, "loss") == [(step, 2.0**-step) for step in range(5)]
    assert points(cluster, run, "new/lr") == [(step, step) for step in range(5)]
    [(step, value)] = points(cluster, run, "validation/loss")
    assert step == 9 and math.isnan(value)
    assert cluster.ended(run)["state"] == "succeeded"
    assert imported(cluster, "tensorboard", str(folder)) == (run, 0, 0)
    write_events(folder, range(5, 6))
    assert imported(cluster, "tensorboard", str(folder)) == (run, 3, 3)
    shown = python(
        cluster,
        f"""
import json, lockstep
run = lockstep.run("{run}")
[image, *_] = run.images("picture")
[histogram, *_] = run.histograms()
print(json.dumps([image.step, image.read()[:4].hex(), histogram.name, sum(histogram.counts)]))
""",
    )
    assert json.loads(shown) == [4, "89504e47", "w", 3]


def test_tensorboard_opens_the_file_of_a_run(cluster: Cluster, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    from tensorboard.util.tensor_util import make_ndarray

    write_events(tmp_path / "exp1", range(5))
    run, _, _ = imported(cluster, "tensorboard", str(tmp_path / "exp1"))
    cluster.ok("tensorboard", run, "--out", str(tmp_path / "out"))
    events = EventAccumulator(str(tmp_path / "out"))
    events.Reload()
    tags = events.Tags()
    assert sorted(tags["tensors"]) == ["loss", "new/lr", "validation/loss"]
    assert tags["images"] == ["picture"]
    assert tags["histograms"] == ["w"]
    losses = [
        (each.step, float(make_ndarray(each.tensor_proto))) for each in events.Tensors("loss")
    ]
    assert losses == [(step, 2.0**-step) for step in range(5)]
    [image] = events.Images("picture")
    assert (image.width, image.height) == (4, 2)


def test_the_file_that_a_rank_writes_counts_as_its_metrics(
    cluster: Cluster, tmp_path: Path
) -> None:
    pytest.importorskip("tensorboard", reason="needs tensorboard")
    program = tmp_path / "train.py"
    program.write_text("""
import os, time
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter("runs/exp")
for step in range(4):
    writer.add_scalar("loss", 0.5 ** step, step)
writer.flush()
while not os.path.exists("end"):  # until the test has seen these
    time.sleep(0.05)
writer.add_scalar("loss", 9, 4)
writer.close()
""")
    folder = tmp_path / "work"
    folder.mkdir()
    packages = os.environ.get("PYTHONPATH", "")
    command = ("--env", f"PYTHONPATH={packages}", "--", "python", str(program))
    run = cluster.ok("run", "--detach", *command, cwd=folder).strip()
    wait_until("4 points", lambda: len(points(cluster, run, "loss")) == 4)
    (folder / "end").touch()
    assert cluster.ended(run)["state"] == "succeeded"
    assert points(cluster, run, "loss") == [*((step, 0.5**step) for step in range(4)), (4, 9.0)]


def test_a_folder_without_event_files_and_a_damaged_file_are_named(
    cluster: Cluster, tmp_path: Path
) -> None:
    refused = cluster.command("import", "tensorboard", str(tmp_path))
    assert refused.returncode != 0 and "has no event files" in refused.stderr
    (tmp_path / "events.out.tfevents.1.host").write_bytes(b"\0" * 40)
    damaged = cluster.command("import", "tensorboard", str(tmp_path))
    assert damaged.returncode == 0
    assert "byte 0: the head of a record is damaged" in damaged.stderr


# --- A folder without a daemon ---


def test_a_folder_of_lockstep_log_is_imported_once(cluster: Cluster, tmp_path: Path) -> None:
    program = """
import lockstep
for step in range(3):
    lockstep.log({"loss": 0.5 ** step}, step=step)
lockstep.log({"w": lockstep.Histogram([1, 2, 2], bins=2)}, step=2)
lockstep.event("half of it")
"""
    folder = tmp_path / "out"
    for rank in ("0", "1"):
        python(cluster, program, LOCKSTEP_OFFLINE=str(folder), RANK=rank)
    run, read, new = imported(cluster, str(folder))
    assert (read, new) == (8, 8)
    for rank in ("0", "1"):
        losses = [(step, 0.5**step) for step in range(3)]
        assert points(cluster, run, "loss", "--rank", rank) == losses
    assert imported(cluster, str(folder)) == (run, 8, 0)
    python(cluster, program, LOCKSTEP_OFFLINE=str(folder), RANK="0")
    assert imported(cluster, str(folder)) == (run, 12, 4)
    shown = python(
        cluster,
        f"import lockstep; print([each.counts for each in lockstep.run('{run}').histograms()])",
    )
    assert shown == "[[1.0, 2.0], [1.0, 2.0]]\n"
    refused = cluster.command("import", str(tmp_path))
    assert refused.returncode != 0 and "run.json" in refused.stderr


# --- Images and histograms of a run ---


def test_images_of_a_rank_are_stored_once_by_content(cluster: Cluster, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text("""
import lockstep, numpy
for step in range(2):
    pictures = [lockstep.Image(numpy.zeros((2, 2)), caption="black"), numpy.ones((2, 2, 3))]
    lockstep.log({"loss": 1, "samples": pictures}, step=step)
""")
    run = cluster.submit("--", "python", str(program))
    assert cluster.ended(run)["state"] == "succeeded"
    code = f"""
import json, lockstep
images = lockstep.run("{run}").images("samples")
print(json.dumps([[i.step, i.index, i.caption, i.sha256, len(i.read()) == i.size] for i in images]))
"""

    def images() -> list[Any]:
        found: list[Any] = json.loads(python(cluster, code))
        return found

    found = wait_until("4 images", lambda: images() if len(images()) == 4 else None)
    assert [each[:3] for each in found] == [
        [0, 0, "black"],
        [0, 1, ""],
        [1, 0, "black"],
        [1, 1, ""],
    ]
    assert found[0][3] == found[2][3] != found[1][3]
    assert all(each[4] for each in found)


# --- OpenTelemetry ---


def histograms(cluster: Cluster, run: str) -> list[dict[str, Any]]:
    answer = call(
        cluster, "GET", f"/api/v1/runs/{run}/histograms", headers=bearer(user_token(cluster))
    )
    return list(answer.json()["histograms"])


def gauge(name: str, value: float, step: int, **resource: Any) -> bytes:
    def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"key": key, "value": {"stringValue": str(each)}} for key, each in values.items()]

    point = {
        "timeUnixNano": "1790000000000000000",
        "asDouble": value,
        "attributes": attributes({"lockstep.step": step}),
    }
    metrics = [{"name": name, "gauge": {"dataPoints": [point]}}]
    return json.dumps(
        {
            "resourceMetrics": [
                {
                    "resource": {
                        "attributes": attributes(
                            {key.replace("_", "."): each for key, each in resource.items()}
                        )
                    },
                    "scopeMetrics": [{"metrics": metrics}],
                }
            ]
        }
    ).encode()


def test_metrics_of_opentelemetry_in_json_land_in_the_run_that_they_name(cluster: Cluster) -> None:
    run = cluster.submit("--", "true")
    cluster.ended(run)
    head = bearer(user_token(cluster)) | {"Content-Type": "application/json"}
    body = gauge("loss", 0.5, 7, lockstep_run=run, lockstep_rank=0)
    for _ in range(2):
        assert call(cluster, "POST", "/v1/metrics", body, head).status == 200
    packed = gzip.compress(gauge("loss", 0.25, 8, lockstep_run=run))
    answer = call(cluster, "POST", "/v1/metrics", packed, head | {"Content-Encoding": "gzip"})
    assert (answer.status, answer.json()) == (200, {})
    assert points(cluster, run, "loss") == [(7, 0.5), (8, 0.25)]


def test_a_call_of_opentelemetry_that_is_wrong_is_refused(cluster: Cluster) -> None:
    good = bearer(user_token(cluster)) | {"Content-Type": "application/json"}
    body = gauge("loss", 1, 1, lockstep_run="demo/77")
    assert call(cluster, "POST", "/v1/metrics", body, {}).status == 401
    missing = call(cluster, "POST", "/v1/metrics", body, good)
    assert missing.status == 404 and "demo/77" in missing.json()["message"]
    assert call(cluster, "GET", "/v1/metrics", None, good).status == 405
    assert call(cluster, "POST", "/v1/metrics", b"[]", good).status == 400
    text = good | {"Content-Type": "text/plain"}
    assert call(cluster, "POST", "/v1/metrics", body, text).status == 415
    packed = good | {"Content-Encoding": "gzip"}
    assert call(cluster, "POST", "/v1/metrics", body, packed).status == 400


def test_the_exporter_of_opentelemetry_makes_a_run_of_its_service(cluster: Cluster) -> None:
    exporters = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        reason="needs opentelemetry-exporter-otlp-proto-http",
    )
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource

    exporter = exporters.OTLPMetricExporter(
        endpoint=f"{cluster.url()}/v1/metrics",
        headers={"authorization": f"Bearer {user_token(cluster)}"},
        compression=Compression.Gzip,
    )
    provider = MeterProvider(
        [PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)],
        Resource({"service.name": "trainer", "lockstep.rank": 3}),
    )
    meter = provider.get_meter("test")
    meter.create_counter("tokens").add(5, {"lockstep.step": 12, "split": "train"})
    for value in (0.5, 7, 8):
        meter.create_histogram("seconds").record(value, {"lockstep.step": 12})
    provider.force_flush()
    provider.shutdown()
    [run] = json.loads(cluster.ok("ps", "--json"))["runs"]
    assert run["name"] == "trainer"
    assert points(cluster, run["id"], "tokens{split=train}", "--rank", "3") == [(12, 5.0)]
    sums = points(cluster, run["id"], "seconds.sum", "--rank", "3")
    assert [value for _, value in sums] == [15.5]
    [seconds] = histograms(cluster, run["id"])
    assert (seconds["name"], seconds["rank"]) == ("seconds", 3)
    bins = zip(seconds["edges"], seconds["edges"][1:], seconds["counts"], strict=False)
    assert [each for each in bins if each[2]] == [(0, 5, 1), (5, 10, 2)]


def test_exponential_histograms_of_the_exporter_are_histograms_of_the_run(cluster: Cluster) -> None:
    exporters = pytest.importorskip(
        "opentelemetry.exporter.otlp.proto.http.metric_exporter",
        reason="needs opentelemetry-exporter-otlp-proto-http",
    )
    from opentelemetry.sdk.metrics import Histogram, MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation

    exporter = exporters.OTLPMetricExporter(
        endpoint=f"{cluster.url()}/v1/metrics",
        headers={"authorization": f"Bearer {user_token(cluster)}"},
        preferred_aggregation={Histogram: ExponentialBucketHistogramAggregation()},
    )
    provider = MeterProvider(
        [PeriodicExportingMetricReader(exporter, export_interval_millis=3_600_000)]
    )
    latency = provider.get_meter("test").create_histogram("latency")
    for value in (0.0, 1.5, 3.0, 100.0):
        latency.record(value, {"lockstep.step": 12})
    provider.force_flush()
    provider.shutdown()
    [run] = json.loads(cluster.ok("ps", "--json"))["runs"]
    [found] = histograms(cluster, run["id"])
    assert sum(found["counts"]) == 4
    for value in (0.0, 1.5, 3.0, 100.0):
        bins = zip(found["edges"], found["edges"][1:], found["counts"], strict=False)
        assert any(low <= value <= high and count for low, high, count in bins), value
