"""MLflow's own client against the daemon: experiments, runs, metrics, params, tags and searches."""

from __future__ import annotations

import json
import math
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.calls import Answer, address, ask, bearer, call, user_token
from tests.api.test_roles import People

from tests.conftest import Cluster, wait_until

mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
from mlflow import MlflowClient  # noqa: E402
from mlflow.entities import Metric, Param, RunStatus, RunTag, ViewType  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402

LOSSES = [0.5, 0.25, 0.125]


def url_of(cluster: Cluster) -> str:
    host, port = address(cluster)
    return f"http://{host}:{port}"


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def client(cluster: Cluster, environment: pytest.MonkeyPatch) -> MlflowClient:
    environment.setenv("MLFLOW_TRACKING_TOKEN", user_token(cluster))
    return MlflowClient(tracking_uri=url_of(cluster))


@pytest.fixture
def fluent(cluster: Cluster, client: MlflowClient) -> Iterator[None]:
    """The module `mlflow` itself, as scripts use it."""
    mlflow.set_tracking_uri(url_of(cluster))
    yield
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri("")


def lockstep_run(run_id: str) -> str:
    return "/".join(run_id.rsplit("-", 1))


def post(cluster: Cluster, what: str, body: object) -> Answer:
    return ask(cluster, "POST", f"/api/2.0/mlflow/{what}", json.dumps(body))


@pytest.mark.usefixtures("fluent")
def test_a_script_makes_an_experiment_and_a_run_that_lockstep_shows(cluster: Cluster) -> None:
    mlflow.set_experiment("bert")
    with mlflow.start_run(run_name="first try") as run:
        mlflow.log_params({"lr": 0.1, "layers": 12})
        for step, loss in enumerate(LOSSES):
            mlflow.log_metric("train/loss", loss, step=step)
        mlflow.log_metrics({"accuracy": 0.75, "perplexity": 9.5}, step=2)
        mlflow.set_tag("stage", "final")
        shown = cluster.show(lockstep_run(run.info.run_id))
        assert shown["state"] == "running"
        assert shown["launcher"] == "an MLflow client"
    shown = cluster.ended(lockstep_run(run.info.run_id))
    assert shown["state"] == "succeeded"
    assert shown["name"] == "first-try"
    assert shown["latest"]["train/loss"] == LOSSES[-1]
    read = mlflow.get_run(run.info.run_id)
    assert read.info.status == "FINISHED"
    assert read.info.run_name == "first try"
    assert read.data.params == {"lr": "0.1", "layers": "12"}
    assert read.data.metrics == {"train/loss": 0.125, "accuracy": 0.75, "perplexity": 9.5}
    assert read.data.tags["stage"] == "final"
    assert mlflow.get_experiment(read.info.experiment_id).name == "bert"


def test_experiments_are_made_found_renamed_deleted_and_restored(client: MlflowClient) -> None:
    made = client.create_experiment("a", tags={"team": "nlp"})
    assert client.get_experiment_by_name("a").experiment_id == made
    assert client.get_experiment(made).tags == {"team": "nlp"}
    assert client.get_experiment_by_name("no") is None
    with pytest.raises(MlflowException) as again:
        client.create_experiment("a")
    assert again.value.error_code == "RESOURCE_ALREADY_EXISTS"
    client.rename_experiment(made, "b")
    client.set_experiment_tag(made, "team", "vision")
    assert client.get_experiment_by_name("b").tags == {"team": "vision"}
    client.create_experiment("c")
    assert {one.name for one in client.search_experiments()} == {"Default", "b", "c"}
    assert [one.name for one in client.search_experiments(filter_string="name = 'c'")] == ["c"]
    client.delete_experiment(made)
    assert {one.name for one in client.search_experiments()} == {"Default", "c"}
    deleted = client.search_experiments(view_type=ViewType.DELETED_ONLY)
    assert [one.name for one in deleted] == ["b"]
    with pytest.raises(MlflowException, match="is deleted"):
        client.create_run(made)
    client.restore_experiment(made)
    assert client.get_experiment(made).lifecycle_stage == "active"


def test_pages_of_experiments_and_runs_have_each_once(client: MlflowClient) -> None:
    experiments = [client.create_experiment(f"e{number}") for number in range(5)]
    found, token = [], None
    while True:
        page = client.search_experiments(max_results=2, page_token=token)
        found += [one.experiment_id for one in page]
        if not (token := page.token):
            break
    assert sorted(found) == sorted(["0", *experiments])
    runs = {client.create_run(experiments[0]).info.run_id for _ in range(5)}
    seen, token = [], None
    while True:
        page = client.search_runs([experiments[0]], max_results=2, page_token=token)
        seen += [one.info.run_id for one in page]
        if not (token := page.token):
            break
    assert len(seen) == 5 and set(seen) == runs


