#include "comm/torch/backend.h"

#include <algorithm>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "base/format.h"
#include "comm/torch/connect.h"
#include "comm/torch/lent_memory.h"
#include "comm/torch/scope_labels.h"
#include "comm/torch/tensors.h"
#include "comm/torch/work.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;

// Calls of several tensors check them all before the first is under way: from then on there is no
// turning back.
void check_reducible(std::string_view what, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  check_dense(what, tensor);
  (void)reduction_of(what, tensor, op);
}

void check_pairs(std::string_view what, std::size_t outputs, std::size_t inputs) {
  TORCH_CHECK_VALUE(outputs == inputs, what, " needs as many outputs as inputs, got ", outputs,
                    " and ", inputs);
}

void check_alike(std::string_view what, const Backend::Tensors& outputs,
                 const Backend::Tensors& inputs) {
  check_pairs(what, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    check_dense(what, inputs[i]);
    check_like(what, outputs[i], inputs[i].scalar_type(), inputs[i].numel());
  }
}

}  // namespace

Result<c10::intrusive_ptr<Backend>> Backend::create(CommunicatorOptions options,
                                                    Rendezvous& rendezvous,
                                                    const Reunion& reunion) {
  const Duration timeout = options.timeout;
  if (options.members.ranks.empty()) options.members = Members::world(options.size);
  auto members = options.members;
  label_by_scopes();
  auto communicator = TRY(Communicator::create(std::move(options), rendezvous));
  return c10::make_intrusive<Backend>(std::move(communicator), std::move(members), timeout,
                                      reunion);
}

Backend::Backend(std::unique_ptr<Communicator> communicator, Members members, Duration timeout,
                 const Reunion& reunion)
    : c10d::Backend(communicator->rank(), communicator->size()),
      members_(std::move(members)),
      timeout_(timeout),
      reunion_(reunion),
      group_(Group::create(std::move(communicator))) {}

c10::intrusive_ptr<Backend::Options> Backend::getBackendOptions() {
  auto options =
      c10::make_intrusive<Options>("lockstep", std::chrono::duration_cast<milliseconds>(timeout_));
  options->global_ranks_in_group.assign(members_.ranks.begin(), members_.ranks.end());
  options->group_name = members_.name;
  return options;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto place = std::find(ranks.begin(), ranks.end(), rank_);
  if (place == ranks.end()) return nullptr;
  const ConnectOptions part{.rank = static_cast<int>(place - ranks.begin()),
                            .size = static_cast<int>(ranks.size()),
                            .group = options->group_name,
                            .members = members_.part(ranks, options->group_name),
                            .timeout = options->timeout,
                            .meeting = reunion_.meeting,
                            .generation = reunion_.generation,
                            .crew = reunion_.crew.lock()};
  auto backend = store ? connect_through(store, part) : connect_at_meeting_place(part);
  if (!backend) raise(backend.error());
  return *std::move(backend);
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const auto device = options.device_opt();
  TORCH_CHECK_VALUE(size >= 0, "allocate_tensor needs a size, got ", size);
  TORCH_CHECK_TYPE(!device || device->is_cpu(), "lockstep lends memory on the CPU only");
  const auto width = static_cast<std::int64_t>(options.dtype().itemsize());
  (void)communicator();
  const auto lent = LentMemory::of_process()->lend(Bytes(size * width));
  if (!lent) raise(lent.error());
  return at::from_blob((*lent)->data(), {size}, [buffer = *lent](void*) {}, options);
}

void Backend::abort() {
  if (const auto communicator = group_->communicator())
    communicator->abort(
        Error{Code::cancelled, format("rank {} aborted the group", members_.number_of(rank_))});
  shutdown();
}

std::shared_ptr<Communicator> Backend::communicator() {
  auto communicator = group_->communicator();
  TORCH_CHECK_WITH(DistBackendError, communicator,
                   "this group was shut down: make a new one with new_group or "
                   "init_process_group");
  return communicator;
}

void Backend::check_root(std::string_view what, std::int64_t root) const {
  TORCH_CHECK_VALUE(root >= 0 && root < size_, what, ": there is no rank ", root, " in a group of ",
                    size_);
}

// Reductions

void Backend::add_all_reduce(CallParts& parts, at::Tensor& tensor, const c10d::ReduceOp& op) {
  check_dense(parts.what, tensor);
  const auto reduction = reduction_of(parts.what, tensor, op);
  at::Tensor carried = operand_of(tensor, reduction);
  parts.pendings.push_back(
      communicator()->all_reduce(bytes(carried), reduction.type, reduction.op, parts.mode));
  parts.copy(tensor, carried);
  parts.outputs.push_back(tensor);
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_reduce", options);
  add_all_reduce(parts, the_only(parts.what, tensors), options.reduceOp);
  return start(c10d::OpType::ALLREDUCE, std::move(parts));
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_reduce_coalesced", options);
  for (const auto& tensor : tensors) check_reducible(parts.what, tensor, options.reduceOp);
  for (auto& tensor : tensors) add_all_reduce(parts, tensor, options.reduceOp);
  return start(c10d::OpType::ALLREDUCE_COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce", options);
  check_root(parts.what, options.rootRank);
  const auto& tensor = the_only(parts.what, tensors);
  check_dense(parts.what, tensor);
  const auto reduction = reduction_of(parts.what, tensor, options.reduceOp);
  const at::Tensor carried = operand_of(tensor, reduction);
  parts.pendings.push_back(communicator()->reduce(bytes(carried), reduction.type, reduction.op,
                                                  static_cast<int>(options.rootRank), parts.mode));
  parts.memory.push_back(carried);
  if (rank_ == options.rootRank) parts.copy(tensor, carried);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::REDUCE, std::move(parts));
}

