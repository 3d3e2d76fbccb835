"""All-reduce of sparse tensors, and DDP with the sparse gradients of embeddings."""

from collections.abc import Callable

import pytest
import torch
import torch.distributed as dist
from ranks import Crew
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

SIZE = 4
SHAPES = [((6,), 1), ((6, 5), 1), ((6, 5), 2), ((4, 3, 2), 2)]  # size, sparse dimensions


def entries(rank: int, shape: tuple[int, ...], sparse_dims: int, dtype: torch.dtype) -> Tensor:
    """As many entries as the rank's number, so none on rank 0; some indices occur twice."""
    generator = torch.Generator().manual_seed(rank)
    indices = torch.stack(
        [torch.randint(0, size, (rank,), generator=generator) for size in shape[:sparse_dims]]
    )
    values = torch.randint(-8, 9, (rank, *shape[sparse_dims:]), generator=generator).to(dtype)
    return torch.sparse_coo_tensor(indices, values, shape)


def sums_equal_those_of_dense_tensors(rank: int) -> None:
    for shape, sparse_dims in SHAPES:
        for dtype in (torch.float32, torch.float64, torch.int64):
            tensor = entries(rank, shape, sparse_dims, dtype)
            all_of_them = [entries(peer, shape, sparse_dims, dtype) for peer in range(SIZE)]
            dist.all_reduce(tensor)
            assert tensor.is_coalesced()
            assert torch.equal(
                tensor.to_dense(), torch.stack([each.to_dense() for each in all_of_them]).sum(0)
            )
            # Only indices that a rank has are in the sum.
            indices = torch.cat([each._indices() for each in all_of_them], dim=1)
            assert torch.equal(tensor.indices(), indices.unique(dim=1))


def tensors_without_entries(rank: int) -> None:
    tensor = entries(0, (6, 5), 1, torch.float32)
    dist.all_reduce(tensor)
    assert tensor._nnz() == 0


def calls_without_a_wait_keep_their_order(rank: int) -> None:
    sparse, dense = entries(rank, (6, 5), 1, torch.float64), torch.ones(3)
    works = [dist.all_reduce(sparse, async_op=True), dist.all_reduce(dense, async_op=True)]
    for work in works:
        assert work is not None
        work.get_future().wait()
    expected = sum(entries(peer, (6, 5), 1, torch.float64).to_dense() for peer in range(SIZE))
    assert isinstance(expected, Tensor)
    assert torch.equal(sparse.to_dense(), expected)
    assert torch.equal(dense, torch.full((3,), float(SIZE)))


def calls_that_are_refused_leave_the_group_usable(rank: int) -> None:
    with pytest.raises(TypeError, match="SUM only"):
        dist.all_reduce(entries(rank, (6,), 1, torch.float32), dist.ReduceOp.MAX)
    with pytest.raises(ValueError, match="another size than rank"):
        dist.all_reduce(entries(1, (6 + rank // 3,), 1, torch.float32))
    dist.barrier()


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.embedding = nn.Embedding(20, 3, sparse=True)
        self.out = nn.Linear(3, 1)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.embedding(words)).square().mean()


def embeddings_with_sparse_gradients_learn_as_in_one_process(rank: int) -> None:
    words = torch.randint(0, 20, (3, SIZE, 8), generator=torch.Generator().manual_seed(2))
    alone, replica = Words(), DistributedDataParallel(Words())
    optimizers = [torch.optim.SGD(each.parameters(), lr=0.5) for each in (alone, replica)]
    for batch in words:
        for loss, optimizer in zip((alone(batch), replica(batch[rank])), optimizers, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    gradient = replica.module.embedding.weight.grad
    assert gradient is not None
    assert gradient.is_sparse
    for ours, expected in zip(replica.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(ours, expected)


OF_ANY_BACKEND = [
    sums_equal_those_of_dense_tensors,
    calls_without_a_wait_keep_their_order,
    embeddings_with_sparse_gradients_learn_as_in_one_process,
]


@pytest.mark.parametrize("body", OF_ANY_BACKEND)
def test_sparse(body: Callable[[int], None], crew: Crew) -> None:
    crew.run(body)


OURS = [tensors_without_entries, calls_that_are_refused_leave_the_group_usable]


@pytest.mark.parametrize("body", OURS)
def test_sparse_of_this_backend(body: Callable[[int], None], crew: Crew, backend: str) -> None:
    if backend != "lockstep":
        pytest.skip("of the backend lockstep only")
    crew.run(body)
