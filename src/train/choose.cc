#include "train/choose.h"

#include <algorithm>
#include <limits>

#include "base/format.h"
#include "train/gather.h"
#include "train/reduce.h"

namespace lockstep {
namespace {

std::string parts(const Need& need) {
  return format("parameters {}, gradients {}, optimizer {}, under way {}", text(need.parameters),
                text(need.gradients), text(need.optimizer), text(need.under_way));
}

}  // namespace

Policy in_groups(const Policy& asked, int size) {
  auto policy = asked;
  policy.automatic = false;
  policy.parameters = policy.gradients = policy.optimizer = size;
  policy.keep = asked.keep && size > 1;
  return policy;
}

Need need_of(const Layout& layout, const Policy& policy) {
  Need need;
  // Of a unit whole gradients, or parameters: buffers serve either. Frozen ones have their own.
  Bytes largest;
  Bytes largest_frozen;
  int divided = 0;
  for (const auto& unit : layout.units) {
    const auto width = static_cast<std::int64_t>(c10::elementSize(unit.type));
    const auto wide = static_cast<std::int64_t>(c10::elementSize(exact_type(unit.type)));
    const bool comes_and_goes = unit.block != ParameterSpec::kRoot;
    const Bytes whole(unit.elements * width);
    need.parameters += comes_and_goes ? whole / policy.parameters : whole;
    if (comes_and_goes) ++divided;
    if (!unit.trainable) {
      if (comes_and_goes) largest_frozen = std::max(largest_frozen, whole);
      continue;
    }
    const Bytes gradients(unit.elements * wide);
    largest = std::max(largest, gradients);
    need.gradients += gradients / policy.gradients;
    if (policy.optimizer > policy.gradients) need.gradients += gradients / policy.optimizer;
    const int copies = 2 + (wide > width ? 1 : 0);
    need.optimizer += gradients * copies / policy.optimizer;
  }
  const int gathered = policy.keep ? divided : std::min(divided, 1 + Gathers::kAhead);
  const int units = static_cast<int>(layout.units.size());
  const int reduced = policy.gradients > 1 ? std::min(units, Reductions::kUnderWay) : 0;
  need.under_way = largest * (gathered + reduced) + largest_frozen * gathered;
  return need;
}

Result<Choice> choose_policy(const Policy& asked, const std::vector<ParameterSpec>& parameters,
                             const Places& places, Bytes memory, bool blocks) {
  const auto limit = memory - memory / kActivationsShare;
  const int ranks = places.ranks();
  std::string smaller;  // why not a smaller group
  std::string nearest;
  Bytes least(std::numeric_limits<std::int64_t>::max());
  for (int size = 1; size <= ranks && (size == 1 || blocks); ++size) {
    if (ranks % size != 0 || !places.suits(size)) continue;
    const auto policy = in_groups(asked, size);
    const auto need = need_of(Layout::build(parameters, policy, {0, size}), policy);
    if (need.total() <= limit)
      return Choice{
          policy, format("policy auto: {}, {}: {} of {} a rank ({}; a quarter is left for "
                         "activations){}",
                         text(policy, ranks), places.about(size), text(need.total()), text(memory),
                         parts(need), smaller)};
    smaller = format("; {} would take {}", text(policy, ranks), text(need.total()));
    if (need.total() < least) {
      least = need.total();
      nearest = format("{} takes {} ({})", text(policy, ranks), text(least), parts(need));
    }
  }
  return Error{Code::exhausted,
               format("policy auto: nothing fits into three quarters of {} a rank; the nearest, "
                      "{}: {}",
                      text(memory), nearest,
                      blocks ? "use more ranks, smaller blocks, or state the memory (auto:80GiB)"
                             : "name the module's blocks, so that its parameters can be divided")};
}

}  // namespace lockstep
