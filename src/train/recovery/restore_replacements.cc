#include "train/recovery/restore_replacements.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

// Transfers a shard's state from the replicas that hold it to those that lack it. The plan gives
// each of these one sender, chosen by host, so that no network link carries more than necessary and
// the rest of the group nothing. If too few replicas are left for that, the first of them
// broadcasts.
class StateTransfer {
 public:
  StateTransfer(const RecoveryPlan& plan, const std::vector<int>& host_of_slot, Mesh& mesh)
      : replicas_(mesh.replicate()) {
    const int shard = mesh.shard().rank();
    const auto replicas = plan.replicas_of(shard);
    receives_ = std::count(replicas.without_state.begin(), replicas.without_state.end(),
                           replicas_.rank()) > 0;
    if (replicas.without_state.size() > replicas.with_state.size()) {
      broadcaster_ = replicas.with_state.front();
      return;
    }
    const auto senders = plan.senders(host_of_slot);
    for (const int replica_without : replicas.without_state) {
      const int sender = senders.at(replica_without * plan.shards + shard) / plan.shards;
      if (replica_without == replicas_.rank()) from_ = sender;
      if (sender == replicas_.rank()) to_.push_back(replica_without);
    }
  }

  // True if this rank takes part in the transfer, and true if it receives the state.
  bool participates() const { return broadcaster_ || from_ || !to_.empty(); }
  bool receives() const { return receives_; }
  // Starts the transfer of one tensor. Every participating rank transfers the same ones in the same
  // order.
  void transfer(const at::Tensor& tensor, std::string_view name) {
    if (broadcaster_) transfers_.push_back(replicas_.broadcast(tensor, *broadcaster_, name));
    if (from_) transfers_.push_back(replicas_.receive(tensor, *from_, name));
    for (const int to : to_) transfers_.push_back(replicas_.send(tensor, to, name));
  }
  // Waits for all of them, so that none still writes when the first error is returned.
  Result<void> wait() {
    Result<void> outcome;
    for (auto& transfer : std::exchange(transfers_, {}))
      if (auto done = transfer.wait(); outcome && !done) outcome = std::move(done);
    return outcome;
  }

 private:
  Comm& replicas_;
  bool receives_ = false;
  std::optional<int> broadcaster_;  // of all ranks
  std::optional<int> from_;
  std::vector<int> to_;
  std::vector<Transfer> transfers_;  // in flight
};

// A rank's state, in as few tensors as possible.
std::vector<NamedTensor> tensors_of(const RecoverableTraining& training,
                                    std::vector<NamedTensor> optimizer) {
  std::vector<NamedTensor> tensors;
  for (const auto& unit : training.model.units())
    tensors.push_back({format("unit {}", unit.index()), unit.master()});
  for (auto& tensor : optimizer) tensors.push_back(std::move(tensor));
  for (const auto* list : {&training.model.frozen(), &training.model.buffers()})
    for (const auto& [name, tensor] : *list) tensors.push_back({name, tensor.detach()});
  return tensors;
}

// The names from the rank that holds them, one name a line.
Result<std::vector<std::string>> share_names(StateTransfer& state_transfer,
                                             const std::vector<NamedTensor>& mine) {
  std::string lines;
  if (!state_transfer.receives())
    for (const auto& [name, tensor] : mine) lines += name + "\n";
  const auto size = at::full({1}, static_cast<std::int64_t>(lines.size()), at::kLong);
  state_transfer.transfer(size, "the size of the optimizer's names");
  TRY(state_transfer.wait());
  const auto bytes = at::empty({size.item<std::int64_t>() + 1}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), lines.data(), lines.size());
  state_transfer.transfer(bytes, "the optimizer's names");
  TRY(state_transfer.wait());
  lines.assign(static_cast<const char*>(bytes.const_data_ptr()),
               static_cast<std::size_t>(bytes.numel() - 1));
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < lines.size();) {
    const auto end = lines.find('\n', begin);
    names.push_back(lines.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// An optimizer may create its state in its first step only: a replacement's is created like the
// other's.
Result<std::vector<NamedTensor>> optimizer_state(StateTransfer& state_transfer,
                                                 ResumableOptimizer& optimizer) {
  auto state = TRY(optimizer.flat_state());
  const auto names = TRY(share_names(state_transfer, state));
  if (!state_transfer.receives()) return state;
  TRY(optimizer.make_state(names));
  return optimizer.flat_state();
}

Result<void> transfer_state(StateTransfer& state_transfer, const RecoverableTraining& training) {
  auto optimizer = TRY(optimizer_state(state_transfer, training.optimizer));
  for (const auto& [name, tensor] : tensors_of(training, std::move(optimizer)))
    state_transfer.transfer(tensor, name);
  return state_transfer.wait();
}

}  // namespace

Result<void> restore_replacements(const RecoveryPlan& plan, const RecoverableTraining& training) {
  if (plan.replacements.empty()) return {};
  const at::NoGradGuard no_grad;
  auto& mesh = training.model.mesh();
  const auto places = TRY(mesh.rank_placement());
  StateTransfer state_transfer(plan, places.host_of_rank(), mesh);
  if (state_transfer.participates()) TRY(transfer_state(state_transfer, training));
  // Ranks without a transfer wait here: their next collective has a shorter timeout than a restore.
  TRY(mesh.world().all_reduce(0, ReduceOp::max, "the replacements have their state"));
  return {};
}

}  // namespace lockstep::train
