"""The contest of collectives: Lockstep, Open MPI, MPICH and Gloo take turns in one run."""
