#include "train/choose_policy.h"

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "train/engine/parameter_gatherer.h"
#include "train/gradient/gradient_reducer.h"

namespace lockstep::train {
namespace {

std::string parts(const MemoryEstimate& estimate) {
  return format("parameters {}, gradients {}, optimizer {}, under way {}",
                lockstep::text(estimate.parameters), lockstep::text(estimate.gradients),
                lockstep::text(estimate.optimizer), lockstep::text(estimate.in_flight));
}

}  // namespace

Policy with_group_size(const Policy& asked, int size) {
  auto policy = asked;
  policy.automatic = false;
  policy.parameters = policy.gradients = policy.optimizer = size;
  policy.keep_gathered = asked.keep_gathered && size > 1;
  return policy;
}

MemoryEstimate estimate_memory(const Layout& layout, const Policy& policy) {
  MemoryEstimate estimate;
  // The largest unit's whole gradients, or parameters: buffers serve either. Frozen ones have their
  // own.
  Bytes largest;
  Bytes largest_frozen;
  int divided = 0;
  for (const auto& unit : layout.units) {
    const auto width = static_cast<std::int64_t>(c10::elementSize(unit.type));
    const auto wide = static_cast<std::int64_t>(c10::elementSize(accumulation_type(unit.type)));
    const bool is_gathered = unit.block != ParameterSpec::kRoot;
    const Bytes whole(unit.elements * width);
    estimate.parameters += is_gathered ? whole / policy.parameters : whole;
    if (is_gathered) ++divided;
    if (!unit.trainable) {
      if (is_gathered) largest_frozen = std::max(largest_frozen, whole);
      continue;
    }
    const Bytes gradients(unit.elements * wide);
    largest = std::max(largest, gradients);
    estimate.gradients += gradients / policy.gradients;
    if (policy.optimizer > policy.gradients) estimate.gradients += gradients / policy.optimizer;
    const int copies = 2 + (wide > width ? 1 : 0);
    if (!policy.offload) estimate.optimizer += gradients * copies / policy.optimizer;
  }
  const int gathered =
      policy.keep_gathered ? divided : std::min(divided, 1 + ParameterGatherer::kPrefetchedBlocks);
  const int units = static_cast<int>(layout.units.size());
  const int reduced =
      policy.gradients > 1 ? std::min(units, GradientReducer::kUnreducedUnitsMax) : 0;
  estimate.in_flight = largest * (gathered + reduced) + largest_frozen * gathered;
  return estimate;
}

Result<PolicyChoice> choose_policy(const Policy& asked,
                                   const std::vector<ParameterSpec>& parameters,
                                   const RankPlacement& placement, Bytes memory, bool blocks) {
  const auto limit = memory - memory / kActivationsShare;
  const int ranks = placement.ranks();
  std::string smaller;  // reason against a smaller group
  std::string nearest;
  Bytes least(std::numeric_limits<std::int64_t>::max());
  for (int size = 1; size <= ranks && (size == 1 || blocks); ++size) {
    if (ranks % size != 0 || !placement.fits_hosts(size)) continue;
    const auto policy = with_group_size(asked, size);
    const auto estimate = estimate_memory(Layout::build(parameters, policy, {0, size}), policy);
    if (estimate.total() <= limit)
      return PolicyChoice{
          policy, format("policy auto: {}, {}: {} of {} a rank ({}; a quarter is left for "
                         "activations){}",
                         text(policy, ranks), placement.describe_groups(size),
                         lockstep::text(estimate.total()), lockstep::text(memory), parts(estimate),
                         smaller)};
    smaller = format("; {} would take {}", text(policy, ranks), lockstep::text(estimate.total()));
    if (estimate.total() < least) {
      least = estimate.total();
      nearest =
          format("{} takes {} ({})", text(policy, ranks), lockstep::text(least), parts(estimate));
    }
  }
  return Error{Code::exhausted,
               format("policy auto: nothing fits into three quarters of {} a rank; the nearest, "
                      "{}: {}",
                      lockstep::text(memory), nearest,
                      blocks ? "use more ranks, smaller blocks, or state the memory (auto:80GiB)"
                             : "name the module's blocks, so that its parameters can be divided")};
}

}  // namespace lockstep::train
