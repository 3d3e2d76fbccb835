#include "comm/torch/backend.h"

#include <algorithm>
#include <utility>

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/util/Exception.h>

#include "base/format.h"
#include "base/os/environment.h"
#include "comm/torch/caching_allocator.h"
#include "comm/torch/connect.h"
#include "comm/torch/record_function/scope_labels.h"
#include "comm/torch/shareable_allocator.h"
#include "comm/torch/tensors.h"
#include "comm/torch/work.h"

namespace lockstep::comm {
namespace {

using std::chrono::milliseconds;

// Calls of several tensors check all of them before the first starts, because a started call cannot
// be undone.
void check_reducible(std::string_view what, const at::Tensor& tensor, const c10d::ReduceOp& op) {
  check_dense(what, tensor);
  (void)plan_tensor_reduction(what, tensor, op);
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
    check_type_and_size(what, outputs[i], inputs[i].scalar_type(), inputs[i].numel());
  }
}

// Where no rank shares this rank's host, tensors stay as they are.
void move_tensors_if_shared(const Communicator& communicator) {
  const auto hosts = communicator.hosts();
  const bool shares = std::any_of(hosts.begin(), hosts.end(), [&](const auto& ranks) {
    return ranks.size() > 1 && std::ranges::count(ranks, communicator.rank()) > 0;
  });
  if (shares && wants_zero_copy(own_environment())) install_shareable_allocator();
}

}  // namespace

Result<c10::intrusive_ptr<Backend>> Backend::create(CommunicatorOptions options,
                                                    Rendezvous& rendezvous,
                                                    const RecoveryContext& reunion,
                                                    DeviceGroup::OpenStore open_store) {
  const Duration timeout = options.timeout;
  if (options.members.ranks.empty()) options.members = GroupRanks::world(options.size);
  auto members = options.members;
  label_by_scopes();
  auto communicator = TRY(Communicator::create(std::move(options), rendezvous));
  move_tensors_if_shared(*communicator);
  return c10::make_intrusive<Backend>(std::move(communicator), std::move(members), timeout, reunion,
                                      std::move(open_store));
}

Backend::Backend(std::unique_ptr<Communicator> communicator, GroupRanks members, Duration timeout,
                 const RecoveryContext& reunion, DeviceGroup::OpenStore open_store)
    : c10d::Backend(communicator->rank(), communicator->size()),
      members_(std::move(members)),
      timeout_(timeout),
      recovery_context_(reunion),
      group_(BackendGroup::create(std::move(communicator),
                                  {.rank = rank_,
                                   .size = size_,
                                   .members = members_,
                                   .timeout = timeout,
                                   .recoverable = !reunion.membership.expired(),
                                   .open_store = std::move(open_store)})) {}

c10::intrusive_ptr<Backend::Options> Backend::getBackendOptions() {
  auto options = c10::make_intrusive<Options>(
      "lockstep", std::chrono::duration_cast<milliseconds>(timeout_.load()));
  options->global_ranks_in_group.assign(members_.ranks.begin(), members_.ranks.end());
  options->group_name = members_.name;
  return options;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const std::vector<int>& ranks,
                                                 const c10::intrusive_ptr<Options>& options) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  if (found == ranks.end()) return nullptr;
  const ConnectOptions part{.rank = static_cast<int>(found - ranks.begin()),
                            .size = static_cast<int>(ranks.size()),
                            .group = options->group_name,
                            .members = members_.subgroup(ranks, options->group_name),
                            .timeout = options->timeout,
                            .rendezvous_timeout = recovery_context_.rendezvous_timeout,
                            .generation = recovery_context_.generation,
                            .membership = recovery_context_.membership.lock()};
  auto backend = store ? connect_through_store(store, part) : connect_at_rendezvous(part);
  if (!backend) raise(backend.error());
  return *std::move(backend);
}

// The ranks come from several groups, which have names of their own.
c10::intrusive_ptr<c10d::Backend> Backend::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                 const c10::intrusive_ptr<Options>& options,
                                                 const int& rank, const int& size) {
  auto backend = connect_through_store(store, {.rank = rank,
                                               .size = size,
                                               .group = "merged",
                                               .members = GroupRanks::world(size),
                                               .timeout = options->timeout});
  if (!backend) raise(backend.error());
  return *std::move(backend);
}

void Backend::setTimeout(milliseconds timeout) {
  TORCH_CHECK_VALUE(timeout.count() > 0, "set_timeout needs a positive time");
  timeout_ = timeout;
  communicator()->set_timeout(timeout);
}

at::Tensor Backend::allocateTensor(long size, at::TensorOptions options) {
  const auto device = options.device_opt();
  TORCH_CHECK_VALUE(size >= 0, "allocate_tensor needs a size, got ", size);
  if (device && !device->is_cpu()) return at::empty({size}, options);
  const auto width = static_cast<std::int64_t>(options.dtype().itemsize());
  (void)communicator();
  const auto allocated = CachingAllocator::for_this_process()->allocate(Bytes(size * width));
  if (!allocated) raise(allocated.error());
  return at::from_blob((*allocated)->data(), {size}, [buffer = *allocated](void*) {}, options);
}

