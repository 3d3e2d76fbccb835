"""Prints the points a second that MLflow's client reaches with log_batch."""

from __future__ import annotations

import time

from mlflow import MlflowClient
from mlflow.entities import Metric

CALLS = 20
POINTS = 1000


def main() -> None:
    client = MlflowClient()
    run = client.create_run("0").info.run_id
    points = [
        [Metric("loss", 0.5, 0, call * POINTS + i) for i in range(POINTS)]
        for call in range(CALLS + 1)
    ]
    client.log_batch(run, metrics=points[0])  # the first one opens the connection
    begun = time.perf_counter()
    for batch in points[1:]:
        client.log_batch(run, metrics=batch)
    print(CALLS * POINTS / (time.perf_counter() - begun))


if __name__ == "__main__":
    main()
