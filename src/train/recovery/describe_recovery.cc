#include "train/recovery/describe_recovery.h"

#include <cstddef>
#include <numeric>
#include <vector>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kNamed = 8;  // above this only the number of ranks is given

std::string describe_ranks(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return format("rank {}", ranks.front());
  if (ranks.size() > kNamed) return format("{} ranks", ranks.size());
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return format("ranks {} and {}", joined(first, ", "), ranks.back());
}

bool ranks_unchanged(const std::vector<int>& slots) {
  for (std::size_t slot = 0; slot < slots.size(); ++slot)
    if (slots[slot] != static_cast<int>(slot)) return false;
  return true;
}

// "; ranks 2 and 3 go on as ranks 0 and 1"
std::string describe_survivors(const RecoveryPlan& plan) {
  const auto& slots = plan.slots;
  auto description = format("; {} {} on", describe_ranks(slots), slots.size() == 1 ? "goes" : "go");
  if (ranks_unchanged(slots) || slots.size() > kNamed) return description;
  std::vector<int> numbers(slots.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return description + " as " + describe_ranks(numbers);
}

// " (steps 13 to 15 are done again)"
std::string describe_repeated_steps(std::int64_t step, std::int64_t whole) {
  if (whole <= step) return "";
  if (whole == step + 1) return format(" (step {} is done again)", whole);
  return format(" (steps {} to {} are done again)", step + 1, whole);
}

}  // namespace

std::string describe_recovery(const RecoveryPlan& plan, std::int64_t step, Duration took) {
  auto description =
      plan.replacements.empty() && plan.lost.empty()
          ? std::string("the ranks lost connections to each other and connected again")
      : plan.replacements.empty()
          ? format("{} {} lost", describe_ranks(plan.lost), plan.lost.size() == 1 ? "was" : "were")
          : format("{} died and {} started again", describe_ranks(plan.replacements),
                   plan.replacements.size() == 1 ? "was" : "were");
  if (!plan.leaving.empty())
    description += format("; {} {}, no replica needs {}", describe_ranks(plan.leaving),
                          plan.leaving.size() == 1 ? "leaves" : "leave",
                          plan.leaving.size() == 1 ? "it" : "them");
  description += describe_survivors(plan);
  return description + format(" after step {} from {}{}, {} after they noticed", step,
                              plan.from_checkpoint ? "a checkpoint" : "memory",
                              describe_repeated_steps(step, plan.step), lockstep::text(took));
}

}  // namespace lockstep::train
