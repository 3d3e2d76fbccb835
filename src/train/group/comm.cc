#include "train/group/comm.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <numeric>
#include <thread>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceType.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "comm/device/device_backend.h"
#include "comm/flight/label.h"
#include "train/torch_versions.h"

namespace lockstep::train {
namespace {

constexpr int kTag = 0;  // of what one rank sends another
constexpr auto kPollPause = std::chrono::microseconds(20);

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

// A device's data, by asking: c10d's own wait with a bound occupies this thread, too, and an error
// of the transfer is not always thrown there.
void poll(c10d::Work& work, Duration bound) {
  const auto deadline = Deadline::after(bound);
  while (!work.isCompleted()) {
    TORCH_CHECK(!deadline.passed(), "not complete after ", lockstep::text(bound));
    std::this_thread::sleep_for(kPollPause);
  }
  if (const auto failed = work.exception()) std::rethrow_exception(failed);
  work.blockCurrentStream();
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

// The ranks of the part, as numbers of the run.
std::vector<std::uint64_t> global_ranks_of(const std::vector<std::uint64_t>& of_group,
                                           const std::vector<int>& ranks) {
  std::vector<std::uint64_t> global;
  for (const int rank : ranks)
    global.push_back(of_group.empty() ? static_cast<std::uint64_t>(rank)
                                      : of_group[static_cast<std::size_t>(rank)]);
  return global;
}

// The backends write the part's values into the options that they are given, which may be the
// group's own. The group's are restored, because the next part would otherwise be taken from the
// wrong ranks. Gloo also reads the global ranks from them, unchecked.
c10::intrusive_ptr<c10d::Backend> split_backend(c10d::Backend& backend,
                                                const c10::intrusive_ptr<c10d::Store>& store,
                                                const std::vector<int>& ranks,
                                                const std::string& name, at::Device device) {
  auto options = backend.getBackendOptions();
  auto of_group = options->global_ranks_in_group;
  const auto registered = comm::find_device_backend(device.type());
  if (store && registered && registered->name == backend.getBackendName()) {
    const auto place = std::ranges::find(ranks, backend.getRank()) - ranks.begin();
    return registered->create({.store = store,
                               .rank = static_cast<int>(place),
                               .size = static_cast<int>(ranks.size()),
                               .name = name,
                               .global_ranks = global_ranks_of(of_group, ranks),
                               .timeout = options->timeout,
                               .device = device});
  }
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
                                                   const std::string& name, at::Device model) {
  const auto store = split_store(group, name);
  const auto size = static_cast<int>(ranks.size());
  auto part = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  std::map<c10d::Backend*, c10::intrusive_ptr<c10d::Backend>> parts;  // one may serve two devices
  for (const auto& device : group.getDeviceTypes()) {
    auto backend = group.getBackend(device.type());
    auto& split = parts[backend.get()];
    const auto own = device.type() == model.type() ? model : device;
    if (!split) split = split_backend(*backend, store, ranks, name, own);
    part->setBackend(device.type(), c10d::ProcessGroup::strToBackendType(backend->getBackendName()),
                     split);
  }
  part->setDefaultBackend(group.getBackendType());
  part->setGroupName(name);
  return part;
}

bool serves(const c10d::ProcessGroup& group, c10::DeviceType type) {
  return std::ranges::any_of(group.getDeviceTypes(),
                             [type](const auto& device) { return device.type() == type; });
}

// Before the model's is known: the CPU if the group serves it, else the device that the group was
// made for or that is current. NCCL serves GPUs only.
at::Device first_device(c10d::ProcessGroup& group) {
  const auto devices = group.getDeviceTypes();
  if (devices.empty() || serves(group, at::kCPU)) return at::kCPU;
  const auto type = devices.front().type();
  if (const auto bound = group.getBackend(type)->getBoundDeviceId()) return *bound;
  return c10::impl::getDeviceGuardImpl(type)->getDevice();
}

// From the backend's options: torch stores there which ranks of the world a part of it has.
comm::GroupRanks members_of(c10d::ProcessGroup& group) try {
  auto all = comm::GroupRanks::world(group.getSize());
  const auto options = group.getBackend(first_device(group).type())->getBackendOptions();
  const auto& numbers = options->global_ranks_in_group;
  if (std::ssize(numbers) != group.getSize()) return all;
  return {options->group_name == all.name ? all.name : "", {numbers.begin(), numbers.end()}};
} catch (const std::exception&) {  // a backend without options
  return comm::GroupRanks::world(group.getSize());
}

// At the time-out of a device's group c10d's watchdog ends the process, by SIGABRT. It counts from
// the begin of a transfer, which may be some time before the host waits.
Duration device_bound_of(c10d::ProcessGroup& group, Duration bound) {
  for (const auto& device : group.getDeviceTypes()) {
    if (device.is_cpu()) continue;
    try {
      const auto timeout = group.getBackend(device.type())->getBackendOptions()->timeout;
      if (timeout > Duration(0)) bound = std::min<Duration>(bound, timeout * 9 / 10);
    } catch (const std::exception&) {  // a backend without options
    }
  }
  return bound;
}

}  // namespace

struct Transfer::State {
  ~State() {
    if (tensors.empty() || !work) return;
    try {
      work->blockCurrentStream();
    } catch (const std::exception&) {  // it was aborted: nothing writes any more
    }
  }
  Result<void> run(const std::function<bool()>& waited) const try {
    if (waited()) return {};
    return Error{Code::cancelled, format("{}: aborted", what)};
  } catch (const std::exception& exception) {
    return error_of(what, exception);
  }

