"""The parameters of a run, as its command and its `config.json` have them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FOLDER = "wandb-files"  # of the checkpoint folder; lockstep.wandb writes it
CONFIG = "config.json"
_OPTION = re.compile(r"--?([A-Za-z][\w.-]*)(?:=(.*))?", re.DOTALL)
_SETTING = re.compile(r"\+{0,2}([A-Za-z_][\w./@-]*)=(.*)", re.DOTALL)
_NUMBER = re.compile(r"-?[\d.]")


def parameters_of(view: Mapping[str, Any]) -> dict[str, Any]:
    """By name. Values of the command are strings, numbers or True; those of `config.json` win."""
    return of_command(view["spec"]["command"]) | _of_folder(view.get("checkpoint_folder") or "")


def of_command(words: Sequence[str]) -> dict[str, Any]:
    """`--lr 0.1`, `--lr=0.1`, `--fp16` and Hydra's `model.lr=0.1`."""
    found: dict[str, Any] = {}
    open_option = ""  # the next word may be its value
    for word in words:
        is_value = open_option and (not word.startswith("-") or _NUMBER.match(word))
        option = None if is_value else _OPTION.fullmatch(word)
        setting = None if is_value or option else _SETTING.fullmatch(word)
        if is_value:
            found[open_option] = _value(word)
            open_option = ""
            continue
        open_option = ""
        if option and option[2] is not None:
            found[option[1]] = _value(option[2])
        elif option:
            found[option[1]] = True
            open_option = option[1]
        elif setting:
            found[setting[1]] = _value(setting[2])
    return found


def _of_folder(folder: str) -> dict[str, Any]:
    """Empty if there is none, or if its host's disk is not this one's."""
    if not folder:
        return {}
    try:
        read = json.loads((Path(folder) / FOLDER / CONFIG).read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _value(word: str) -> Any:
    for number in (int, float):
        try:
            return number(word)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(word.lower(), word)
