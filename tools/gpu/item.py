"""Runs one item, in this process: python -m gpu.item NAME KIND RESULT."""

from __future__ import annotations

import faulthandler
import importlib
import json
import sys
import traceback
from dataclasses import asdict
from pathlib import Path

from gpu.item_list import ITEMS, Item
from gpu.report import FAILED, PASSED, SKIPPED, Outcome, Skipped

COLUMNS_MAX = 300  # of what a failed item says; its log has all


def main() -> None:
    name, kind, result = sys.argv[1:]
    item = next(each for each in ITEMS if each.name == name)
    # The log of an item that hangs shows where.
    faulthandler.enable()
    faulthandler.dump_traceback_later(max(1, item.seconds - 5))
    outcome = run(item, kind)
    faulthandler.cancel_dump_traceback_later()
    Path(result).write_text(json.dumps(asdict(outcome)))


def run(item: Item, kind: str) -> Outcome:
    module, _, function = item.function.partition(":")
    try:
        if item.needs_torch:
            importlib.import_module("gpu.devices").prepare(kind)
        seen = getattr(importlib.import_module(f"gpu.items.{module}"), function)(kind)
        return Outcome(item.name, PASSED, seen.text, seen.numbers)
    except Skipped as reason:
        return Outcome(item.name, SKIPPED, str(reason))
    except BaseException as error:
        traceback.print_exc()
        return Outcome(item.name, FAILED, first_line(error))


def first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    if lines:
        kind = "" if isinstance(error, AssertionError) else f"{type(error).__name__}: "
        return f"{kind}{lines[0]}"[:COLUMNS_MAX]
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}: {last.line}"


if __name__ == "__main__":
    main()
