"""Labels that the program gives to its collectives."""

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def label(name: str) -> Iterator[None]:
    """Labels the communication of this thread meanwhile, such as ``label("layers.7")``.

    The name, cut to 24 bytes, is in the flight record, in the output of ``lockstep flight`` and in
    the errors of all ranks: "rank 1 has not entered #811 all_gather(layers.7, 4.0 MiB)". An inner
    label replaces an outer one. FSDP2's units and ``torch.profiler.record_function`` name theirs
    without it, and it may be used inside them.

    The first use imports torch.
    """
    # Not at the top: importing this package imports no torch.
    from lockstep._compiled import communication

    lockstep = communication()
    outer = lockstep.set_label(name.encode())
    try:
        yield
    finally:
        lockstep.set_label(outer)
