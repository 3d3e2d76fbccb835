// Calls in which each pair of ranks exchanges its own data: gather, scatter, all-to-all, send,
// recv.
#include <memory>
#include <numeric>
#include <span>
#include <string_view>

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include "comm/torch/backend.h"
#include "comm/torch/tensors.h"

namespace lockstep::comm {
namespace {

using Tensors = Backend::Tensors;

// One tag is enough: both ranks of a pair make these calls in the same order.
constexpr int kAllToAllTag = Backend::kTagLimit;

void check_tag(std::string_view what, int tag) {
  TORCH_CHECK_VALUE(tag >= 0 && tag < Backend::kTagLimit, what, " needs a tag from 0 to ",
                    Backend::kTagLimit - 1, ", got ", tag);
}

void check_peer(std::string_view what, int peer, int rank, int size) {
  TORCH_CHECK_VALUE(peer >= 0 && peer < size && peer != rank, what, ": rank ", rank,
                    " has no peer ", peer, " in a group of ", size);
}

// The list that a root passes: one tensor for each rank, like `example`.
Tensors& of_root(std::string_view what, std::vector<Tensors>& lists, int size,
                 const at::Tensor& example) {
  TORCH_CHECK_VALUE(lists.size() == 1 && lists.front().size() == static_cast<std::size_t>(size),
                    what, " needs one tensor for each of the ", size, " ranks on its root");
  for (const auto& tensor : lists.front())
    check_type_and_size(what, tensor, example.scalar_type(), example.numel());
  return lists.front();
}

// The rows of the tensor's first dimension for each rank: as given, or equal for all.
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

void Backend::add_exchange(CallParts& parts, const Tensors& outputs, const Tensors& inputs) {
  const auto communicator = this->communicator();
  // Starting with the next rank: if all began with rank 0, it would serve them one by one.
  for (int step = 1; step < size_; ++step) {
    const int to = (rank_ + step) % size_;
    const int from = (rank_ - step + size_) % size_;
    if (const auto& output = outputs[static_cast<std::size_t>(from)]; output.defined()) {
      const at::Tensor memory = contiguous_output_for(output);
      parts.futures.push_back(communicator->recv(bytes(memory), from, kAllToAllTag));
      parts.memory.push_back(memory);
      parts.copy(output, memory);
    }
    if (const auto& input = inputs[static_cast<std::size_t>(to)]; input.defined()) {
      const at::Tensor memory = input.contiguous();
      parts.futures.push_back(communicator->send(bytes(memory), to, kAllToAllTag));
      parts.memory.push_back(memory);
    }
  }
  const auto self = static_cast<std::size_t>(rank_);
  if (outputs[self].defined() && inputs[self].defined())
    outputs[self].copy_(inputs[self].view_as(outputs[self]));
}

Backend::WorkPtr Backend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                 const c10d::GatherOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::gather, outputs, inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("gather", options, inputs);
  check_root(parts.operation, options.rootRank);
  const auto& input = single_tensor(parts.operation, inputs);
  check_dense(parts.operation, input);
  const at::Tensor from = input.contiguous();
  at::Tensor to;
  if (rank_ == options.rootRank) {
    parts.outputs = of_root(parts.operation, outputs, size_, input);
    to = parts.receive_buffer_for(parts.outputs);
  }
  parts.futures.push_back(communicator()->gather(bytes(from),
                                                 to.defined() ? bytes(to) : std::span<std::byte>(),
                                                 static_cast<int>(options.rootRank), parts.mode));
  parts.memory = {from, to};
  return start(c10d::OpType::GATHER, std::move(parts));
}

Backend::WorkPtr Backend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                  const c10d::ScatterOptions& options) {
  if (DeviceGroup::serves(outputs))
    return on_device(outputs.front(), &c10d::Backend::scatter, outputs, inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("scatter", options, front_of(inputs));
  check_root(parts.operation, options.rootRank);
  const auto& output = single_tensor(parts.operation, outputs);
  check_dense(parts.operation, output);
  at::Tensor from;
  if (rank_ == options.rootRank)
    from = stacked_rows(of_root(parts.operation, inputs, size_, output));
  const at::Tensor to = contiguous_output_for(output);
  parts.futures.push_back(
      communicator()->scatter(from.defined() ? bytes(from) : std::span<std::byte>(), bytes(to),
                              static_cast<int>(options.rootRank), parts.mode));
  parts.memory = {from, to};
  parts.copy(output, to);
  parts.outputs.push_back(output);
  return start(c10d::OpType::SCATTER, std::move(parts));
}

void Backend::add_all_to_all(CallParts& parts, const at::Tensor& output, const at::Tensor& input) {
  check_type_and_size(parts.operation, output, input.scalar_type(), input.numel());
  const at::Tensor to = contiguous_output_for(output);
  const at::Tensor from = contiguous_without_overlap(to, input);
  parts.futures.push_back(communicator()->all_to_all(bytes(from), bytes(to), parts.mode));
  parts.memory.push_back(from);
  parts.copy(output, to);
}

// Ranks must make the same choice between the collective and the exchange. No rank knows whether
// the parts of the others are equal, but all ranks know whether sizes are given.
Backend::WorkPtr Backend::alltoall_base(at::Tensor& output, at::Tensor& input,
                                        std::vector<std::int64_t>& output_sizes,
                                        std::vector<std::int64_t>& input_sizes,
                                        const c10d::AllToAllOptions& options) {
  if (DeviceGroup::serves(input))
    return on_device(input, &c10d::Backend::alltoall_base, output, input, output_sizes, input_sizes,
                     options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_to_all_single", options, input);
  check_dense(parts.operation, output);
  check_dense(parts.operation, input);
  TORCH_CHECK_TYPE(output.scalar_type() == input.scalar_type(), parts.operation,
                   " needs input and output of one type, got ", input.scalar_type(), " and ",
                   output.scalar_type());
  const auto receives =
      output.split_with_sizes(rows_of(parts.operation, output, output_sizes, size_));
  const auto sends = input.split_with_sizes(rows_of(parts.operation, input, input_sizes, size_));
  const auto self = static_cast<std::size_t>(rank_);
  check_type_and_size(parts.operation, receives[self], sends[self].scalar_type(),
                      sends[self].numel());
  parts.outputs.push_back(output);
  if (output_sizes.empty() && input_sizes.empty())
    add_all_to_all(parts, output, input);
  else
    add_exchange(parts, receives, sends);
  return start(c10d::OpType::ALLTOALL_BASE, std::move(parts));
}

Backend::WorkPtr Backend::alltoall(Tensors& outputs, Tensors& inputs,
                                   const c10d::AllToAllOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::alltoall, outputs, inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_to_all", options, inputs);
  const auto ranks = static_cast<std::size_t>(size_);
  TORCH_CHECK_VALUE(outputs.size() == ranks && inputs.size() == ranks, parts.operation,
                    " needs one input and one output for each of the ", size_, " ranks");
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    check_dense(parts.operation, outputs[rank]);
    check_dense(parts.operation, inputs[rank]);
  }
  const auto self = static_cast<std::size_t>(rank_);
  check_type_and_size(parts.operation, outputs[self], inputs[self].scalar_type(),
                      inputs[self].numel());
  parts.outputs = outputs;
  add_exchange(parts, outputs, inputs);
  return start(c10d::OpType::ALLTOALL, std::move(parts));
}

Backend::WorkPtr Backend::send(Tensors& tensors, int peer, int tag) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::send, tensors, peer, tag);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.operation = "send"};
  parts.record(tensors);
  const auto& tensor = single_tensor(parts.operation, tensors);
  check_dense(parts.operation, tensor);
  check_peer(parts.operation, peer, rank_, size_);
  check_tag(parts.operation, tag);
  const at::Tensor memory = tensor.contiguous();
  parts.futures.push_back(communicator()->send(bytes(memory), peer, tag));
  parts.memory.push_back(memory);
  return start(c10d::OpType::SEND, std::move(parts));
}

