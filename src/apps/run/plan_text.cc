#include "apps/run/plan_text.h"

#include "apps/budget/budget_text.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "base/clock.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

// Hosts without a name are for the engine to choose. Its queue is its own.
std::string start_at_once_text(const api::PlanView& plan) {
  const bool engine_chooses = !plan.places.empty() && plan.places.front().host.empty();
  if (engine_chooses)
    return "would go to its engine at once, which chooses the hosts and when it starts";
  std::vector<std::string> placements;
  for (const api::PlacementView& placement : plan.places)
    placements.push_back(format("{} ({})", placement.host, joined(placement.devices, ", ")));
  return "would start at once on " + joined(placements, ", ");
}

std::string preempted_text(const api::PreemptedView& one) {
  std::vector<std::string> hosts;
  for (const api::PlacementView& placement : one.to) hosts.push_back(placement.host);
  const std::string where = hosts.empty() ? "" : " to " + joined(hosts, ", ");
  // An evicted run may have no checkpoint.
  const bool saved = one.cause != model::Cause::evicted;
  return format(
      "\n{} would be {} from {}{}, and go on {}", one.run, name_of(one.cause), one.from, where,
      saved ? "from its last checkpoint" : "later, from its last checkpoint if it has written one");
}

}  // namespace

std::string ignored_text(const std::vector<std::string>& sections) {
  return format("The daemon ignores {}: it has another engine", joined(sections, ", "));
}

std::string plan_text(const api::PlanView& plan, const model::RunSpec& spec) {
  const Time now = SystemClock().now();
  std::string lines = plan.starts ? format("{} {}", size_text(spec), start_at_once_text(plan))
                                  : format("{} would wait: it {}", size_text(spec), plan.reason);
  if (!plan.starts && plan.expected_start)
    lines +=
        format("\nIt would start {}; {}", start_text(*plan.expected_start, plan.latest_start, now),
               runs_ahead_text(plan.runs_ahead));
  for (const api::PreemptedView& one : plan.preempted) lines += preempted_text(one);
  lines += format("\nIt would cost at most {} device-minutes{}", minutes_text(plan.cost_minutes),
                  plan.available_minutes ? format(", and {} has {}", spec.project,
                                                  minutes_text(*plan.available_minutes))
                                         : std::string());
  if (plan.ignored) lines += "\n" + ignored_text(*plan.ignored);
  return lines + "\nNothing was submitted";
}

}  // namespace lockstep::cli
