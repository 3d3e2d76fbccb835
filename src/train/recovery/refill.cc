#include "train/recovery/refill.h"

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

namespace lockstep {
namespace {

// The way of a shard's state from the replicas that hold it to those that lack it. Each of these
// has one that sends to it, as the plan says by their hosts, so that no wire carries more than it
// must and the rest of the group nothing. Where too few are left for that, the first of them tells
// all.
class Handover {
 public:
  Handover(const RecoveryPlan& plan, const std::vector<int>& host_of_seat, Mesh& mesh)
      : replicas_(mesh.replicate()) {
    const int shard = mesh.shard().rank();
    const auto who = plan.replicas_of(shard);
    takes_ = std::count(who.lacking.begin(), who.lacking.end(), replicas_.rank()) > 0;
    if (who.lacking.size() > who.holding.size()) {
      teller_ = who.holding.front();
      return;
    }
    const auto senders = plan.senders(host_of_seat);
    for (const int lacking : who.lacking) {
      const int sender = senders.at(lacking * plan.shards + shard) / plan.shards;
      if (lacking == replicas_.rank()) from_ = sender;
      if (sender == replicas_.rank()) to_.push_back(lacking);
    }
  }

  // Whether this rank has anything to do with it, and whether it is to get the state.
  bool takes_part() const { return teller_ || from_ || !to_.empty(); }
  bool takes() const { return takes_; }
  // Begins with one tensor. Every rank that takes part hands over the same ones in the same order.
  void hand_over(const at::Tensor& tensor, std::string_view name) {
    if (teller_) transfers_.push_back(replicas_.broadcast(tensor, *teller_, name));
    if (from_) transfers_.push_back(replicas_.receive(tensor, *from_, name));
    for (const int to : to_) transfers_.push_back(replicas_.send(tensor, to, name));
  }
  // All are waited for, so that none still writes when the first error is told.
  Result<void> wait() {
    Result<void> outcome;
    for (auto& transfer : std::exchange(transfers_, {}))
      if (auto done = transfer.wait(); outcome && !done) outcome = std::move(done);
    return outcome;
  }

 private:
  Comm& replicas_;
  bool takes_ = false;
  std::optional<int> teller_;  // to all
  std::optional<int> from_;
  std::vector<int> to_;
  std::vector<Transfer> transfers_;  // begun
};

// What a rank's state consists of, in as few tensors as there may be.
std::vector<NamedTensor> tensors_of(const Training& training, std::vector<NamedTensor> optimizer) {
  std::vector<NamedTensor> tensors;
  for (const auto& unit : training.model.units())
    tensors.push_back({format("unit {}", unit.index()), unit.master()});
  for (auto& tensor : optimizer) tensors.push_back(std::move(tensor));
  for (const auto* list : {&training.model.frozen(), &training.model.buffers()})
    for (const auto& [name, tensor] : *list) tensors.push_back({name, tensor.detach()});
  return tensors;
}

// What the one that holds them says, a name a line.
Result<std::vector<std::string>> tell_names(Handover& handover,
                                            const std::vector<NamedTensor>& mine) {
  std::string words;
  if (!handover.takes())
    for (const auto& [name, tensor] : mine) words += name + "\n";
  const auto size = at::full({1}, static_cast<std::int64_t>(words.size()), at::kLong);
  handover.hand_over(size, "the size of the optimizer's names");
  TRY(handover.wait());
  const auto bytes = at::empty({size.item<std::int64_t>() + 1}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), words.data(), words.size());
  handover.hand_over(bytes, "the optimizer's names");
  TRY(handover.wait());
  words.assign(static_cast<const char*>(bytes.const_data_ptr()),
               static_cast<std::size_t>(bytes.numel() - 1));
  std::vector<std::string> names;
  for (std::size_t begin = 0; begin < words.size();) {
    const auto end = words.find('\n', begin);
    names.push_back(words.substr(begin, end - begin));
    begin = end + 1;
  }
  return names;
}

// An optimizer may make its state in its first step only: a newcomer's is made as the other's is.
Result<std::vector<NamedTensor>> optimizer_state(Handover& handover, Stepper& optimizer) {
  auto state = TRY(optimizer.flat_state());
  const auto names = TRY(tell_names(handover, state));
  if (!handover.takes()) return state;
  TRY(optimizer.state_like(names));
  return optimizer.flat_state();
}

Result<void> hand_over_all(Handover& handover, const Training& training) {
  auto optimizer = TRY(optimizer_state(handover, training.optimizer));
  for (const auto& [name, tensor] : tensors_of(training, std::move(optimizer)))
    handover.hand_over(tensor, name);
  return handover.wait();
}

}  // namespace

Result<void> refill(const RecoveryPlan& plan, const Training& training) {
  if (plan.newcomers.empty()) return {};
  const at::NoGradGuard no_grad;
  auto& mesh = training.model.mesh();
  const auto places = TRY(mesh.places());
  Handover handover(plan, places.host_of_rank(), mesh);
  if (handover.takes_part()) TRY(hand_over_all(handover, training));
  // Who has nothing to do waits here: what it would begin next has shorter bounds than a refill.
  TRY(mesh.world().reduce(0, Reduction::maximum, "the newcomers have their state"));
  return {};
}

}  // namespace lockstep
