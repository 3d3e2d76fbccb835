"""wandb.run: the run that this rank belongs to, with the calls of wandb's Run."""

from __future__ import annotations

import glob
import numbers
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lockstep._report as report
from lockstep._metrics_queue import is_device_tensor
from lockstep._run_files import (
    append_json,
    files_folder,
    inside,
    is_first_start,
    keep_parameters,
    read_json,
    training_goes_on,
    warn_once,
    write_json,
)
from lockstep.wandb._artifact import Artifact, find_artifact, set_place
from lockstep.wandb._config import Config, Summary, as_mapping
from lockstep.wandb._media import Histogram, Media, Table
from lockstep.wandb._metrics import Definitions

_WRITE_EVERY = 1.0  # seconds between writes of the summary
_KEPT = "is written to a file, and no page of Lockstep shows it"
_EXACT_MAX = 32  # values of an array that are kept as they are; wandb has the same limit

_next_steps: dict[str, int] = {}  # of runs that ended in this process, by the id of the rank's run


class Run:
    """The result of ``wandb.init``.

    Attributes:
        id, name, project, entity, group, job_type, tags, notes: as they were given, or of the run.
        dir: the folder `wandb-files`.
        step: the step of the next ``log`` without one.
        resumed: an earlier attempt of the run has logged; the count of steps goes on after it.
    """

    def __init__(
        self,
        options: Mapping[str, Any],
        is_disabled: bool = False,
        ended: Callable[[Run], None] = lambda _: None,
    ) -> None:
        """
        Args:
            ended: called once with this object, when it is finished.
        """
        self._ended = ended
        self._is_finished = False
        own = os.environ.get("LOCKSTEP_RUN", "")
        self.id: str = own.replace("/", "-") or str(options.get("id") or "local")
        self.name: str = str(options.get("name") or own or "local")
        self.project: str = str(options.get("project") or own.partition("/")[0] or "default")
        self.entity: str = str(options.get("entity") or "")
        self.group: str = str(options.get("group") or "")
        self.job_type: str = str(options.get("job_type") or "")
        self.tags = tuple(options.get("tags") or ())
        self.notes: str | None = options.get("notes")
        self.path = f"{self.project}/{self.id}"
        self.url: str | None = None
        self.start_time = time.time()
        self.disabled = is_disabled
        folder = options.get("dir") or os.environ.get("WANDB_DIR")
        set_place(folder, is_disabled)
        self._folder = files_folder(folder)
        self.dir = str(self._folder)
        self._row: dict[str, Any] = {}  # logged with commit=False
        self._files = 0
        self._live: dict[tuple[str, Path], None] = {}  # patterns of files that may change, bases
        self._definitions = Definitions()
        self._written = 0.0
        before = self._of_earlier_attempt()
        self.resumed = bool(before)
        self.step = self.starting_step = int(before.pop("_step", -1)) + 1
        if not is_disabled and _next_steps.get(own):
            self._go_on_at(_next_steps[own])
        self._sent = self.step - 1  # the step of the last row
        self.config = Config(self._write_config)
        self.summary = Summary(self._write_summary_sometimes)
        self.summary.update(before)
        if not is_disabled:
            self.config.update(options.get("config"))
            self._write_info()

    def _of_earlier_attempt(self) -> dict[str, Any]:
        if is_first_start() or self.disabled:
            return {}
        return read_json(self._folder / "summary.json")

    def _go_on_at(self, step: int) -> None:
        """Not at 0 again: a value for the same metric, rank and step replaces the one before."""
        self.step = self.starting_step = max(self.step, step)
        warn_once(
            "wandb.init",
            "this process has finished a run of wandb, and its rank belongs to one run: the count "
            f"of steps goes on at {self.step}. A value with a step= that was used before replaces "
            "the earlier one",
        )

    def __enter__(self) -> Run:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        self.finish(exit_code=0 if kind is None else 1)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"lockstep.wandb: wandb.Run has no '{name}' under Lockstep")

    # --- Values ---

    def log(
        self,
        data: Mapping[str, Any],
        step: int | None = None,
        commit: bool | None = None,
        **named: Any,
    ) -> None:
        """Logs a row: numbers as metrics of Lockstep, others as files.

        Args:
            data: by name. Mappings in it are flattened to names such as "train.loss".
            step: where the count of steps goes on.
            commit: False keeps the row for the next ``log``, which sends it at its own step if it
                moves the count. By default a row without step is committed, and with one it is
                not, but its values are sent at once either way.

        Raises:
            TypeError: data is no mapping.
            ValueError: the step is negative.
        """
        if not isinstance(data, Mapping):
            raise TypeError(f"wandb.log: expected a mapping of names to values, got {data!r}")
        if step is not None and int(step) < 0:
            raise ValueError(f"wandb.log: step must not be negative, got {step}")
        if self.disabled:
            return
        if step is not None and int(step) > self.step and self._row:
            row, self._row = self._row, {}
            self._send(row)
        row = self._row | _flat(data)
        self._row = {}
        if step is not None:
            self.step = int(step)
            commit = bool(commit)
        elif commit is False:
            self._row = {name: _held(value) for name, value in row.items()}
            return
        self._send(row)
        if step is None or commit:
            self.step += 1

    def _send(self, row: Mapping[str, Any]) -> None:
        scalars = {name: value for name, value in row.items() if _is_scalar(value)}
        steps = self._definitions.steps_of(scalars, self.step)
        for at in sorted(set(steps.values())):
            report.log({name: scalars[name] for name in scalars if steps[name] == at}, step=at)
        entries: dict[str, Any] = {}
        for name, value in scalars.items():
            entry = self._definitions.summarize(name, _kept(value), self.summary.get(name))
            if entry is not None:
                entries[name] = entry
        with training_goes_on("wandb.log"):
            for name in row.keys() - scalars.keys():
                entries[name] = self._keep(name, row[name], max(steps.values(), default=self.step))
        # Once at the end of the row, with the step of this row: a later attempt goes on after it.
        self._sent = self.step
        self.summary.update(entries)

    def _keep(self, name: str, value: Any, step: int) -> Any:
        """A value that is no number. Returns its entry in the summary."""
        self._logged: list[Any] = []
        shown = self._written_media(name, value, step)
        self._log_media(name, step)
        append_json(self._folder / "history.jsonl", {"_step": step, name: shown})
        return shown

    def _written_media(self, name: str, value: Any, step: int) -> Any:
        if isinstance(value, Artifact):
            self.log_artifact(value)
            return {"artifact": value.source_name}
        if isinstance(value, (list, tuple)) and any(isinstance(each, Media) for each in value):
            return [self._written_media(name, each, step) for each in value]
        if hasattr(value, "columns") and hasattr(value, "values") and hasattr(value, "shape"):
            value = Table(dataframe=value)
        elif _is_long(value):
            value = Histogram(value)
        if hasattr(value, "savefig"):
            from lockstep.wandb._media import Image

            value = Image(value)
        if isinstance(value, Media):
            kind = type(value).__name__
            warn_once(f"wandb.{kind}", f"{_KEPT}: {self._folder / 'media'}")
            self._files += 1
            self._logged.append(value.logged())
            base = inside(self._folder / "media", f"{_file_name(name)}-{step}-{self._files}")
            base.parent.mkdir(parents=True, exist_ok=True)
            return {"file": str(value.write(base).relative_to(self._folder)), "kind": kind}
        warn_once(
            "wandb.log", f"'{name}' is no number: it goes to {self._folder / 'history.jsonl'}"
        )
        return value

    def _log_media(self, name: str, step: int) -> None:
        """Images and histograms are also those of the run, where its agent or a folder takes
        them."""
        logged = [each for each in self._logged if each is not None]
        if logged and report.keeps_media():
            report.log({name: logged}, step=step)

    def define_metric(
        self,
        name: str,
        step_metric: Any = None,
        step_sync: bool | None = None,
        hidden: bool | None = None,
        summary: str | None = None,
        goal: str | None = None,
        overwrite: bool | None = None,
        **named: Any,
    ) -> Any:
        """Takes the step of a metric, or of all that match a name with *, from another metric."""
        of = getattr(step_metric, "name", step_metric)
        self._definitions.add(name, of, summary, goal)
        return _Metric(name)

    # --- Files ---

    def save(
        self,
        glob_str: str | os.PathLike[str],
        base_path: str | os.PathLike[str] | None = None,
        policy: str = "live",
        **named: Any,
    ) -> list[str]:
        """Copies files now, and those that match and may have changed again at ``finish``.

        Raises:
            ValueError: the policy is not live, now or end, or a file is not below base_path.
        """
        if policy not in ("live", "now", "end"):
            raise ValueError(f"wandb.save: the policy is live, now or end, got {policy!r}")
        if self.disabled:
            return []
        pattern = os.path.abspath(glob_str)
        base = Path(base_path or os.path.dirname(pattern)).absolute()
        if not Path(pattern).is_relative_to(base):
            raise ValueError(f"wandb.save: {pattern} is not in the folder {base}")
        if policy != "now":
            self._live[pattern, base] = None
        copies = self._copies(pattern, base)
        if copies:
            warn_once("wandb.save", f"files are copied to {self._folder / 'files'}")
        else:
            when = "" if policy == "now" else "; those that match at the end are copied then"
            warn_once(f"wandb.save({str(glob_str)!r})", f"no file matches{when}")
        return copies

    def _copies(self, pattern: str, base: Path) -> list[str]:
        """The paths of the copies of all files that match now."""
        made = []
        for each in sorted(glob.glob(pattern)):
            if os.path.isfile(each):
                goal = self._goal_of(Path(each), base)
                with training_goes_on("wandb.save"):
                    _copy(Path(each), goal)
                    made.append(str(goal))
        return made

    def _goal_of(self, path: Path, base: Path) -> Path:
        return inside(self._folder / "files", str(path.relative_to(base)))

    def log_artifact(
        self,
        artifact_or_path: Artifact | str | os.PathLike[str],
        name: str | None = None,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        **named: Any,
    ) -> Artifact:
        """Keeps the artifact as the next version of its name."""
        artifact = artifact_or_path
        if not isinstance(artifact, Artifact):
            path = Path(artifact)
            artifact = Artifact(name or f"run-{self.id}-{path.name}", type or "unspecified")
            artifact.add_file(path)
        if self.disabled or artifact.version:
            return artifact
        goal = artifact.keep(self._folder / "artifacts", list(aliases or []))
        warn_once("wandb.log_artifact", f"{_KEPT}: {goal.parent}")
        return artifact

    def use_artifact(
        self,
        artifact_or_name: Artifact | str,
        type: str | None = None,
        aliases: Sequence[str] | None = None,
        **named: Any,
    ) -> Artifact:
        """
        Raises:
            ValueError: this run has no such artifact.
        """
        if isinstance(artifact_or_name, Artifact):
            return artifact_or_name
        return find_artifact(self._folder / "artifacts", artifact_or_name)

    # --- Others ---

    def watch(
        self,
        models: Any = None,
        criterion: Any = None,
        log: Any = "gradients",
        log_freq: int = 1000,
        idx: Any = None,
        log_graph: bool = False,
    ) -> None:
        warn_once(
            "wandb.watch", "gradients and parameters are not recorded; log what you need of them"
        )

    def unwatch(self, models: Any = None) -> None:
        """Nothing is watched."""

    def alert(
        self, title: str, text: str = "", level: Any = None, wait_duration: Any = None
    ) -> None:
        """An event of the run."""
        if not self.disabled:
            words = " ".join(f"{title}: {text}".split()) if text else " ".join(title.split())
            report.event(words or "alert")

    def get_url(self) -> None:
        """There is no address of wandb."""

    def mark_preempting(self) -> None:
        """Lockstep knows it."""

    def _label(self, *arguments: Any, **named: Any) -> None:
        """Transformers names itself by it."""

    def finish(self, exit_code: int | None = None, quiet: bool | None = None) -> None:
        """Sends what waits, and writes the files. Further calls do nothing."""
        if self._is_finished:
            return
        self._is_finished = True
        if not self.disabled:
            self._finish()
        self._ended(self)

    def _finish(self) -> None:
        if self._row:
            self.log({}, commit=True)
        for pattern, base in self._live:
            self._copies(pattern, base)
        self._write_info()  # the script may have set run.name or run.notes
        self._write_summary()
        _next_steps[os.environ.get("LOCKSTEP_RUN", "")] = self._sent + 1

    def _write_info(self) -> None:
        names = ("id", "name", "project", "entity", "group", "job_type", "tags", "notes")
        with training_goes_on("wandb.init"):
            write_json(self._folder / "run.json", {name: getattr(self, name) for name in names})

    def _write_config(self) -> None:
        """Over that of earlier attempts."""
        if self.disabled:
            return
        keep_parameters(self.config.as_dict(), self._folder)

    def _write_summary_sometimes(self) -> None:
        if not self.disabled and time.monotonic() >= self._written + _WRITE_EVERY:
            self._write_summary()

    def _write_summary(self) -> None:
        self._written = time.monotonic()
        values = self.summary.as_dict() | {"_step": self._sent}
        with training_goes_on("wandb.summary"):
            write_json(self._folder / "summary.json", values)


