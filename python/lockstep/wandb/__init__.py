"""In the place of `wandb` for a script of a run: ``import lockstep.wandb as wandb``.

With ``lockstep run --wandb``, ``import wandb`` finds it, in scripts and libraries as they are.
Numbers become metrics of Lockstep. Values that it does not keep yet, such as images and artifacts,
are written into the folder `wandb-files` of the run's checkpoint folder. A call that is missing
raises AttributeError with its name. docs/guide/wandb.md lists the calls.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lockstep._run_files import warn_once
from lockstep.wandb._artifact import Artifact
from lockstep.wandb._config import CommError, Config, Error, Summary, UsageError
from lockstep.wandb._media import Audio, Histogram, Html, Image, Table, Video
from lockstep.wandb._run import Run, chosen_mode, config_of
from lockstep.wandb._stand_in import RunDisabled, take_place

__version__ = "0.21.0"  # of wandb, whose calls these are

run: Run | None = None
_said: set[str] = set()


class _BeforeInit:
    """wandb.config and wandb.summary while there is no run."""

    def __init__(self, name: str) -> None:
        object.__setattr__(self, "_name", name)

    def _refuse(self, *_: Any) -> Any:
        raise Error(f"wandb.{self._name}: call wandb.init() first")

    __getitem__ = __setitem__ = __setattr__ = __contains__ = __iter__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self._refuse()


config: Any = _BeforeInit("config")
summary: Any = _BeforeInit("summary")


class AlertLevel:
    INFO, WARN, ERROR = "INFO", "WARN", "ERROR"


class Settings:
    """Settings of wandb's own service, which has no place here."""

    def __init__(self, **named: Any) -> None:
        self.__dict__.update(named)


def init(
    entity: str | None = None,
    project: str | None = None,
    dir: str | os.PathLike[str] | None = None,
    id: str | None = None,
    name: str | None = None,
    notes: str | None = None,
    tags: Sequence[str] | None = None,
    config: Any = None,
    config_exclude_keys: Sequence[str] | None = None,
    config_include_keys: Sequence[str] | None = None,
    group: str | None = None,
    job_type: str | None = None,
    mode: str | None = None,
    reinit: Any = None,
    settings: Any = None,
    **named: Any,
) -> Run:
    """The run that this rank belongs to. A second call returns the same one, with more config.

    Raises:
        TypeError, ValueError: the config or the mode is not as it must be.
    """
    global run
    values = config_of(config, config_include_keys, config_exclude_keys)
    _warn_of_ignored(settings, named)
    if run is not None and reinit not in (True, "finish_previous", "create_new"):
        run.config.update(values, allow_val_change=True)
        return run
    finish()
    run = Run(
        {
            "entity": entity,
            "project": project or os.environ.get("WANDB_PROJECT"),
            "dir": dir,
            "id": id,
            "name": name or os.environ.get("WANDB_NAME"),
            "notes": notes,
            "tags": tags,
            "config": values,
            "group": group,
            "job_type": job_type,
        },
        is_disabled=chosen_mode(mode) == "disabled",
        ended=_forget,
    )
    globals().update(config=run.config, summary=run.summary)
    return run


# Arguments of init that name a place or a manner of wandb's service: nothing is lost without them.
_OF_SERVICE = {"allow_val_change", "anonymous", "force", "resume", "save_code"}


def _warn_of_ignored(settings: Any, named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        if value and name not in _OF_SERVICE:
            warn_once(f"wandb.init({name}=...)", "it has no effect under Lockstep")
    given = settings if isinstance(settings, Mapping) else getattr(settings, "__dict__", {})
    if given:
        warn_once(
            "wandb.Settings",
            f"{', '.join(sorted(map(str, given)))}: settings have no effect under Lockstep; give "
            "init() its arguments, such as mode=",
        )


def finish(exit_code: int | None = None, quiet: bool | None = None) -> None:
    """Sends what waits, and writes the files. The rank goes on."""
    if run is not None:
        run.finish(exit_code, quiet)


def _forget(ended: Run) -> None:
    global run
    if run is ended:
        run = None
        globals().update(config=_BeforeInit("config"), summary=_BeforeInit("summary"))


def _own(call: str) -> Run:
    if run is None:
        raise Error(f"wandb.{call}: call wandb.init() first")
    return run


def log(
    data: Mapping[str, Any], step: int | None = None, commit: bool | None = None, **named: Any
) -> None:
    """As Run.log."""
    _own("log").log(data, step, commit)


def define_metric(name: str, *arguments: Any, **named: Any) -> Any:
    """As Run.define_metric."""
    return _own("define_metric").define_metric(name, *arguments, **named)


def save(glob_str: str | os.PathLike[str], *arguments: Any, **named: Any) -> list[str]:
    """As Run.save."""
    return _own("save").save(glob_str, *arguments, **named)


def log_artifact(artifact_or_path: Any, *arguments: Any, **named: Any) -> Artifact:
    """As Run.log_artifact."""
    return _own("log_artifact").log_artifact(artifact_or_path, *arguments, **named)


def use_artifact(artifact_or_name: Any, *arguments: Any, **named: Any) -> Artifact:
    """As Run.use_artifact."""
    return _own("use_artifact").use_artifact(artifact_or_name, *arguments, **named)


def watch(*arguments: Any, **named: Any) -> None:
    """Says once that gradients are not recorded."""
    _own("watch").watch(*arguments, **named)


def unwatch(models: Any = None) -> None:
    """Nothing is watched."""


def alert(title: str, text: str = "", level: Any = None, wait_duration: Any = None) -> None:
    """An event of the run."""
    _own("alert").alert(title, text, level, wait_duration)


def login(*arguments: Any, **named: Any) -> bool:
    """Nothing is to be done: a rank of a run needs no account of wandb."""
    return True


def setup(settings: Any = None) -> None:
    """Nothing is to be done."""


def require(requirement: Any = None, *arguments: Any) -> None:
    """Nothing is to be done."""


def termlog(string: str = "", newline: bool = True, repeat: bool = True) -> None:
    """A line on standard error; with repeat=False once."""
    if repeat or string not in _said:
        _said.add(string)
        print(f"wandb: {string}", file=sys.stderr, flush=True)


termwarn = termerror = termlog


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    hint = {
        "Api": "; lockstep.runs() reads runs",
        "sweep": "; submit a run for each setting",
        "agent": "; submit a run for each setting",
        "plot": "; log the numbers, or a figure as wandb.Image",
    }.get(name, "")
    raise AttributeError(f"lockstep.wandb has no wandb.{name}{hint}")


atexit.register(finish)

__all__ = [
    "AlertLevel",
    "Artifact",
    "Audio",
    "CommError",
    "Config",
    "Error",
    "Histogram",
    "Html",
    "Image",
    "Run",
    "RunDisabled",
    "Settings",
    "Summary",
    "Table",
    "UsageError",
    "Video",
    "alert",
    "config",
    "define_metric",
    "finish",
    "init",
    "log",
    "log_artifact",
    "login",
    "require",
    "run",
    "save",
    "setup",
    "summary",
    "take_place",
    "termerror",
    "termlog",
    "termwarn",
    "unwatch",
    "use_artifact",
    "watch",
]
