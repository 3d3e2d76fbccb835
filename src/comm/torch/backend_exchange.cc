// What the backend makes of sends and receives: point to point, gather, scatter, all-to-all.
#include <numeric>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include "comm/torch/backend.h"
#include "comm/torch/tensors.h"

namespace lockstep {
namespace {

using Tensors = Backend::Tensors;

// One tag for each kind: a pair of ranks takes part in them in the same order on both sides.
enum OwnTag : int { kGather = Backend::kTagLimit, kScatter, kAllToAll };

void check_tag(std::string_view what, int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag < Backend::kTagLimit, what, " needs a tag from 0 to ",
                    Backend::kTagLimit - 1, ", got ", tag);
}

// The list that a root brings along: one tensor for each rank, like `example`.
Tensors& of_root(std::string_view what, std::vector<Tensors>& lists, int size,
                 const at::Tensor& example) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists.front().size() == static_cast<std::size_t>(size),
                    what, " needs one tensor for each of the ", size, " ranks on its root");
  for (const auto& tensor : lists.front())
    check_like(what, tensor, example.scalar_type(), example.numel());
  return lists.front();
}

// Rows of the tensor's first dimension for each rank: as given, or all alike.
std::vector<std::int64_t> rows_of(std::string_view what, const at::Tensor& tensor,
                                  const std::vector<std::int64_t>& given, int size) {
  TORCH_CHECK_VALUE(tensor.dim() > 0, what, " needs tensors of at least one dimension");
  const std::int64_t rows = tensor.size(0);
  if (given.empty()) {
    TORCH_CHECK_VALUE(rows % size == 0, what, ": ", rows, " rows do not divide among ", size,
                      " ranks; give the split sizes");
    return std::vector<std::int64_t>(static_cast<std::size_t>(size), rows / size);
  }
  TORCH_CHECK_VALUE(given.size() == static_cast<std::size_t>(size) &&
                        std::accumulate(given.begin(), given.end(), std::int64_t{0}) == rows,
                    what, " needs a split size for each of the ", size, " ranks, together ", rows);
  return given;
}

}  // namespace

void Backend::add_exchange(CallParts& parts, const Tensors& outputs, const Tensors& inputs,
                           int tag) {
  const auto communicator = this->communicator();
  // Starting with the next rank: if all began with rank 0, it would serve them one by one.
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const int from = (rank_ - step + size_) % size_;
    if (const auto& output = outputs[static_cast<std::size_t>(from)]; output.defined()) {
      const at::Tensor memory = dense_memory_for(output);
      parts.pendings.push_back(communicator->recv(bytes(memory), from, tag));
      parts.memory.push_back(memory);
      parts.copy(output, memory);
    }
    if (const auto& input = inputs[static_cast<std::size_t>(to)]; input.defined()) {
      const at::Tensor memory = input.contiguous();
      parts.pendings.push_back(communicator->send(bytes(memory), to, tag));
      parts.memory.push_back(memory);
    }
  }
  const auto self = static_cast<std::size_t>(rank_);
  if (outputs[self].defined() && inputs[self].defined())
    outputs[self].copy_(inputs[self].view_as(outputs[self]));
}

Backend::WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "gather"};
  check_root(parts.what, options.rootRank);
  const auto& input = the_only(parts.what, inputs);
  check_dense(parts.what, input);
  const auto ranks = static_cast<std::size_t>(size_);
  Tensors receives(ranks), sends(ranks);
  sends[static_cast<std::size_t>(options.rootRank)] = input;
  if (rank_ == options.rootRank)
    parts.outputs = receives = of_root(parts.what, outputs, size_, input);
  add_exchange(parts, receives, sends, kGather);
  return start(c10d::OpType::GATHER, options.timeout, std::move(parts));
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const c10d::ScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "scatter"};
  check_root(parts.what, options.rootRank);
  const auto& output = the_only(parts.what, outputs);
  check_dense(parts.what, output);
  const auto ranks = static_cast<std::size_t>(size_);
  Tensors receives(ranks), sends(ranks);
  receives[static_cast<std::size_t>(options.rootRank)] = output;
  if (rank_ == options.rootRank) sends = of_root(parts.what, inputs, size_, output);
  parts.outputs.push_back(output);
  add_exchange(parts, receives, sends, kScatter);
  return start(c10d::OpType::SCATTER, options.timeout, std::move(parts));
}

Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<std::int64_t>& output_sizes,
                                        std::vector<std::int64_t>& input_sizes,
                                        const c10d::AllToAllOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "all_to_all_single"};
  check_dense(parts.what, output);
  check_dense(parts.what, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), parts.what,
                   " needs input and output of one type, got ", input.scalar_type(), " and ",
                   output.scalar_type());
  const auto receives = output.split_with_sizes(rows_of(parts.what, output, output_sizes, size_));
  const auto sends = input.split_with_sizes(rows_of(parts.what, input, input_sizes, size_));
  const auto self = static_cast<std::size_t>(rank_);
  check_like(parts.what, receives[self], sends[self].scalar_type(), sends[self].numel());
  parts.outputs.push_back(output);
  add_exchange(parts, receives, sends, kAllToAll);
  return start(c10d::OpType::ALLTOALL_BASE, options.timeout, std::move(parts));
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "all_to_all"};
  const auto ranks = static_cast<std::size_t>(size_);
  TORCH_CHECK_VALUE(outputs.size() == ranks && inputs.size() == ranks, parts.what,
                    " needs one input and one output for each of the ", size_, " ranks");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    check_dense(parts.what, outputs[rank]);
    check_dense(parts.what, inputs[rank]);
  }
  const auto self = static_cast<std::size_t>(rank_);
  check_like(parts.what, outputs[self], inputs[self].scalar_type(), inputs[self].numel());
  parts.outputs = outputs;
  add_exchange(parts, outputs, inputs, kAllToAll);
  return start(c10d::OpType::ALLTOALL, options.timeout, std::move(parts));
}

Backend::WorkPtr Backend::send(Tensors& tensors, int peer, int tag) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "send"};
  const auto& tensor = the_only(parts.what, tensors);
  check_dense(parts.what, tensor);
  check_tag(parts.what, tag);
  const at::Tensor memory = tensor.contiguous();
  parts.pendings.push_back(communicator()->send(bytes(memory), peer, tag));
  parts.memory.push_back(memory);
  return start(c10d::OpType::SEND, {}, std::move(parts));
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.what = "recv"};
  const auto& tensor = the_only(parts.what, tensors);
  check_dense(parts.what, tensor);
  check_tag(parts.what, tag);
  const at::Tensor memory = dense_memory_for(tensor);
  parts.pendings.push_back(communicator()->recv(bytes(memory), peer, tag));
  parts.memory.push_back(memory);
  parts.copy(tensor, memory);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::RECV, {}, std::move(parts));
}

}  // namespace lockstep
