"""All-reduce in a host: Lockstep, Open MPI, MPICH and Gloo take turns; and through PyTorch."""

from _contest.contest import FULL_PACE, SIZES, hold, read_arguments


def main() -> None:
    plan = read_arguments(__doc__, SIZES, FULL_PACE)
    hold("allreduce", ["all_reduce"], plan)
    if plan.through_torch:
        from _through_torch import through_torch  # torch takes seconds, and not all cases need it

        through_torch(plan.quick)


if __name__ == "__main__":
    main()