Backend::WorkPtr Backend::recv(Tensors& tensors, int peer, int tag) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::recv, tensors, peer, tag);
  check_peer("recv", peer, rank_, size_);
  return receive("recv", tensors, tag, [&](CallParts& parts, std::span<std::byte> memory) {
    parts.futures.push_back(communicator()->recv(memory, peer, tag));
  });
}

Backend::WorkPtr Backend::recvAnysource(Tensors& tensors, int tag) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::recvAnysource, tensors, tag);
  return receive("recvAnySource", tensors, tag, [&](CallParts& parts, std::span<std::byte> memory) {
    // Shared by the call and, if it is part of one, its batch.
    const auto& source = parts.sources.emplace_back(std::make_shared<int>(-1));
    parts.futures.push_back(communicator()->recv_from_any(memory, tag, *source));
  });
}

template <class BeginRecv>
Backend::WorkPtr Backend::receive(std::string_view event, Tensors& tensors, int tag,
                                  BeginRecv begin_recv) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  CallParts parts{.operation = "recv"};
  parts.record_as(event, tensors);
  const auto& tensor = single_tensor(parts.operation, tensors);
  check_dense(parts.operation, tensor);
  check_tag(parts.operation, tag);
  const at::Tensor memory = contiguous_output_for(tensor);
  begin_recv(parts, bytes(memory));
  parts.memory.push_back(memory);
  parts.copy(tensor, memory);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::RECV, std::move(parts));
}

}  // namespace lockstep::comm
