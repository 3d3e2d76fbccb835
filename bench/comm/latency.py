"""Small collectives in a host, 8 B to 4 KiB, in many rounds: Lockstep, Open MPI, MPICH, Gloo."""

from _contest.contest import LATENCY_PACE, LATENCY_SIZES, hold, read_arguments

COLLECTIVES = ["all_reduce", "reduce_scatter", "all_gather"]

if __name__ == "__main__":
    hold("latency", COLLECTIVES, read_arguments(__doc__, LATENCY_SIZES, LATENCY_PACE))
