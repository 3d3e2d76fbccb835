#include "train/checkpoint/random_state.h"

#include <mutex>
#include <string>

#include <ATen/CPUGeneratorImpl.h>

#include "base/random.h"

namespace lockstep::train {

OwnedTensor random_state(int rank, int ranks) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  auto row = generator.get_state();
  const auto size = row.numel();
  return OwnedTensor{
      std::string(kRandomName), {ranks, size}, {rank * size, (rank + 1) * size}, std::move(row)};
}

void set_random_state(const OwnedTensor& row) {
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_state(row.tensor);
}

void seed_random(std::uint64_t seed, std::int64_t step, int rank) {
  Random mixed(seed);
  mixed = Random(mixed.next() ^ static_cast<std::uint64_t>(step));
  mixed = Random(mixed.next() ^ static_cast<std::uint64_t>(rank));
  auto generator = at::detail::getDefaultCPUGenerator();
  const std::lock_guard lock(generator.mutex());
  generator.set_current_seed(mixed.next());
}

}  // namespace lockstep::train
