"""In the place of `horovod`, for PyTorch: ``import lockstep.horovod.torch as hvd``.

With ``lockstep run --horovod``, ``import horovod.torch`` finds it: scripts stay as they are.
docs/guide/horovod.md lists the calls, docs/design/horovod.md says how they work.
"""

from lockstep.horovod._stand_in import take_place

__version__ = "0.28.1"  # of horovod, whose calls these are

__all__ = ["take_place"]
