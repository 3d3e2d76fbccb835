"""MLflow's own client against the model registry: models are logged, registered and loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.calls import address, user_token

from tests.conftest import Cluster

mlflow = pytest.importorskip("mlflow", reason="needs mlflow-skinny")
pd = pytest.importorskip("pandas", reason="mlflow.pyfunc needs pandas")
from mlflow import MlflowClient  # noqa: E402
from mlflow.exceptions import MlflowException  # noqa: E402


@pytest.fixture
def client(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[MlflowClient]:
    host, port = address(cluster)
    for name in ("MLFLOW_DISABLE_TELEMETRY", "DO_NOT_TRACK"):
        monkeypatch.setenv(name, "true")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    for name in ("MLFLOW_RUN_ID", "MLFLOW_EXPERIMENT_ID", "MLFLOW_EXPERIMENT_NAME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", user_token(cluster))
    # Other tests have chosen one in this process.
    monkeypatch.setattr("mlflow.tracking.fluent._active_experiment_id", None)
    mlflow.set_tracking_uri(f"http://{host}:{port}")
    yield MlflowClient()
    while mlflow.active_run():
        mlflow.end_run()
    mlflow.set_tracking_uri("")


def log_model(folder: Path, factor: int, **words: Any) -> Any:
    """A model as code: skinny has no cloudpickle of its own."""
    script = folder / f"times_{factor}.py"
    script.write_text(
        "import mlflow\n"
        "class Times(mlflow.pyfunc.PythonModel):\n"
        "    def predict(self, context, model_input, params=None):\n"
        f"        return [{factor} * one for one in model_input['x']]\n"
        "mlflow.models.set_model(Times())\n"
    )
    return mlflow.pyfunc.log_model(
        name="times", python_model=str(script), pip_requirements=[], **words
    )


def predict(uri: str) -> list[int]:
    return [int(one) for one in mlflow.pyfunc.load_model(uri).predict(pd.DataFrame({"x": [1, 2]}))]


def test_a_logged_model_is_registered_and_loaded(
    cluster: Cluster, client: MlflowClient, tmp_path: Path
) -> None:
    with mlflow.start_run() as run:
        mlflow.log_param("lr", 1)
        for factor in (2, 3):
            logged = log_model(tmp_path, factor, registered_model_name="times")
    assert predict(logged.model_uri) == [3, 6]
    assert predict("models:/times/1") == [2, 4]
    client.set_registered_model_alias("times", "best", 1)
    assert predict("models:/times@best") == [2, 4]
    assert predict("models:/times/latest") == [3, 6]
    version = client.get_model_version("times", "2")
    assert (version.run_id, version.status) == (run.info.run_id, "READY")
    read = client.get_run(run.info.run_id)
    assert len(read.outputs.model_outputs) == 2
    (found,) = mlflow.search_logged_models(
        filter_string=f"name = 'times' AND model_id = '{logged.model_id}'", output_format="list"
    )
    assert (found.source_run_id, str(found.status)) == (run.info.run_id, "READY")
    model = json.loads(cluster.ok("model", "show", "times", "--json"))
    assert model["aliases"] == {"best": 1}
    assert model["versions"][0]["run"] == "/".join(run.info.run_id.rsplit("-", 1))
    assert model["versions"][0]["path"] == f"models/{logged.model_id}"


def test_a_model_outside_of_a_run_gets_a_run(
    cluster: Cluster, client: MlflowClient, tmp_path: Path
) -> None:
    logged = log_model(tmp_path, 5)
    assert predict(logged.model_uri) == [5, 10]
    model = client.get_logged_model(logged.model_id)
    assert client.get_run(model.source_run_id).info.status == "FINISHED"
    client.set_logged_model_tags(logged.model_id, {"a/b": "1", "c": "2"})
    client.delete_logged_model_tag(logged.model_id, "a/b")
    assert client.get_logged_model(logged.model_id).tags["c"] == "2"
    assert "a/b" not in client.get_logged_model(logged.model_id).tags
    registered = mlflow.register_model(logged.model_uri, "fives")
    client.delete_logged_model(logged.model_id)
    with pytest.raises(MlflowException):
        client.get_logged_model(logged.model_id)
    assert predict(f"models:/fives/{registered.version}") == [5, 10]


def test_models_and_versions_are_changed_and_searched(client: MlflowClient) -> None:
    for name in ("alpha", "beta"):
        client.create_registered_model(name, tags={"team": name}, description="first")
        for number in range(3):
            client.create_model_version(name, f"s3://bucket/{name}/{number}")
    with pytest.raises(MlflowException) as again:
        client.create_registered_model("alpha")
    assert again.value.error_code == "RESOURCE_ALREADY_EXISTS"
    client.update_registered_model("alpha", "second")
    assert client.get_registered_model("alpha").description == "second"
    client.rename_registered_model("beta", "gamma")
    names = [one.name for one in client.search_registered_models(order_by=["name DESC"])]
    assert names == ["gamma", "alpha"]
    assert [
        one.name
        for one in client.search_registered_models("name LIKE 'al%' AND tags.team = 'alpha'")
    ] == ["alpha"]
    first = client.search_registered_models(max_results=1)
    rest = client.search_registered_models(max_results=1, page_token=first.token)
    assert [first[0].name, rest[0].name] == ["alpha", "gamma"] and not rest.token
    client.set_model_version_tag("gamma", "2", "checked", "yes")
    client.update_model_version("gamma", "2", "tested")
    versions = client.search_model_versions("name = 'gamma' AND tags.checked = 'yes'")
    assert [(one.version, one.description) for one in versions] == [("2", "tested")]
    assert client.get_model_version_download_uri("gamma", "2") == "s3://bucket/beta/1"
    client.delete_model_version_tag("gamma", "2", "checked")
    assert client.get_model_version("gamma", "2").tags == {}
    client.set_registered_model_tag("gamma", "team", "vision")
    client.delete_registered_model_tag("gamma", "team")
    assert client.get_registered_model("gamma").tags == {}
    client.set_registered_model_alias("gamma", "best", "3")
    assert client.get_model_version_by_alias("gamma", "best").version == "3"
    client.delete_registered_model_alias("gamma", "best")
    with pytest.raises(MlflowException, match="no alias best"):
        client.get_model_version_by_alias("gamma", "best")
    client.transition_model_version_stage("gamma", "1", "Production")
    client.transition_model_version_stage("gamma", "2", "production", True)
    stages = {one.version: one.current_stage for one in client.get_latest_versions("gamma")}
    assert stages == {"1": "Archived", "2": "Production", "3": "None"}
    client.delete_model_version("gamma", "3")
    client.delete_registered_model("alpha")
    with pytest.raises(MlflowException) as gone:
        client.get_registered_model("alpha")
    assert gone.value.error_code == "RESOURCE_DOES_NOT_EXIST"


def test_the_data_of_a_run_is_in_the_lineage_of_its_model(
    cluster: Cluster, client: MlflowClient, tmp_path: Path
) -> None:
    data = mlflow.data.from_pandas(pd.DataFrame({"x": [1]}), name="wiki", source="s3://wiki")
    with mlflow.start_run() as run:
        mlflow.log_input(data, context="training")
        log_model(tmp_path, 2, registered_model_name="times")
    (used,) = client.get_run(run.info.run_id).inputs.dataset_inputs
    assert (used.dataset.name, used.tags[0].value) == ("wiki", "training")
    (version,) = json.loads(cluster.ok("model", "show", "times", "--json"))["versions"]
    assert version["data_set"] == f"wiki ({data.digest})"
