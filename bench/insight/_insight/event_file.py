"""event_file.py FOLDER POINTS: an event file with a series of so many points, by TensorBoard."""

from __future__ import annotations

import sys

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter


def main() -> None:
    writer = EventFileWriter(sys.argv[1], max_queue_size=10_000)
    for step in range(int(sys.argv[2])):
        value = Summary.Value(tag="loss", simple_value=1 + step % 977 / 977)
        writer.add_event(Event(wall_time=step, step=step, summary=Summary(value=[value])))
    writer.close()


if __name__ == "__main__":
    main()
