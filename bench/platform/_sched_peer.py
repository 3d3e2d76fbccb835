"""A plain simulator of first come, first served and of EASY backfilling, best fit.

The peer of `lockstep sim` in speed, and a check that shares nothing with it: it reads the trace,
places and orders jobs on its own, and examines all of them again each second. Times are seconds
since the first submission; a job needs `devices`, on one host if they fit there, else on whole
hosts and a rest on one more, all in one pod.
"""

from __future__ import annotations

import csv
import hashlib
import heapq
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby
from pathlib import Path

Places = dict[int, int]  # devices by host


@dataclass
class Job:
    number: int
    submitted: int
    duration: int
    devices: int
    started: int = -1
    places: Places | None = None

    @property
    def ends(self) -> int:
        return self.started + self.duration


def read_trace(path: Path) -> list[Job]:
    """Microsoft's Philly trace, as Pollux published it: by time, then by row."""
    with path.open() as file:
        rows = list(csv.DictReader(file))
    times = [datetime.fromisoformat(row["timestamp"]) for row in rows]
    order = sorted(range(len(rows)), key=lambda row: (times[row], row))
    return [
        Job(
            number,
            int((times[row] - times[order[0]]).total_seconds()),
            int(float(rows[row]["duration"])),
            int(rows[row]["num_gpus"]),
        )
        for number, row in enumerate(order)
    ]


class Cluster:
    """Which hosts have how many devices free."""

    def __init__(self, hosts: int, devices: int, pod: int) -> None:
        self.devices = devices
        self.free = [devices] * hosts
        self.pods = [range(first, min(first + pod, hosts)) for first in range(0, hosts, pod)]
        self.empty = [len(pod) for pod in self.pods]  # hosts of each pod of which nothing is held
        self.pod_of = [number for number, pod in enumerate(self.pods) for _ in pod]

    def copy(self) -> Cluster:
        other = object.__new__(Cluster)
        other.devices, other.pods, other.pod_of = self.devices, self.pods, self.pod_of
        other.free, other.empty = self.free.copy(), self.empty.copy()
        return other

    def change(self, places: Places, sign: int) -> None:
        for host, devices in places.items():
            self.empty[self.pod_of[host]] -= self.free[host] == self.devices
            self.free[host] += sign * devices
            self.empty[self.pod_of[host]] += self.free[host] == self.devices

    def take(self, places: Places) -> None:
        self.change(places, -1)

    def release(self, places: Places) -> None:
        self.change(places, 1)

    def place(self, devices: int) -> Places | None:
        """The hosts for a job of that size now; none if it does not fit."""
        if devices < self.devices:
            return self.place_on_one(devices)
        whole, rest = divmod(devices, self.devices)
        chosen = [
            (self.empty[number], number, places)
            for number, pod in enumerate(self.pods)
            if self.empty[number] >= whole and (places := self.place_in(pod, whole, rest))
        ]
        return min(chosen)[2] if chosen else None

    def place_on_one(self, devices: int) -> Places | None:
        fitting = [
            (free, self.empty[self.pod_of[host]], host)
            for host, free in enumerate(self.free)
            if free >= devices
        ]
        return {min(fitting)[2]: devices} if fitting else None

    def place_in(self, pod: range, whole: int, rest: int) -> Places | None:
        empty = [host for host in pod if self.free[host] == self.devices]
        places = dict.fromkeys(empty[:whole], self.devices)
        if rest == 0:
            return places
        used = [(free, host) for host in pod if rest <= (free := self.free[host]) < self.devices]
        host = min(used)[1] if used else next(iter(empty[whole:]), None)
        return None if host is None else places | {host: rest}


class Simulation:
    def __init__(self, jobs: list[Job], cluster: Cluster, *, backfill: bool) -> None:
        self.arrivals = [(second, list(group)) for second, group in by_second(jobs)]
        self.arrivals.reverse()  # the next one last
        self.cluster = cluster
        self.backfill = backfill
        self.queue: list[Job] = []
        self.running: list[tuple[int, int, Job]] = []  # by end, a heap

    def run(self) -> None:
        while self.arrivals or self.running:
            now = min(
                [run[0] for run in self.running[:1]] + [come[0] for come in self.arrivals[-1:]]
            )
            while self.running and self.running[0][0] == now:
                self.cluster.release(held(heapq.heappop(self.running)[2]))
            if self.arrivals and self.arrivals[-1][0] == now:
                self.queue += self.arrivals.pop()[1]
            self.decide(now)

    def start(self, job: Job, places: Places, now: int) -> None:
        job.started, job.places = now, places
        self.cluster.take(places)
        heapq.heappush(self.running, (job.ends, job.number, job))

    def decide(self, now: int) -> None:
        started = 0
        while started < len(self.queue):
            places = self.cluster.place(self.queue[started].devices)
            if places is None:
                break
            self.start(self.queue[started], places, now)
            started += 1
        del self.queue[:started]
        if self.queue and self.backfill:
            self.start_backfill(now)

    def start_backfill(self, now: int) -> None:
        """Starts jobs that end before the head can start, or that leave it its devices then."""
        head = self.queue[0].devices
        shadow, then = self.earliest_start(head)
        too_large = sys.maxsize  # where that many do not fit on one host, nor do more
        waiting = self.queue[:1]
        for job in self.queue[1:]:
            places = self.cluster.place(job.devices) if job.devices < too_large else None
            if places is None:
                if job.devices <= self.cluster.devices:
                    too_large = min(too_large, job.devices)
            elif now + job.duration > shadow:
                then.take(places)
                if then.place(head) is None:
                    then.release(places)
                    places = None
            if places is None:
                waiting.append(job)
            else:
                self.start(job, places, now)
        self.queue = waiting

    def earliest_start(self, head: int) -> tuple[int, Cluster]:
        then = self.cluster.copy()
        for end, ending in groupby(
            sorted(self.running, key=lambda run: run[:2]), lambda run: run[0]
        ):
            for _, _, job in ending:
                then.release(held(job))
            if then.place(head) is not None:
                return end, then
        raise ValueError(f"no {head} devices fit into the empty cluster")


def by_second(jobs: list[Job]) -> Iterator[tuple[int, Iterator[Job]]]:
    return groupby(jobs, lambda job: job.submitted)


def held(job: Job) -> Places:
    assert job.places is not None
    return job.places


def simulate(
    jobs: list[Job], policy: str, hosts: int, devices: int, pod: int
) -> tuple[int, int, str]:
    """Runs the jobs and records their starts: the sums of starts and ends, and the digest."""
    Simulation(jobs, Cluster(hosts, devices, pod), backfill=policy == "easy").run()
    starts, ends = [job.started for job in jobs], [job.ends for job in jobs]
    words = ";".join(",".join(map(str, seconds)) for seconds in (starts, ends))
    return sum(starts), sum(ends), hashlib.sha256(words.encode()).hexdigest()[:12]