void Backend::abort() {
  group_->device_group()->give_up();
  if (const auto communicator = group_->communicator())
    communicator->abort(
        Error{Code::cancelled, format("rank {} aborted the group", members_.global_rank(rank_))});
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
  check_dense(parts.operation, tensor);
  const auto reduction = plan_tensor_reduction(parts.operation, tensor, op);
  const at::Tensor numbers = numbers_of(tensor);
  const at::Tensor carried = operand_of(numbers, reduction);
  parts.futures.push_back(
      communicator()->all_reduce(bytes(carried), reduction.type, reduction.op, parts.mode));
  parts.copy(numbers, carried);
  parts.outputs.push_back(tensor);
}

Backend::WorkPtr Backend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::allreduce, tensors, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_reduce", options, tensors);
  auto& tensor = single_tensor(parts.operation, tensors);
  if (tensor.layout() == at::kSparse)
    add_sparse_all_reduce(parts, tensor, options.reduceOp);
  else
    add_all_reduce(parts, tensor, options.reduceOp);
  return start(c10d::OpType::ALLREDUCE, std::move(parts));
}

Backend::WorkPtr Backend::allreduce_sparse(Tensors& tensors,
                                           const c10d::AllreduceOptions& options) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::allreduce_sparse, tensors, options);
  return allreduce(tensors, options);
}

Backend::WorkPtr Backend::allreduce_coalesced(Tensors& tensors,
                                              const c10d::AllreduceCoalescedOptions& options) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::allreduce_coalesced, tensors, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_reduce_coalesced", options, tensors);
  for (const auto& tensor : tensors) check_reducible(parts.operation, tensor, options.reduceOp);
  for (auto& tensor : tensors) add_all_reduce(parts, tensor, options.reduceOp);
  return start(c10d::OpType::ALLREDUCE_COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::reduce, tensors, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce", options, tensors);
  check_root(parts.operation, options.rootRank);
  const auto& tensor = single_tensor(parts.operation, tensors);
  check_dense(parts.operation, tensor);
  const auto reduction = plan_tensor_reduction(parts.operation, tensor, options.reduceOp);
  const at::Tensor numbers = numbers_of(tensor);
  const at::Tensor carried = operand_of(numbers, reduction);
  parts.futures.push_back(communicator()->reduce(bytes(carried), reduction.type, reduction.op,
                                                 static_cast<int>(options.rootRank), parts.mode));
  parts.memory.push_back(carried);
  if (rank_ == options.rootRank) parts.copy(numbers, carried);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::REDUCE, std::move(parts));
}

void Backend::add_reduce_scatter(CallParts& parts, at::Tensor& output, const at::Tensor& input,
                                 const c10d::ReduceOp& op) {
  check_dense(parts.operation, output);
  check_type_and_size(parts.operation, input, output.scalar_type(), output.numel() * size_);
  const auto reduction = plan_tensor_reduction(parts.operation, input, op);
  const at::Tensor from = operand_of(numbers_of(input), reduction);
  const at::Tensor numbers = numbers_of(output);
  const at::Tensor to = contiguous_output_for(
      numbers.scalar_type() == reduction.wire_type ? numbers : numbers.to(reduction.wire_type));
  parts.futures.push_back(communicator()->reduce_scatter(bytes(from), bytes(to), reduction.type,
                                                         reduction.op, parts.mode));
  parts.memory.push_back(from);
  parts.copy(numbers, to);
  parts.outputs.push_back(output);
}