class _Metric:
    def __init__(self, name: str) -> None:
        self.name = name


def _flat(data: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in data.items():
        whole = f"{before}{name}"
        if isinstance(value, Mapping) and value:
            flat |= _flat(value, f"{whole}.")
        else:
            flat[whole] = value
    return flat


def _is_scalar(value: Any) -> bool:
    if isinstance(value, numbers.Real) or (is_device_tensor(value) and value.numel() == 1):
        return True
    if isinstance(value, (str, bytes, Media, Artifact)) or not hasattr(value, "item"):
        return False
    size = value.numel() if hasattr(value, "numel") else getattr(value, "size", 0)
    return size == 1 and isinstance(value.item(), numbers.Real)


def _kept(value: Any) -> Any:
    """A number that no later change of a tensor reaches. That of a device is not waited for."""
    if is_device_tensor(value):
        return value.detach().clone()
    return value.item() if hasattr(value, "item") else value


def _held(value: Any) -> Any:
    """A value that waits for the next row: a copy, because the program may change its own."""
    if _is_scalar(value):
        return _kept(value)
    if hasattr(value, "detach"):
        return value.detach().clone()
    return value.copy() if hasattr(value, "shape") and hasattr(value, "copy") else value


def _is_long(value: Any) -> bool:
    """An array of numbers that becomes a histogram. wandb keeps shorter ones as they are."""
    if not hasattr(value, "shape") or getattr(value, "ndim", 0) == 0:
        return False
    size = value.numel() if hasattr(value, "numel") else value.size
    kind = getattr(getattr(value, "dtype", None), "kind", "f")  # tensors have only numbers
    return size > _EXACT_MAX and kind in "biuf"


def _file_name(name: str) -> str:
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in name) or "value"


