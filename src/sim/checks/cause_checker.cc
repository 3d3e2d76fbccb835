#include "sim/checks/cause_checker.h"

#include <algorithm>

namespace lockstep::sim {
namespace {

// Agents measure the running time by their own clock, from the start of their own ranks: at the
// earliest from the creation of the attempt.
constexpr Duration kSlack = std::chrono::seconds(10);

std::string describe_fault(const InjectedFault& fault) {
  std::vector<std::string> causes;
  for (model::Cause cause : fault.causes) causes.emplace_back(text(cause));
  return format("what befell it is {}{}{}", joined(causes, " or "),
                fault.reason_part.empty() ? "" : " of ", fault.reason_part);
}

}  // namespace

// Also records a fault of an attempt that the store does not know, because it may be adopted. A
// fault of an ended attempt has no effect.
void CauseChecker::record_fault(const model::AttemptName& id, InjectedFault fault) {
  const model::Attempt* attempt = find_attempt(id);
  if (attempt && attempt->state == model::AttemptState::ended) return;
  fault.injected_at = context_.timeline.now();
  const bool first = faults_.emplace(id, std::move(fault)).second;
  if (!first || (attempt && attempt->state == model::AttemptState::draining)) allow_any_cause(id);
}

// Null if the store does not know it.
const model::Attempt* CauseChecker::find_attempt(const model::AttemptName& id) const {
  const auto found = durable_.attempts.find(id.id);
  if (found == durable_.attempts.end() || found->second.generation != id.generation) return nullptr;
  return &found->second;
}

// The daemon may not know yet which host the engine has chosen: "rank 3", not "rank 3 on host a".
bool CauseChecker::matches(const model::Attempt& attempt, const InjectedFault& fault) {
  const std::string part = attempt.is_placed
                               ? fault.reason_part
                               : fault.reason_part.substr(0, fault.reason_part.find(" on host"));
  return fault.causes.contains(attempt.cause) && attempt.reason.find(part) != std::string::npos;
}

bool CauseChecker::is_detected(const model::AttemptName& id, std::string_view words) const {
  const model::Attempt* attempt = find_attempt(id);
  const auto fault = faults_.find(id);
  return attempt && attempt->state != model::AttemptState::ended && fault != faults_.end() &&
         matches(*attempt, fault->second) && attempt->reason.find(words) != std::string::npos;
}

void CauseChecker::record_rank_end(const model::AttemptName& attempt) {
  first_rank_end_.try_emplace(attempt, context_.timeline.now());
}

void CauseChecker::check(const model::Attempt& attempt) const {
  if (any_cause_allowed_.contains(name_of(attempt))) return;
  const auto found = faults_.find(name_of(attempt));
  const InjectedFault* fault = found == faults_.end() ? nullptr : &found->second;
  if (is_excused(attempt, fault)) return;
  if (fault && matches(attempt, *fault)) return;
  context_.report_violation(format("{} ends with cause {} ({}), but {}", text(attempt.id),
                                   text(attempt.cause), attempt.reason,
                                   fault ? describe_fault(*fault) : "it met no fault"));
}

// True for ends that other checks cover, and for a time-out that came first: also at the limit of
// before, if the run was extended while its agents ended it.
bool CauseChecker::is_excused(const model::Attempt& attempt, const InjectedFault* fault) const {
  if (attempt.cause == model::Cause::ok || attempt.cause == model::Cause::cancelled) return true;
  if (model::is_preemption(attempt.cause)) return true;
  const Duration extended = durable_.runs.at(attempt.id.run).extended;
  const bool ends_at_limit =
      (attempt.cause == model::Cause::timeout && time_is_up(attempt, Duration(0))) ||
      (attempt.cause == model::Cause::node_lost && extended > Duration(0) &&
       time_is_up(attempt, extended));
  if (!ends_at_limit) return false;
  const auto end = first_rank_end_.find(name_of(attempt));
  return !fault || end == first_rank_end_.end() ||
         end->second - fault->injected_at <= fault->detection_time_max;
}

// By the time limit, or by one that is `shorter` than that.
bool CauseChecker::time_is_up(const model::Attempt& attempt, Duration shorter) const {
  const model::Run& run = durable_.runs.at(attempt.id.run);
  const auto launched = launched_.find(name_of(attempt));
  const Time begin = launched == launched_.end()
                         ? attempt.created
                         : std::min(attempt.created, context_.clock.at(launched->second));
  return run.time_used + (*attempt.draining - begin) + kSlack >= model::time_limit(run) - shorter;
}

}  // namespace lockstep::sim
