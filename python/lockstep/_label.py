"""What collectives are for, in the words of the program."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """Says what the communication of this thread is for meanwhile, such as ``label("layers.7")``.

    The name, cut to 24 bytes, stands in the flight record, in what ``lockstep flight`` shows and in
    the errors of all ranks: "rank 1 has not entered #811 all_gather(layers.7, 4.0 MiB)". Inside
    another it stands for that one. FSDP2's units and ``torch.profiler.record_function`` name theirs
    without it, and it may stand inside them.

    The first use imports torch.
    """
    # Not at the top: importing this package imports no torch.
    from lockstep.backend import compiled

    lockstep = compiled()
    outer = lockstep.set_label(name.encode())
    try:
        yield
    finally:
        lockstep.set_label(outer)