def _copy(path: Path, goal: Path) -> None:
    goal.parent.mkdir(parents=True, exist_ok=True)
    if path.resolve() == goal.resolve():
        return
    part = goal.with_name(f".{goal.name}.{os.getpid()}.tmp")
    try:
        shutil.copyfile(path, part)
        part.replace(goal)  # at once: a program that is killed leaves the last copy whole
    finally:
        part.unlink(missing_ok=True)


def chosen_mode(mode: str | None, get: Callable[[str], str | None] = os.environ.get) -> str:
    """online or disabled.

    Raises:
        ValueError: it is no mode of wandb.
    """
    found = mode or get("WANDB_MODE") or "online"
    if (get("WANDB_DISABLED") or "").lower() in ("true", "1"):
        found = "disabled"
    if found not in ("online", "offline", "dryrun", "run", "shared", "disabled"):
        raise ValueError(f"wandb.init: the mode is online, offline or disabled, got {found!r}")
    return "disabled" if found == "disabled" else "online"


def config_of(
    config: Any, include: Sequence[str] | None, exclude: Sequence[str] | None
) -> dict[str, Any]:
    """
    Raises:
        TypeError: it is neither a mapping nor an argparse.Namespace.
        ValueError: both include and exclude are given.
    """
    if include and exclude:
        raise ValueError("wandb.init: give config_include_keys or config_exclude_keys, not both")
    if isinstance(config, (str, os.PathLike)):
        raise TypeError("wandb.init: config is a mapping here; read the file in the program")
    values = as_mapping(config)
    if include:
        return {name: value for name, value in values.items() if name in include}
    return {name: value for name, value in values.items() if name not in (exclude or ())}
