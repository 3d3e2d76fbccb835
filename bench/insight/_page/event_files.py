"""event_files.py FOLDER RUNS METRICS POINTS: TensorBoard's files of runs, a folder for each."""

from __future__ import annotations

import sys
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def main() -> None:
    folder = Path(sys.argv[1])
    runs, metrics, points = map(int, sys.argv[2:])
    names = [f"group{metric % 5}/metric{metric}" for metric in range(metrics)]
    for run in range(runs):
        writer = EventFileWriter(str(folder / f"run{run:05}"))
        for step in range(points):
            value = 1 + step % 977 / 977
            values = [Summary.Value(tag=name, simple_value=value) for name in names]
            writer.add_event(Event(wall_time=step, step=step, summary=Summary(value=values)))
        writer.close()


if __name__ == "__main__":
    main()