void Backend::add_reduce_scatter(CallParts& parts, at::Tensor& output, const at::Tensor& input,
                                 const c10d::ReduceOp& op) {
  check_dense(parts.what, output);
  check_like(parts.what, input, output.scalar_type(), output.numel() * size_);
  const auto reduction = reduction_of(parts.what, input, op);
  const at::Tensor from = operand_of(input, reduction);
  const at::Tensor to = dense_memory_for(
      output.scalar_type() == reduction.carried ? output : output.to(reduction.carried));
  parts.pendings.push_back(communicator()->reduce_scatter(bytes(from), bytes(to), reduction.type,
                                                          reduction.op, parts.mode));
  parts.memory.push_back(from);
  parts.copy(output, to);
  parts.outputs.push_back(output);
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter", options);
  auto& output = the_only(parts.what, outputs);
  check_dense(parts.what, output);
  check_pairs(parts.what, inputs.size(), 1);
  check_pairs(parts.what, inputs.front().size(), static_cast<std::size_t>(size_));
  for (const auto& input : inputs.front())
    check_like(parts.what, input, output.scalar_type(), output.numel());
  add_reduce_scatter(parts, output, in_order(inputs.front()), options.reduceOp);
  return start(c10d::OpType::REDUCE_SCATTER, std::move(parts));
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter_tensor", options);
  add_reduce_scatter(parts, output, input, options.reduceOp);
  return start(c10d::OpType::_REDUCE_SCATTER_BASE, std::move(parts));
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter_tensor_coalesced", options);
  check_pairs(parts.what, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_reducible(parts.what, outputs[i], options.reduceOp);
    check_like(parts.what, inputs[i], outputs[i].scalar_type(), outputs[i].numel() * size_);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    add_reduce_scatter(parts, outputs[i], inputs[i], options.reduceOp);
  return start(c10d::OpType::REDUCE_SCATTER_TENSOR_COALESCED, std::move(parts));
}

// All-gather, broadcast, barrier

void Backend::add_all_gather(CallParts& parts, const at::Tensor& output, const at::Tensor& input) {
  check_dense(parts.what, input);
  check_like(parts.what, output, input.scalar_type(), input.numel() * size_);
  const at::Tensor from = input.contiguous();
  const at::Tensor to = dense_memory_for(output);
  parts.pendings.push_back(communicator()->all_gather(bytes(from), bytes(to), parts.mode));
  parts.memory.push_back(from);
  parts.copy(output, to);
  parts.outputs.push_back(output);
}

Backend::WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather", options);
  const auto& input = the_only(parts.what, inputs);
  check_dense(parts.what, input);
  check_pairs(parts.what, outputs.size(), 1);
  check_pairs(parts.what, outputs.front().size(), static_cast<std::size_t>(size_));
  for (const auto& output : outputs.front())
    check_like(parts.what, output, input.scalar_type(), input.numel());
  add_all_gather(parts, parts.receive_into(outputs.front()), input);
  parts.outputs = outputs.front();
  return start(c10d::OpType::ALLGATHER, std::move(parts));
}

Backend::WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& output_lists, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_coalesced", options);
  check_pairs(parts.what, output_lists.size(), static_cast<std::size_t>(size_));
  for (const auto& outputs : output_lists) check_alike(parts.what, outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const auto& outputs : output_lists) of_ranks.push_back(outputs[i]);
    add_all_gather(parts, parts.receive_into(of_ranks), inputs[i]);
  }
  parts.outputs.clear();
  for (const auto& outputs : output_lists)
    parts.outputs.insert(parts.outputs.end(), outputs.begin(), outputs.end());
  return start(c10d::OpType::ALLGATHER_COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_into_tensor", options);
  add_all_gather(parts, output, input);
  return start(c10d::OpType::_ALLGATHER_BASE, std::move(parts));
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_into_tensor_coalesced", options);
  check_pairs(parts.what, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_dense(parts.what, inputs[i]);
    check_like(parts.what, outputs[i], inputs[i].scalar_type(), inputs[i].numel() * size_);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) add_all_gather(parts, outputs[i], inputs[i]);
  return start(c10d::OpType::COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("broadcast", options);
  check_root(parts.what, options.rootRank);
  const auto& tensor = the_only(parts.what, tensors);
  check_dense(parts.what, tensor);
  const bool is_root = rank_ == options.rootRank;
  const at::Tensor carried = is_root ? tensor.contiguous() : dense_memory_for(tensor);
  parts.pendings.push_back(
      communicator()->broadcast(bytes(carried), static_cast<int>(options.rootRank), parts.mode));
  parts.memory.push_back(carried);
  if (!is_root) parts.copy(tensor, carried);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::BROADCAST, std::move(parts));
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  auto parts = begin("barrier", options);
  parts.pendings.push_back(communicator()->barrier(parts.mode));
  return start(c10d::OpType::BARRIER, std::move(parts));
}

}  // namespace lockstep