def test_the_history_of_a_metric_is_exact(client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    values = [1.5, math.nan, math.inf, -math.inf, 0.1, 1e-300, 1e300]
    for step, value in enumerate(values):
        client.log_metric(run, "loss", value, timestamp=1_700_000_000_000 + step, step=step - 2)
    history = client.get_metric_history(run, "loss")
    assert [point.step for point in history] == list(range(-2, 5))
    assert [point.timestamp for point in history] == [1_700_000_000_000 + n for n in range(7)]
    for point, value in zip(history, values, strict=True):
        assert point.value == value or (math.isnan(point.value) and math.isnan(value))
    assert client.get_metric_history(run, "unknown") == []


def test_values_of_one_step_are_all_kept(client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    for number in range(5):
        client.log_metric(run, "loss", number, timestamp=1000 + number)
    assert [point.value for point in client.get_metric_history(run, "loss")] == [0, 1, 2, 3, 4]
    assert client.get_run(run).data.metrics == {"loss": 4}


def test_a_batch_has_metrics_params_and_tags(client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    metrics = [Metric(f"m{number % 7}", number, 1000 + number, number) for number in range(2500)]
    client.log_batch(run, metrics=metrics[:1000], params=[Param("a", "1")], tags=[RunTag("b", "2")])
    for begin in (1000, 2000):
        client.log_batch(run, metrics=metrics[begin : begin + 1000])
    assert len(client.get_metric_history(run, "m0")) == len(range(0, 2500, 7))
    data = client.get_run(run).data
    assert data.params == {"a": "1"} and data.tags["b"] == "2"
    assert data.metrics["m1"] == 2500 - 2500 % 7 + 1 - 7 * (2500 % 7 < 2)


def test_a_batch_that_is_sent_again_is_stored_once(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    batch = {
        "run_id": run,
        "metrics": [{"key": "loss", "value": 1.5, "timestamp": 1000, "step": "3"}],
        "params": [{"key": "lr", "value": "1"}],
    }
    for _ in range(3):
        assert post(cluster, "runs/log-batch", batch).status == 200
    assert len(client.get_metric_history(run, "loss")) == 1


def test_a_parameter_does_not_change_and_a_tag_does(client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    client.log_param(run, "lr", 1)
    client.log_param(run, "lr", 1)
    with pytest.raises(MlflowException) as changed:
        client.log_param(run, "lr", 2)
    assert changed.value.error_code == "INVALID_PARAMETER_VALUE"
    client.set_tag(run, "stage", "a")
    client.set_tag(run, "stage", "b")
    assert client.get_run(run).data.tags["stage"] == "b"
    client.delete_tag(run, "stage")
    assert "stage" not in client.get_run(run).data.tags
    with pytest.raises(MlflowException, match="no tag"):
        client.delete_tag(run, "stage")


def test_runs_are_searched_and_ordered(client: MlflowClient) -> None:
    experiment = client.create_experiment("search")
    ids = {}
    for name, loss, optimizer in (("a", 0.5, "adam"), ("b", 0.25, "sgd"), ("c", 0.75, "adamw")):
        run = client.create_run(experiment, run_name=name).info.run_id
        client.log_metric(run, "loss", loss)
        client.log_param(run, "optimizer", optimizer)
        ids[run] = name
    client.create_run("0")  # of another experiment

    def found(text: str, *order: str) -> list[str]:
        runs = client.search_runs([experiment], text, order_by=list(order))
        return [ids[run.info.run_id] for run in runs]

    assert found("", "metrics.loss ASC") == ["b", "a", "c"]
    assert found("metrics.loss > 0.3", "metrics.loss DESC") == ["c", "a"]
    assert found("params.optimizer LIKE 'adam%'", "attributes.run_name") == ["a", "c"]
    assert found("attributes.run_name = 'b' AND attributes.status = 'RUNNING'") == ["b"]
    assert found("tags.`mlflow.runName` IN ('a', 'b')", "run_name DESC") == ["b", "a"]
    with pytest.raises(MlflowException, match="loss is a number"):
        found("metrics.loss LIKE 'x'")


def test_a_run_fails_or_is_killed_as_its_client_says(
    cluster: Cluster, client: MlflowClient
) -> None:
    failed = client.create_run("0").info.run_id
    killed = client.create_run("0").info.run_id
    client.set_terminated(failed, "FAILED")
    client.set_terminated(killed, "KILLED")
    assert client.get_run(failed).info.status == "FAILED"
    assert cluster.ended(lockstep_run(failed))["state"] == "failed"
    assert cluster.ended(lockstep_run(killed))["state"] == "cancelled"
    assert client.get_run(failed).info.status == RunStatus.to_string(RunStatus.FAILED)
    assert client.get_run(killed).info.status == "KILLED"
    client.log_metric(failed, "after", 1.0)  # a result that comes late
    assert client.get_run(failed).data.metrics == {"after": 1.0}


def test_a_deleted_run_is_hidden_until_it_is_restored(client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    client.delete_run(run)
    assert client.get_run(run).info.lifecycle_stage == "deleted"
    assert list(client.search_runs(["0"])) == []
    deleted = client.search_runs(["0"], run_view_type=ViewType.DELETED_ONLY)
    assert [one.info.run_id for one in deleted] == [run]
    client.restore_run(run)
    assert [one.info.run_id for one in client.search_runs(["0"])] == [run]


def test_the_runs_of_lockstep_are_in_the_default_experiment(
    cluster: Cluster, client: MlflowClient
) -> None:
    run = cluster.submit("--name", "usual", "--", "true")
    cluster.ended(run)
    (read,) = client.search_runs(["0"])
    assert read.info.run_id == run.replace("/", "-")
    assert (read.info.run_name, read.info.status) == ("usual", "FINISHED")
    client.set_tag(read.info.run_id, "note", "good")
    client.log_metric(read.info.run_id, "test/accuracy", 0.9, step=1)
    assert cluster.show(run)["latest"] == {"test/accuracy": 0.9}


def test_a_killed_daemon_loses_no_run_and_no_point(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    client.log_metric(run, "loss", 1.5, step=1)
    cluster.kill_daemon()
    cluster.serve("2x2", "--port", str(address(cluster)[1]))
    client.log_metric(run, "loss", 2.5, step=2)
    assert [point.value for point in client.get_metric_history(run, "loss")] == [1.5, 2.5]
    client.set_terminated(run)
    assert cluster.ended(lockstep_run(run))["state"] == "succeeded"


def test_users_reach_the_runs_of_their_projects_only(
    people: People, environment: pytest.MonkeyPatch
) -> None:
    def of(user: str) -> MlflowClient:
        environment.setenv("MLFLOW_TRACKING_TOKEN", people.new_token(user=user, project="own"))
        return MlflowClient(tracking_uri=url_of(people.cluster))

    member = of("member")
    experiment = member.create_experiment("secret plans")
    run = member.create_run(experiment).info.run_id
    assert run.startswith("own-")
    member.log_metric(run, "loss", 1.0)

    viewer = of("viewer")
    assert viewer.get_run(run).data.metrics == {"loss": 1.0}
    with pytest.raises(MlflowException) as refused:
        viewer.log_metric(run, "loss", 2.0)
    assert refused.value.error_code == "PERMISSION_DENIED"
    with pytest.raises(MlflowException) as refused:
        viewer.create_run(experiment)
    assert refused.value.error_code == "PERMISSION_DENIED"

    environment.setenv("MLFLOW_TRACKING_TOKEN", people.tokens["outsider"])
    outsider = MlflowClient(tracking_uri=url_of(people.cluster))
    for attempt in (
        lambda: outsider.get_run(run),
        lambda: outsider.get_experiment(experiment),
        lambda: outsider.search_runs([experiment]),
        lambda: outsider.log_metric(run, "loss", 2.0),
    ):
        with pytest.raises(MlflowException) as hidden:
            attempt()
        assert hidden.value.error_code == "RESOURCE_DOES_NOT_EXIST"
    assert outsider.get_experiment_by_name("secret plans") is None


@pytest.fixture
def people(cluster: Cluster) -> People:
    return People(cluster)


def test_bad_calls_get_the_errors_of_mlflow(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id

    def error(what: str, body: object) -> tuple[int, str, str]:
        answer = post(cluster, what, body)
        return answer.status, answer.json()["error_code"], answer.json()["message"]

    no_token = call(cluster, "GET", "/api/2.0/mlflow/runs/get?run_id=x")
    assert (no_token.status, no_token.json()["error_code"]) == (401, "UNAUTHENTICATED")
    wrong = call(cluster, "GET", "/api/2.0/mlflow/runs/get?run_id=x", headers=bearer("no"))
    assert wrong.status == 401
    assert error("runs/fly", {})[:2] == (404, "ENDPOINT_NOT_FOUND")
    by_get = ask(cluster, "GET", "/api/2.0/mlflow/runs/create?experiment_id=0")
    assert (by_get.status, by_get.json()["error_code"]) == (404, "ENDPOINT_NOT_FOUND")
    assert error("runs/log-metric", {"run_id": run})[1] == "INVALID_PARAMETER_VALUE"
    assert error("runs/log-metric", {"run_id": "../etc"})[1] == "RESOURCE_DOES_NOT_EXIST"
    good = {"key": "a", "value": 1, "timestamp": 1, "step": 1}
    batch = {"run_id": run, "metrics": [good, {**good, "key": "x" * 251}]}
    status, code, message = error("runs/log-batch", batch)
    assert (status, code) == (400, "INVALID_PARAMETER_VALUE") and "metrics[1]" in message
    for change in ({"step": 2**63}, {"timestamp": 2**62}, {"value": "much"}, {"step": 1.5}):
        status, code, message = error("runs/log-metric", {"run_id": run, **good, **change})
        assert (status, code) == (400, "INVALID_PARAMETER_VALUE"), (change, message)
    many = {"run_id": run, "metrics": [good] * 1001}
    assert "1000 metrics" in error("runs/log-batch", many)[2]
    assert error("runs/update", {"run_id": run, "status": "DANCING"})[0] == 400
    assert error("runs/search", {"experiment_ids": ["0"], "filter": "nonsense"})[0] == 400
    assert error("runs/search", {"experiment_ids": ["77"]})[0] == 404
    assert client.get_metric_history(run, "a") == [], "of the refused calls nothing is stored"


def test_a_removed_run_leaves_nothing(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    client.log_param(run, "a", 1)
    client.set_terminated(run)
    cluster.ended(lockstep_run(run))
    cluster.ok("rm", lockstep_run(run), "--yes")

    def rows() -> int:
        with sqlite3.connect(f"file:{cluster.home}/lockstep.db?mode=ro", uri=True) as database:
            tables = ("mlflow_runs", "mlflow_values")
            counts = [database.execute(f"select count(*) from {name}") for name in tables]
            return sum(one.fetchone()[0] for one in counts)

    wait_until("its rows are gone", lambda: rows() == 0)
    with pytest.raises(MlflowException):
        client.get_run(run)


@pytest.mark.usefixtures("fluent")
def test_artifacts_pass_through_the_daemon(cluster: Cluster, tmp_path: Path) -> None:
    large = tmp_path / "weights.bin"
    large.write_bytes(os.urandom(9 << 20))  # more than the body of any other call
    folder = tmp_path / "plots"
    (folder / "deep").mkdir(parents=True)
    (folder / "deep" / "a b+é.txt").write_text("one")
    (folder / "c.txt").write_text("one")
    (folder / "empty").write_text("")
    with mlflow.start_run(experiment_id="0") as run:
        mlflow.log_artifact(str(large))
        mlflow.log_artifacts(str(folder), "plots")
        mlflow.log_dict({"lr": 0.1}, "config.json")
    client = MlflowClient()
    name = run.info.run_id
    found = {one.path: (one.is_dir, one.file_size) for one in client.list_artifacts(name)}
    assert found == {
        "config.json": (False, found["config.json"][1]),
        "plots": (True, None),
        "weights.bin": (False, 9 << 20),
    }
    assert [one.path for one in client.list_artifacts(name, "plots")] == [
        "plots/c.txt",
        "plots/deep",
        "plots/empty",
    ]
    back = Path(client.download_artifacts(name, "", str(tmp_path / "back")))
    assert (back / "weights.bin").read_bytes() == large.read_bytes()
    assert (back / "plots" / "deep" / "a b+é.txt").read_text() == "one"
    assert (back / "plots" / "empty").read_text() == ""
    assert json.loads((back / "config.json").read_text()) == {"lr": 0.1}
    with pytest.raises(MlflowException, match="path is correct"):
        client.download_artifacts(name, "none.txt", str(tmp_path))


def test_paths_of_artifacts_lead_to_no_other_place(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    root = f"/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts"
    for path in (
        "../../x",
        "a/../../x",
        "%2e%2e/x",
        "a%2fb",
        "%252e%252e/x",
        "a%252Fb",
        "/etc/passwd",
        "a//b",
        "a%00b",
        "a%5cb",
        "%ff",
        "",
    ):
        answer = call(cluster, "PUT", f"{root}/{path}", b"x", bearer(user_token(cluster)))
        assert answer.status == 400, path
    assert client.list_artifacts(run) == []
    listed = ask(cluster, "GET", "/api/2.0/mlflow-artifacts/artifacts?path=0/../artifacts")
    assert listed.status == 404


def test_artifacts_need_the_rights_to_their_run(cluster: Cluster, client: MlflowClient) -> None:
    run = client.create_run("0").info.run_id
    target = f"/api/2.0/mlflow-artifacts/artifacts/0/{run}/artifacts/a.txt"
    assert call(cluster, "PUT", target, b"x", bearer("no")).status == 401
    assert call(cluster, "PUT", target, b"x", bearer(user_token(cluster))).status == 200
    assert call(cluster, "GET", target, headers=bearer("no")).status == 401
    assert ask(cluster, "GET", target).body == b"x"
    assert ask(cluster, "DELETE", target).status == 200
    assert ask(cluster, "GET", target).status == 404
    assert ask(cluster, "GET", target.replace(run, "demo-99")).status == 404
