#include "comm/choice/choose.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "base/check.h"
#include "comm/choice/predict.h"
#include "comm/choice/tuned.h"

namespace lockstep::comm {
namespace {

// The relative error of predictions. One message in ten arrives late.
constexpr double kDoubt = 0.1;
// For a plan that uses more of the wire and of the processors than a hierarchical one.
constexpr double kDoubtOfMany = 0.15;
// A plan that exchanges in pairs ends a round before it begins the next, which leaves gaps on the
// wire. Among plans with similar predictions that is decisive for large data: fully for very large
// data, half of it at this size.
constexpr double kGaps = 0.02, kMuch = 4 << 20;

bool leaves_gaps(Algorithm algorithm, int ranks) {
  return ranks > 2 &&
         (algorithm == Algorithm::recursive_doubling || algorithm == Algorithm::halving_doubling);
}

// The number of messages that a rank sends. Only trees cut data of at most one slot into pieces.
int messages(Algorithm algorithm, Operation operation, std::size_t bytes, int ranks) {
  constexpr std::size_t kTreePieceBytes = 16 * 1024;
  const int rounds = static_cast<int>(std::bit_width(static_cast<unsigned>(ranks - 1)));
  const auto tree_pieces = static_cast<int>(std::min<std::size_t>(bytes / kTreePieceBytes, 64));
  const bool all_reduces = operation == Operation::all_reduce;
  switch (algorithm) {
    case Algorithm::recursive_doubling:
    case Algorithm::dissemination:
      return rounds;
    case Algorithm::halving_doubling:
      return 2 * rounds;
    case Algorithm::double_tree:
      return (all_reduces ? 4 : 2) * std::max(1, tree_pieces);
    case Algorithm::ring:
      if (operation == Operation::broadcast || operation == Operation::reduce) return 1;
      return (all_reduces ? 2 : 1) * (ranks - 1);
    case Algorithm::flat:
    case Algorithm::pairwise:
      return ranks - 1;
  }
  LS_CHECK(false);
  return 0;
}

}  // namespace

CallPlan choose(Operation operation, std::size_t bytes, const GroupShape& group, const Costs& costs,
                std::optional<std::size_t> piece_bytes) {
  if (const auto plan = tuned_plan(operation, bytes, group, costs.tuned)) return *plan;
  const auto plans = fitting_plans(operation, bytes, group);
  LS_CHECK(!plans.empty());
  std::vector<Seconds> times;
  for (const CallPlan& plan : plans)
    times.push_back(predict(plan, operation, bytes, group, costs, piece_bytes));
  const bool has_hierarchy = std::ranges::any_of(plans, &CallPlan::hierarchical);
  // Uses no threshold, because a little more data could then change the choice back and forth.
  const auto counted = [&](std::size_t i) {
    const CallPlan& plan = plans[i];
    const int ranks = plan.hierarchical ? group.hosts : group.ranks;
    const double much = static_cast<double>(bytes) / (static_cast<double>(bytes) + kMuch);
    const double gaps = leaves_gaps(plan.algorithm, ranks) ? kGaps * much : 0;
    const double time = times[i].count() * (1 + gaps);
    const double late =
        messages(plan.algorithm, operation, bytes, ranks) * 2 * costs.between_hosts.latency;
    if (has_hierarchy && !plan.hierarchical) return time + kDoubtOfMany * time;
    return time + kDoubt * std::min(has_hierarchy ? time / 2 : time, late);
  };
  std::size_t best = 0;
  for (std::size_t i = 1; i < plans.size(); ++i)
    if (counted(i) < counted(best)) best = i;
  return plans[best];
}

}  // namespace lockstep::comm
