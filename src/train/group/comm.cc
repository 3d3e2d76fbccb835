#include "train/group/comm.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <numeric>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/format.h"
#include "base/log.h"
#include "comm/flight/label.h"

namespace lockstep::train {
namespace {

constexpr int kTag = 0;  // of what one rank sends another

c10d::ReduceOp::RedOpType c10d_name(ReduceOp op) {
  switch (op) {
    case ReduceOp::sum:
      return c10d::ReduceOp::SUM;
    case ReduceOp::min:
      return c10d::ReduceOp::MIN;
    case ReduceOp::max:
      return c10d::ReduceOp::MAX;
    case ReduceOp::product:
      return c10d::ReduceOp::PRODUCT;
    case ReduceOp::average:
      return c10d::ReduceOp::AVG;
    case ReduceOp::bit_and:
      return c10d::ReduceOp::BAND;
    case ReduceOp::bit_or:
      return c10d::ReduceOp::BOR;
    case ReduceOp::bit_xor:
      return c10d::ReduceOp::BXOR;
  }
  check_failed("the operation is known", "");
}

// The first line only: c10 adds a C++ stack to its messages.
Error error_of(std::string_view what, const std::exception& exception) {
  std::string message = exception.what();
  message = message.substr(0, message.find('\n'));
  return Error{Code::unavailable, format("{}: {}", what, message)};
}

std::chrono::milliseconds milliseconds(Duration duration) {
  return std::chrono::ceil<std::chrono::milliseconds>(duration);
}

// The store in which the ranks of a part rendezvous: separate keys, also when a group is split
// again under the same name. All ranks count in the same way. Null for a group that has no store:
// then its backend knows.
c10::intrusive_ptr<c10d::Store> split_store(c10d::ProcessGroup& group, std::string_view name) {
  auto store = group.getStore();
  if (!store) return store;
  const auto uses = store->add(format("split/{}", group.getRank()), 1);
  return c10::make_intrusive<c10d::PrefixStore>(format("split/{}/{}", uses, name),
                                                std::move(store));
}

// The backends write the part's values into the options that they are given, which may be the
// group's own. The group's are restored, because the next part would otherwise be taken from the
// wrong ranks. Gloo also reads the global ranks from them, unchecked.
c10::intrusive_ptr<c10d::Backend> split_backend(c10d::Backend& backend,
                                                const c10::intrusive_ptr<c10d::Store>& store,
                                                const std::vector<int>& ranks,
                                                const std::string& name) {
  auto options = backend.getBackendOptions();
  auto of_group = options->global_ranks_in_group;
  auto name_of_group = std::exchange(options->group_name, name);
  if (of_group.empty()) {
    options->global_ranks_in_group.resize(static_cast<std::size_t>(backend.getSize()));
    std::iota(options->global_ranks_in_group.begin(), options->global_ranks_in_group.end(), 0u);
  }
  auto part = backend.split(store, ranks, options);
  options->global_ranks_in_group = std::move(of_group);
  options->group_name = std::move(name_of_group);
  return part;
}

// Like ProcessGroup::splitGroup, which requires a store and modifies the group's options.
c10::intrusive_ptr<c10d::ProcessGroup> split_group(c10d::ProcessGroup& group,
                                                   const std::vector<int>& ranks, int rank,
                                                   const std::string& name) {
  const auto store = split_store(group, name);
  const auto size = static_cast<int>(ranks.size());
  auto part = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  std::map<c10d::Backend*, c10::intrusive_ptr<c10d::Backend>> parts;  // one may serve two devices
  for (const auto& device : group.getDeviceTypes()) {
    auto backend = group.getBackend(device.type());
    auto& split = parts[backend.get()];
    if (!split) split = split_backend(*backend, store, ranks, name);
    part->setBackend(device.type(), c10d::ProcessGroup::strToBackendType(backend->getBackendName()),
                     split);
  }
  part->setDefaultBackend(group.getBackendType());
  part->setGroupName(name);
  return part;
}

// The CPU if the group supports it; NCCL supports GPUs only.
at::Device device_of(const c10d::ProcessGroup& group) {
  const auto devices = group.getDeviceTypes();
  const bool cpu =
      std::any_of(devices.begin(), devices.end(), [](auto& each) { return each.is_cpu(); });
  return cpu || devices.empty() ? at::Device(at::kCPU) : devices.front();
}

// From the backend's options: torch stores there which ranks of the world a part of it has.
comm::GroupRanks members_of(c10d::ProcessGroup& group) try {
  auto all = comm::GroupRanks::world(group.getSize());
  const auto options = group.getBackend(device_of(group).type())->getBackendOptions();
  const auto& numbers = options->global_ranks_in_group;
  if (std::ssize(numbers) != group.getSize()) return all;
  return {options->group_name == all.name ? all.name : "", {numbers.begin(), numbers.end()}};
} catch (const std::exception&) {  // a backend without options
  return comm::GroupRanks::world(group.getSize());
}

}  // namespace

Result<void> Transfer::wait() {
  if (error_) return *error_;
  if (!work_) return {};
  try {
    if (!(*work_)->wait(milliseconds(bound_)))
      error_ = Error{Code::cancelled, format("{}: aborted", what_)};
  } catch (const std::exception& exception) {
    error_ = error_of(what_, exception);
  }
  work_.reset();
  if (error_) return *error_;
  return {};
}

bool Transfer::done() const { return !work_ || (on_cpu_ && (*work_)->isCompleted()); }

Comm::Comm(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration bound)
    : bound_(bound),
      device_(device_of(*group)),
      rank_(group->getRank()),
      size_(group->getSize()),
      members_(members_of(*group)) {
  group_ = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>(std::move(group));
}

template <class Start>
Transfer Comm::start(std::string_view verb, std::string_view label, const at::Tensor& tensor,
                     Start&& start_work) {
  Transfer transfer;
  transfer.what_ = format("rank {}: {} of {} ({})", global_rank(), verb, label, text(members_));
  transfer.bound_ = bound_;
  transfer.on_cpu_ = tensor.is_cpu();
  const comm::FlightLabel flight_label(label);
  try {
    transfer.work_ = std::make_shared<c10::intrusive_ptr<c10d::Work>>(start_work());
  } catch (const std::exception& exception) {
    transfer.error_ = error_of(transfer.what_, exception);
  }
  return transfer;
}

Transfer Comm::all_reduce(at::Tensor tensor, ReduceOp op, std::string_view label) {
  if (!group_) return {};
  return start("all-reduce", label, tensor, [&] {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_name(op);
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->allreduce(tensors, options);
  });
}

Transfer Comm::broadcast(at::Tensor tensor, int root, std::string_view label) {
  if (!group_) return {};
  return start("broadcast", label, tensor, [&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->broadcast(tensors, options);
  });
}

Transfer Comm::all_gather(at::Tensor whole, at::Tensor part, std::string_view label) {
  if (!group_) {
    if (whole.data_ptr() != part.data_ptr()) whole.copy_(part);
    return {};
  }
  return start("all-gather", label, whole,
               [&] { return (*group_)->all_gather_single(whole, part); });
}

Transfer Comm::reduce_scatter(at::Tensor part, at::Tensor whole, std::string_view label) {
  if (!group_) {
    if (whole.data_ptr() != part.data_ptr()) part.copy_(whole);
    return {};
  }
  return start("reduce-scatter", label, part,
               [&] { return (*group_)->reduce_scatter_single(part, whole); });
}

Transfer Comm::send(at::Tensor tensor, int to, std::string_view label) {
  LS_CHECK(group_ && to != rank_);
  return start("send", label, tensor, [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->send(tensors, to, kTag);
  });
}

Transfer Comm::receive(at::Tensor tensor, int from, std::string_view label) {
  LS_CHECK(group_ && from != rank_);
  return start("receive", label, tensor, [&] {
    std::vector<at::Tensor> tensors{std::move(tensor)};
    return (*group_)->recv(tensors, from, kTag);
  });
}

Result<Comm> Comm::split(const std::vector<int>& ranks, const std::string& name) const {
  const auto found = std::find(ranks.begin(), ranks.end(), rank_);
  LS_CHECK(found != ranks.end());
  const auto rank = static_cast<int>(found - ranks.begin());
  if (ranks.size() == 1) return Comm();
  if (static_cast<int>(ranks.size()) == size_) return *this;
  const auto members = members_.subgroup(ranks, name);
  try {
    Comm part(split_group(**group_, ranks, rank, name), bound_);
    part.members_ = members;
    return part;
  } catch (const std::exception& exception) {
    return error_of(format("rank {}: making the group {}", global_rank(), text(members)),
                    exception);
  }
}

void Comm::leave() {
  if (!group_) return;
  for (const auto& device : (*group_)->getDeviceTypes()) {
    try {
      (*group_)->getBackend(device.type())->shutdown();
    } catch (const std::exception& exception) {
      LS_LOG(warning, "rank {} leaving {}: {}", global_rank(), text(members_), exception.what());
    }
  }
}

Result<double> Comm::all_reduce(double value, ReduceOp op, std::string_view label) {
  if (!group_) return value;
  auto tensor = at::full({1}, value, at::TensorOptions(device_).dtype(at::kDouble));
  TRY(all_reduce(tensor, op, label).wait());
  return tensor.item<double>();
}

Result<std::vector<std::int64_t>> Comm::all_gather(std::int64_t value, std::string_view label) {
  if (!group_) return std::vector{value};
  const auto options = at::TensorOptions(device_).dtype(at::kLong);
  const auto all = at::zeros({size_}, options);
  TRY(all_gather(all, at::full({1}, value, options), label).wait());
  const auto here = all.cpu();
  const auto* first = here.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + size_);
}

Result<at::Tensor> Comm::allocate(std::int64_t elements, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  try {
    if (!group_) return at::zeros({elements}, options);
    auto backend = (*group_)->getBackend(device.type());
    if (!backend->supportsTensorAlloc(device.index())) return at::zeros({elements}, options);
    return backend->allocateTensor(elements, options).zero_();
  } catch (const std::exception& exception) {
    return error_of(format("allocating {} elements on {}", elements, device.str()), exception);
  }
}

}  // namespace lockstep::train
