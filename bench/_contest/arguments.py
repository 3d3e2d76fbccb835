"""The arguments of benchmarks between hosts: hosts, wires and sizes."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .between_hosts import Layout
from .contest import numbers_in, sizes_in
from .network import RATES, Network
from .rounds import Pace


@dataclass(frozen=True)
class Grid:
    """The default measurements, unless arguments choose others."""

    hosts: Sequence[int]
    ranks_a_host: Sequence[int]
    rates: Sequence[str]
    sizes: Sequence[int]
    pace: Pace


def parser_of(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--quick", action="store_true", help="a smoke test: few cases and rounds")
    parser.add_argument("--hosts", type=numbers_in, help="such as 2,4")
    parser.add_argument("--ranks-per-host", type=numbers_in, help="such as 1,2")
    parser.add_argument("--rate", help=f"of {', '.join(RATES)}, none; several: 1gbit,10gbit")
    parser.add_argument("--bytes", type=sizes_in, help="such as 8,64KiB,16MiB")
    parser.add_argument("--rounds", type=int, help="how often each takes its turn")
    return parser


def grid_in(
    parser: argparse.ArgumentParser, given: argparse.Namespace, full: Grid, quick: Grid
) -> Grid:
    """One of these layouts, with its sizes."""
    grid = quick if given.quick else full
    rates = given.rate.split(",") if given.rate else grid.rates
    hosts = given.hosts or grid.hosts
    if unknown := set(rates) - {*RATES, "none"}:
        parser.error(f"--rate: there is no {', '.join(sorted(unknown))}")
    if min(hosts) < 2 or max(hosts) > 200:
        parser.error("--hosts: 2 at least, 200 at most")
    pace = replace(grid.pace, rounds=given.rounds) if given.rounds else grid.pace
    ranks_a_host = given.ranks_per_host or grid.ranks_a_host
    return Grid(hosts, ranks_a_host, rates, given.bytes or grid.sizes, pace)


def layouts(grid: Grid) -> Iterator[Layout]:
    """All layouts of the grid, each with a network that lives until the next one."""
    for rate in grid.rates:
        for hosts in grid.hosts:
            with Network(hosts, RATES.get(rate)) as network:
                for ranks_a_host in grid.ranks_a_host:
                    yield Layout(network, ranks_a_host)
