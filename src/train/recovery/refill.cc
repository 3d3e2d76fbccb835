#include "train/recovery/refill.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include "base/format.h"

namespace lockstep {
namespace {

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

// What the source says, a name a line.
Result<std::vector<std::string>> tell_names(Comm& group, int source,
                                            const std::vector<NamedTensor>& mine) {
  std::string words;
  if (group.rank() == source)
    for (const auto& [name, tensor] : mine) words += name + "\n";
  const auto size = at::full({1}, static_cast<std::int64_t>(words.size()), at::kLong);
  TRY(group.broadcast(size, source, "the size of the optimizer's names").wait());
  const auto bytes = at::empty({size.item<std::int64_t>() + 1}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), words.data(), words.size());
  TRY(group.broadcast(bytes, source, "the optimizer's names").wait());
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

// An optimizer may make its state in its first step only: a newcomer's is made as the source's is.
Result<std::vector<NamedTensor>> optimizer_state(Comm& group, int source, bool newcomer,
                                                 Stepper& optimizer) {
  auto state = TRY(optimizer.flat_state());
  const auto names = TRY(tell_names(group, source, state));
  if (!newcomer) return state;
  TRY(optimizer.state_like(names));
  return optimizer.flat_state();
}

}  // namespace

Result<void> refill(const RecoveryPlan& plan, bool newcomer, const Training& training) {
  if (plan.newcomers.empty()) return {};
  const at::NoGradGuard no_grad;
  auto& mesh = training.model.mesh();
  auto& replicas = mesh.replicate();
  const int source = plan.source_of(mesh.shard().rank());
  auto optimizer = TRY(optimizer_state(replicas, source, newcomer, training.optimizer));
  std::vector<Transfer> transfers;
  for (const auto& [name, tensor] : tensors_of(training, std::move(optimizer)))
    transfers.push_back(replicas.broadcast(tensor, source, name));
  // All are waited for, so that none still writes when the first error is told.
  Result<void> outcome;
  for (auto& transfer : transfers)
    if (auto done = transfer.wait(); outcome && !done) outcome = std::move(done);
  return outcome;
}

}  // namespace lockstep
