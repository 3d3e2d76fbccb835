#include "train/checkpoint/random_state.h"

#include <mutex>
#include <string>
#include <utility>

#include <ATen/Context.h>
#include <ATen/core/Generator.h>
#include <c10/core/DeviceType.h>

#include "base/random.h"

namespace lockstep::train {
namespace {

std::vector<at::Generator> generators_of(at::Device device) {
  auto& context = at::globalContext();
  std::vector<at::Generator> generators{context.defaultGenerator(at::kCPU)};
  if (!device.is_cpu()) generators.push_back(context.defaultGenerator(device));
  return generators;
}

std::string name_of(const at::Generator& generator) {
  return std::string(kRandomPrefix) +
         c10::DeviceTypeName(generator.device().type(), /*lower_case=*/true);
}

}  // namespace

std::vector<OwnedTensor> random_state(at::Device device, int rank, int ranks) {
  std::vector<OwnedTensor> rows;
  for (auto& generator : generators_of(device)) {
    const std::lock_guard lock(generator.mutex());
    auto row = generator.get_state();
    const auto size = row.numel();
    rows.push_back(
        {name_of(generator), {ranks, size}, {rank * size, (rank + 1) * size}, std::move(row)});
  }
  return rows;
}

void set_random_state(at::Device device, const std::vector<OwnedTensor>& rows) {
  auto generators = generators_of(device);
  for (std::size_t i = 0; i < generators.size(); ++i) {
    const std::lock_guard lock(generators[i].mutex());
    generators[i].set_state(rows[i].tensor);
  }
}

void seed_random(at::Device device, std::uint64_t seed, std::int64_t step, int rank) {
  Random mixed(seed);
  mixed = Random(mixed.next() ^ static_cast<std::uint64_t>(step));
  mixed = Random(mixed.next() ^ static_cast<std::uint64_t>(rank));
  for (auto& generator : generators_of(device)) {
    const std::lock_guard lock(generator.mutex());
    generator.set_current_seed(mixed.next());
  }
}

}  // namespace lockstep::train