  std::string what;
  Duration bound{0};
  bool on_host = true;  // wait() ends when the data is there
  c10::intrusive_ptr<c10d::Work> work;
  std::vector<at::Tensor> tensors;                             // of a device
  std::vector<std::pair<at::Tensor, at::Tensor>> copies_back;  // to the CPU, from the device
};

Result<void> Transfer::wait() {
  if (error_) return *error_;
  if (!state_) return {};
  if (state_->on_host) return wait_on_host();
  const auto state = std::exchange(state_, nullptr);
  const auto done = state->run([&] {
    state->work->blockCurrentStream();
    return true;
  });
  if (!done) error_ = done.error();
  return done;
}

Result<void> Transfer::wait_on_host() {
  if (error_) return *error_;
  const auto state = std::exchange(state_, nullptr);
  if (!state) return {};
  const bool on_cpu = state->tensors.empty();
  const auto done = state->run([&] {
    if (on_cpu) return state->work->wait(milliseconds(state->bound));
    poll(*state->work, state->bound);
    return true;
  });
  if (!done) error_ = done.error();
  if (done)
    for (const auto& [to, from] : state->copies_back) to.copy_(from);
  return done;
}

bool Transfer::done() const { return !state_ || (state_->on_host && state_->work->isCompleted()); }

Comm::Comm(c10::intrusive_ptr<c10d::ProcessGroup> group, Duration bound)
    : bound_(bound),
      device_bound_(device_bound_of(*group, bound)),
      device_(first_device(*group)),
      serves_cpu_(serves(*group, at::kCPU)),
      rank_(group->getRank()),
      size_(group->getSize()),
      members_(members_of(*group)) {
  group_ = std::make_shared<c10::intrusive_ptr<c10d::ProcessGroup>>(std::move(group));
}

Result<void> Comm::use_device(at::Device device) {
  if (group_ && !serves(**group_, device.type()))
    return Error{Code::invalid,
                 format("the model is on {}, and the process group has no backend for it: "
                        "init_process_group(\"cpu:lockstep,{}:nccl\") makes a group with both",
                        device.str(), c10::DeviceTypeName(device.type(), /*lower_case=*/true))};
  device_ = device;
  return {};
}

// A tensor as it travels.
struct Comm::Staged {
  at::Tensor tensor;
  at::Tensor original;  // undefined if it is the same, or if nothing comes back
};

Comm::Staged Comm::stage(const at::Tensor& tensor, bool is_output) const {
  if (serves_cpu_ || !tensor.is_cpu()) return {tensor, {}};
  return {tensor.to(device_), is_output ? tensor : at::Tensor()};
}

template <class Start>
Transfer Comm::start(std::string_view verb, std::string_view label, std::vector<Staged> tensors,
                     Start&& start_work) {
  Transfer transfer;
  auto state = std::make_shared<Transfer::State>();
  state->what = format("rank {}: {} of {} ({})", global_rank(), verb, label, text(members_));
  state->on_host = tensors.front().tensor.is_cpu();
  state->bound = state->on_host ? bound_ : device_bound_;
  for (const auto& [tensor, original] : tensors) {
    if (!tensor.is_cpu()) state->tensors.push_back(tensor);
    if (original.defined()) state->copies_back.emplace_back(original, tensor);
  }
  state->on_host |= !state->copies_back.empty();
  const comm::FlightLabel flight_label(label);
  try {
    state->work = start_work();
    transfer.state_ = std::move(state);
  } catch (const std::exception& exception) {
    transfer.error_ = error_of(state->what, exception);
  }
  return transfer;
}

Transfer Comm::all_reduce(at::Tensor tensor, ReduceOp op, std::string_view label) {
  if (!group_) return {};
  const auto staged = stage(tensor, /*is_output=*/true);
  return start("all-reduce", label, {staged}, [&] {
    c10d::AllreduceOptions options;
    options.reduceOp = c10d_name(op);
    std::vector<at::Tensor> tensors{staged.tensor};
    return (*group_)->allreduce(tensors, options);
  });
}

Transfer Comm::broadcast(at::Tensor tensor, int root, std::string_view label) {
  if (!group_) return {};
  const auto staged = stage(tensor, /*is_output=*/true);
  return start("broadcast", label, {staged}, [&] {
    c10d::BroadcastOptions options;
    options.rootRank = root;
    std::vector<at::Tensor> tensors{staged.tensor};
    return (*group_)->broadcast(tensors, options);
  });
}

Transfer Comm::all_gather(at::Tensor whole, at::Tensor part, std::string_view label) {
  if (!group_) {
    if (whole.data_ptr() != part.data_ptr()) whole.copy_(part);
    return {};
  }
  auto to = stage(whole, /*is_output=*/true);
  auto from = stage(part, /*is_output=*/false);
  return start("all-gather", label, {to, from},
               [&] { return all_gather_single(**group_, to.tensor, from.tensor); });
}

Transfer Comm::reduce_scatter(at::Tensor part, at::Tensor whole, std::string_view label) {
  if (!group_) {
    if (whole.data_ptr() != part.data_ptr()) part.copy_(whole);
    return {};
  }
  auto to = stage(part, /*is_output=*/true);
  auto from = stage(whole, /*is_output=*/false);
  return start("reduce-scatter", label, {to, from},
               [&] { return reduce_scatter_single(**group_, to.tensor, from.tensor); });
}

Transfer Comm::all_to_all(at::Tensor output, std::vector<std::int64_t> output_sizes,
                          at::Tensor input, std::vector<std::int64_t> input_sizes,
                          std::string_view label) {
  if (!group_) {
    output.copy_(input);
    return {};
  }
  auto to = stage(output, /*is_output=*/true);
  auto from = stage(input, /*is_output=*/false);
  return start("all-to-all", label, {to, from}, [&] {
    return all_to_all_single(**group_, to.tensor, from.tensor, output_sizes, input_sizes);
  });
}

Transfer Comm::send(at::Tensor tensor, int to, std::string_view label) {
  LS_CHECK(group_ && to != rank_);
  const auto staged = stage(tensor, /*is_output=*/false);
  return start("send", label, {staged}, [&] {
    std::vector<at::Tensor> tensors{staged.tensor};
    return (*group_)->send(tensors, to, kTag);
  });
}

Transfer Comm::receive(at::Tensor tensor, int from, std::string_view label) {
  LS_CHECK(group_ && from != rank_);
  const auto staged = stage(tensor, /*is_output=*/true);
  return start("receive", label, {staged}, [&] {
    std::vector<at::Tensor> tensors{staged.tensor};
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
    Comm part(split_group(**group_, ranks, rank, name, device_), bound_);
    part.members_ = members;
    part.device_ = device_;
    return part;
  } catch (const std::exception& exception) {
    return error_of(format("rank {}: making the group {}", global_rank(), text(members)),
                    exception);
  }
}

// A device's transfers are kernels. If a peer is dead, shutdown() waits for them without end.
void Comm::leave() {
  if (!group_) return;
  for (const auto& device : (*group_)->getDeviceTypes()) {
    try {
      const auto backend = (*group_)->getBackend(device.type());
      device_.is_cpu() ? backend->shutdown() : backend->abort();
    } catch (const std::exception& exception) {
      LS_LOG(warning, "rank {} leaving {}: {}", global_rank(), text(members_), exception.what());
    }
  }
}

Result<double> Comm::all_reduce(double value, ReduceOp op, std::string_view label) {
  if (!group_) return value;
  auto tensor = at::full({1}, value, at::TensorOptions(device_).dtype(at::kDouble));
  TRY(all_reduce(tensor, op, label).wait_on_host());
  return tensor.item<double>();
}

Result<std::vector<std::int64_t>> Comm::all_gather(std::int64_t value, std::string_view label) {
  if (!group_) return std::vector{value};
  const auto options = at::TensorOptions(device_).dtype(at::kLong);
  const auto all = at::zeros({size_}, options);
  TRY(all_gather(all, at::full({1}, value, options), label).wait_on_host());
  const auto here = all.cpu();
  const auto* first = here.const_data_ptr<std::int64_t>();
  return std::vector<std::int64_t>(first, first + size_);
}

Result<at::Tensor> Comm::allocate(std::int64_t elements, at::ScalarType type, at::Device device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  try {
    if (!group_ || !device.is_cpu()) return at::zeros({elements}, options);
    auto backend = (*group_)->getBackend(device.type());
    if (!backend->supportsTensorAlloc(device.index())) return at::zeros({elements}, options);
    return backend->allocateTensor(elements, options).zero_();
  } catch (const std::exception& exception) {
    return error_of(format("allocating {} elements on {}", elements, device.str()), exception);
  }
}

}  // namespace lockstep::train