Backend::WorkPtr Backend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                         const c10d::ReduceScatterOptions& options) {
  if (DeviceGroup::serves(outputs))
    return on_device(outputs.front(), &c10d::Backend::reduce_scatter, outputs, inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter", options, front_of(inputs));
  auto& output = single_tensor(parts.operation, outputs);
  check_dense(parts.operation, output);
  check_pairs(parts.operation, inputs.size(), 1);
  check_pairs(parts.operation, inputs.front().size(), static_cast<std::size_t>(size_));
  for (const auto& input : inputs.front())
    check_type_and_size(parts.operation, input, output.scalar_type(), output.numel());
  add_reduce_scatter(parts, output, stacked_rows(inputs.front()), options.reduceOp);
  return start(c10d::OpType::REDUCE_SCATTER, std::move(parts));
}

Backend::WorkPtr Backend::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                               const c10d::ReduceScatterOptions& options) {
  if (DeviceGroup::serves(input))
    return on_device(input, &c10d::Backend::_reduce_scatter_base, output, input, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter_tensor", options, input);
  add_reduce_scatter(parts, output, input, options.reduceOp);
  return start(c10d::OpType::_REDUCE_SCATTER_BASE, std::move(parts));
}

Backend::WorkPtr Backend::reduce_scatter_tensor_coalesced(
    Tensors& outputs, Tensors& inputs, const c10d::ReduceScatterOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::reduce_scatter_tensor_coalesced, outputs,
                     inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("reduce_scatter_tensor_coalesced", options, inputs);
  check_pairs(parts.operation, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_reducible(parts.operation, outputs[i], options.reduceOp);
    check_type_and_size(parts.operation, inputs[i], outputs[i].scalar_type(),
                        outputs[i].numel() * size_);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i)
    add_reduce_scatter(parts, outputs[i], inputs[i], options.reduceOp);
  return start(c10d::OpType::COALESCED, std::move(parts));
}

// All-gather, broadcast, barrier

void Backend::add_all_gather(CallParts& parts, const at::Tensor& output, const at::Tensor& input) {
  check_dense(parts.operation, input);
  check_type_and_size(parts.operation, output, input.scalar_type(), input.numel() * size_);
  const at::Tensor from = input.contiguous();
  const at::Tensor to = contiguous_output_for(output);
  parts.futures.push_back(communicator()->all_gather(bytes(from), bytes(to), parts.mode));
  parts.memory.push_back(from);
  parts.copy(output, to);
  parts.outputs.push_back(output);
}

Backend::WorkPtr Backend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                    const c10d::AllgatherOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::allgather, outputs, inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather", options, inputs);
  const auto& input = single_tensor(parts.operation, inputs);
  check_dense(parts.operation, input);
  check_pairs(parts.operation, outputs.size(), 1);
  check_pairs(parts.operation, outputs.front().size(), static_cast<std::size_t>(size_));
  for (const auto& output : outputs.front())
    check_type_and_size(parts.operation, output, input.scalar_type(), input.numel());
  add_all_gather(parts, parts.receive_buffer_for(outputs.front()), input);
  parts.outputs = outputs.front();
  return start(c10d::OpType::ALLGATHER, std::move(parts));
}

Backend::WorkPtr Backend::allgather_coalesced(std::vector<Tensors>& output_lists, Tensors& inputs,
                                              const c10d::AllgatherOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::allgather_coalesced, output_lists, inputs,
                     options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_coalesced", options, inputs);
  check_pairs(parts.operation, output_lists.size(), static_cast<std::size_t>(size_));
  for (const auto& outputs : output_lists) check_alike(parts.operation, outputs, inputs);
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Tensors of_ranks;
    for (const auto& outputs : output_lists) of_ranks.push_back(outputs[i]);
    add_all_gather(parts, parts.receive_buffer_for(of_ranks), inputs[i]);
  }
  parts.outputs.clear();
  for (const auto& outputs : output_lists)
    parts.outputs.insert(parts.outputs.end(), outputs.begin(), outputs.end());
  return start(c10d::OpType::ALLGATHER_COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                          const c10d::AllgatherOptions& options) {
  if (DeviceGroup::serves(input))
    return on_device(input, &c10d::Backend::_allgather_base, output, input, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_into_tensor", options, input);
  add_all_gather(parts, output, input);
  return start(c10d::OpType::_ALLGATHER_BASE, std::move(parts));
}

Backend::WorkPtr Backend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  if (DeviceGroup::serves(inputs))
    return on_device(inputs.front(), &c10d::Backend::allgather_into_tensor_coalesced, outputs,
                     inputs, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("all_gather_into_tensor_coalesced", options, inputs);
  check_pairs(parts.operation, outputs.size(), inputs.size());
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    check_dense(parts.operation, inputs[i]);
    check_type_and_size(parts.operation, outputs[i], inputs[i].scalar_type(),
                        inputs[i].numel() * size_);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) add_all_gather(parts, outputs[i], inputs[i]);
  return start(c10d::OpType::COALESCED, std::move(parts));
}

Backend::WorkPtr Backend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  if (DeviceGroup::serves(tensors))
    return on_device(tensors.front(), &c10d::Backend::broadcast, tensors, options);
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  auto parts = begin("broadcast", options, tensors);
  check_root(parts.operation, options.rootRank);
  const auto& tensor = single_tensor(parts.operation, tensors);
  check_dense(parts.operation, tensor);
  const bool is_root = rank_ == options.rootRank;
  const at::Tensor carried = is_root ? tensor.contiguous() : contiguous_output_for(tensor);
  parts.futures.push_back(
      communicator()->broadcast(bytes(carried), static_cast<int>(options.rootRank), parts.mode));
  parts.memory.push_back(carried);
  if (!is_root) parts.copy(tensor, carried);
  parts.outputs.push_back(tensor);
  return start(c10d::OpType::BROADCAST, std::move(parts));
}

Backend::WorkPtr Backend::barrier(const c10d::BarrierOptions& options) {
  auto parts = begin("barrier", options, {});
  parts.futures.push_back(communicator()->barrier(parts.mode));
  return start(c10d::OpType::BARRIER, std::move(parts));
}

}  // namespace lockstep::comm
