// All-reduce of sparse tensors, such as the gradients of embeddings with sparse=True: each rank
// gathers the entries of all ranks, and adds those of one index in the order of the ranks.
//
// All ranks first exchange how many entries they have, for which the caller waits, also in a call
// that is otherwise asynchronous. Then they gather indices and values, each rank as many rows as
// the rank with most entries has. So a rank receives, and holds until the call is done, the number
// of ranks times the largest number of entries.
#include <algorithm>
#include <cstdint>
#include <vector>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sparse_coo_tensor.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>

#include "comm/torch/backend.h"
#include "comm/torch/tensors.h"
#include "comm/torch/work.h"

namespace lockstep::comm {
namespace {

using Sizes = std::vector<std::int64_t>;

void check_sparse_sum(std::string_view what, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  TORCH_CHECK_TYPE(tensor.device().is_cpu(), what, " over lockstep takes tensors on the CPU, got ",
                   tensor.toString());
  TORCH_CHECK_TYPE(op.op_ == c10d::ReduceOp::SUM, what,
                   " over lockstep reduces sparse tensors by SUM only: use SUM, or to_dense()");
}

// The number of sparse dimensions and the size, which must be equal on all ranks.
Sizes form_of(const at::Tensor& tensor) {
  Sizes form{tensor.sparse_dim()};
  form.insert(form.end(), tensor.sizes().begin(), tensor.sizes().end());
  return form;
}

// The rows, and zeros until there are `count`.
at::Tensor with_rows(const at::Tensor& rows, std::int64_t count) {
  Sizes missing = rows.sizes().vec();
  missing.front() = count - rows.size(0);
  return at::cat({rows, rows.new_zeros(missing)});
}

at::Tensor empty_for_ranks(const at::Tensor& of_one, int ranks) {
  Sizes sizes = of_one.sizes().vec();
  sizes.insert(sizes.begin(), ranks);
  return at::empty(sizes, of_one.options());
}

// The first counts[r] rows of each rank r, one after the other.
at::Tensor joined(const at::Tensor& of_ranks, const Sizes& counts) {
  std::vector<at::Tensor> parts;
  for (std::size_t rank = 0; rank < counts.size(); ++rank)
    parts.push_back(of_ranks[static_cast<std::int64_t>(rank)].narrow(0, 0, counts[rank]));
  return at::cat(parts);
}

}  // namespace

std::vector<std::int64_t> Backend::exchange_entry_counts(std::string_view what,
                                                         const at::Tensor& tensor) {
  Sizes own = form_of(tensor);
  own.insert(own.begin(), tensor._nnz());
  const at::Tensor mine = at::tensor(own);
  const at::Tensor all = empty_for_ranks(mine, size_);
  const auto gathered = communicator()->all_gather(bytes(mine), bytes(all), CallMode::blocking);
  if (const auto result = gathered.wait(); !result) raise_failure(result.error());
  for (int rank = 0; rank < size_; ++rank)
    TORCH_CHECK_VALUE(all[rank].slice(0, 1).equal(mine.slice(0, 1)), what, ": rank ",
                      members_.global_rank(rank), " has a sparse tensor of another size than rank ",
                      members_.global_rank(rank_), ": give all ranks tensors of one size");
  const at::Tensor counts = all.select(1, 0).contiguous();
  const auto* const first = counts.const_data_ptr<std::int64_t>();
  return {first, first + size_};
}

void Backend::add_sparse_all_reduce(CallParts& parts, const at::Tensor& tensor,
                                    const c10d::ReduceOp& op) {
  check_sparse_sum(parts.operation, tensor, op);
  const at::Tensor own = tensor.coalesce();
  const Sizes counts = exchange_entry_counts(parts.operation, own);
  const auto most = *std::max_element(counts.begin(), counts.end());
  const at::Tensor indices = with_rows(own.indices().t(), most);
  const at::Tensor values = with_rows(own.values(), most);
  const at::Tensor all_indices = empty_for_ranks(indices, size_);
  const at::Tensor all_values = empty_for_ranks(values, size_);
  add_all_gather(parts, all_indices, indices);
  add_all_gather(parts, all_values, values);
  parts.computations.push_back([=] {
    const auto sum = at::sparse_coo_tensor(joined(all_indices, counts).t(),
                                           joined(all_values, counts), tensor.sizes());
    tensor.copy_(sum.coalesce());
  });
  // The copy replaces these two, which may be Python's and then are not to be destroyed there.
  parts.memory.insert(parts.memory.end(), {tensor._indices(), tensor._values()});
  parts.outputs = {tensor};
}

}  // namespace lockstep::comm
