"""A share of the tests of distributed operations that torch ships, over our backend.

`./dev bench torch_suite` runs all of them, over Gloo too. These show what the other tests here do
not: torch's own expectations of errors, names, profiler events, objects and groups.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "bench/comm"))

from _torch_suite.outcomes import run

RANKS = 4
TESTS = [
    "test_Backend_enum_class",
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_all_gather_coalesced_complex",
    "test_all_reduce_coalesced_sum",
    "test_all_reduce_complex_unsupported_ops",
    "test_all_reduce_sum_async",
    "test_all_to_all_single_unequal_split_complex",
    "test_barrier_timeout_full_group",
    "test_barrier_timeout_global",
    "test_ddp_logging_data_cpu",
    "test_gather_object_subgroup",
    "test_get_future",
    "test_isend_torch_profiler",
    "test_monitored_barrier_gloo",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_send_recv_any_source_autograd_profiler",
    "test_sparse_all_reduce_sum",
    "test_static_graph_api_cpu",
]


def test_a_share_of_torchs_own_tests_passes(backend: str) -> None:
    if backend != "lockstep":
        pytest.skip("of the backend lockstep only")
    outcomes = list(run(backend, RANKS, TESTS))
    assert [one.test for one in outcomes] == TESTS
    assert [f"{one.test}: {one.reason}" for one in outcomes if one.outcome != "passed"] == []
