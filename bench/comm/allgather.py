"""All-gather in a host: Lockstep, Open MPI, MPICH and Gloo take turns."""

from _contest.contest import FULL_PACE, SIZES, hold, read_arguments

if __name__ == "__main__":
    hold("allgather", ["all_gather"], read_arguments(__doc__, SIZES, FULL_PACE))
