"""lockstep.log_artifact: a rank logs a file with its run."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import ssl
from pathlib import Path
from urllib.parse import quote, urlsplit

_RANK_TOKEN = "lsr_"
_TIMEOUT = 60.0  # seconds without a byte


def log_artifact(path: str | os.PathLike[str], name: str | None = None) -> None:
    """Stores a file, or a folder with all its files, as an artifact of this rank's run. Returns
    when the daemon has it. Another content of the same name replaces it.

    Args:
        path: of the file or folder.
        name: of the artifact, such as "plots/loss.png"; None: the file's own name.

    Raises:
        FileNotFoundError: there is no such file.
        RuntimeError: this process is no rank of `lockstep run`; ``lockstep.run(...).log_artifact``
            works everywhere.
        DaemonError: the daemon does not answer, or it refuses, such as a name with "..".
    """
    from lockstep._client.artifacts import files_below, upload
    from lockstep._client.daemon import chosen_daemon

    run = os.environ.get("LOCKSTEP_RUN")
    if not run:
        raise RuntimeError(
            "lockstep.log_artifact works in a rank of `lockstep run`; elsewhere use "
            "lockstep.run('demo/7').log_artifact(path)"
        )
    source = Path(path)
    if not source.exists():
        raise FileNotFoundError(f"there is no file {source}")
    artifact = name or source.resolve().name
    if not has_rank_token():
        upload(chosen_daemon(), run, source, artifact)
        return
    for file, each in files_below(source, artifact):
        _put(run, file, each)


def has_rank_token() -> bool:
    """This process is a rank whose agent gave it a token for its own run."""
    token = os.environ.get("MLFLOW_TRACKING_TOKEN", "")
    return "LOCKSTEP_RUN" in os.environ and token.startswith(_RANK_TOKEN)


def run_name(run: str) -> str:
    """The run's id for MLflow's API: "my__lab-7" for my_lab/7."""
    project, _, number = run.rpartition("/")
    return f"{project.replace('_', '__').replace('.', '_d')}-{number}"


def _put(run: str, path: Path, name: str) -> None:
    """By the rank's own token, as an MLflow client sends it."""
    from lockstep._client.daemon import DaemonError

    url = urlsplit(os.environ["MLFLOW_TRACKING_URI"])
    host, port = url.hostname or "", url.port
    if url.scheme == "https":
        authorities = os.environ.get("MLFLOW_TRACKING_SERVER_CERT_PATH")
        context = ssl.create_default_context(cafile=authorities)
        connection: http.client.HTTPConnection = http.client.HTTPSConnection(
            host, port, timeout=_TIMEOUT, context=context
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=_TIMEOUT)
    target = f"/api/2.0/mlflow-artifacts/artifacts/0/{run_name(run)}/artifacts/{quote(name)}"
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            headers = {
                "Authorization": f"Bearer {os.environ['MLFLOW_TRACKING_TOKEN']}",
                "Content-Length": str(size),
                "Content-Type": "application/octet-stream",
            }
            # The daemon may refuse before it has read all: its answer says why.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                connection.request("PUT", target, body=file, headers=headers)
            answer = connection.getresponse()
            body = answer.read(1 << 16)
    except (OSError, http.client.HTTPException) as error:
        raise DaemonError("unavailable", f"{name} cannot be stored: {error}") from None
    finally:
        connection.close()
    if answer.status == 200:
        return
    try:
        message = json.loads(body)["message"]
    except (ValueError, KeyError, TypeError):
        message = f"the status {answer.status}"
    raise DaemonError("invalid" if answer.status < 500 else "unavailable", f"{name}: {message}")
