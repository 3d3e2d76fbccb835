from collections.abc import Mapping, Set

class Lines:
    """Lines of reports that wait for the thread that sends them."""

    def __init__(self, limit: int) -> None: ...
    def put(self, values: object, step: object, names: Set[str]) -> bool:
        """Adds the line of these metrics, with the present time. False, and nothing is added:
        there are `limit` lines, they are not open, or one of these is something else than a dict of
        floats and ints, a step from 0 on, and names from `names`."""

    def add(self, line: bytes) -> None:
        """Adds a line with its end, beyond the limit, too."""

    def take(self) -> bytes:
        """All lines, which are then no longer here."""

    def set_open(self, is_open: bool) -> None:
        """For put(). They are closed at first."""

    def __len__(self) -> int: ...

def metrics_line(step: int, time_us: int, values: Mapping[str, float]) -> bytes:
    """The report of metrics as the agent takes it, with its line end."""
