#include "sim/checks/preemption_checker.h"

#include <algorithm>

#include "base/format.h"
#include "map/query.h"

namespace lockstep::sim {
namespace {

constexpr int kMovesPromised = 3;  // of one run, at most

model::HostState state_of(const CommitView& rows, const std::string& host) {
  const auto hosts = rows.hosts();
  const auto found = hosts.find(host);
  return found == hosts.end() ? model::HostState::open : found->second;
}

// "moved from host a to make room for demo/7": demo/7; nothing if no run is named.
std::optional<model::RunId> beneficiary_in(const std::string& reason) {
  const std::string_view words = " to make room for ";
  const auto at = reason.find(words);
  if (at == std::string::npos) return std::nullopt;
  auto run = model::parse_run_id(std::string_view(reason).substr(at + words.size()));
  return run ? std::optional(*run) : std::nullopt;
}

}  // namespace

void PreemptionChecker::report_wrong_preemption(const model::Run& run,
                                                const model::Attempt& attempt,
                                                std::string_view why) {
  context_.report_violation(format("{} is {}, {}", text(run.id), text(attempt.cause), why));
}

void PreemptionChecker::check(const Commit& commit) {
  for (const auto& [id, attempt] : commit.attempts) check_attempt(commit, *attempt);
}

void PreemptionChecker::check_attempt(const Commit& commit, const model::Attempt& after) {
  const model::Run& run = *CommitView(durable_, commit).find(after.id.run);
  const auto found = durable_.attempts.find(after.id);
  const model::Attempt* before = found == durable_.attempts.end() ? nullptr : &found->second;
  if (!before) return;
  if (before->last_checkpoint &&
      (!after.last_checkpoint || *after.last_checkpoint < *before->last_checkpoint))
    context_.report_violation(text(after.id) + " forgets its newest checkpoint");
  const bool leaves = model::is_preemption(after.cause) && !before->draining;
  if (after.cause == model::Cause::node_stopped && !after.is_placed) return;  // by its engine
  if (leaves && after.cause != model::Cause::budget) return check_preempted(commit, run, after);
  if (before->move_destination != after.move_destination)
    context_.report_violation(text(after.id) + " is to go somewhere else");
  const bool ends =
      after.state == model::AttemptState::ended && before->state != model::AttemptState::ended;
  if (ends && after.cause == model::Cause::moved && !model::is_final(run.state))
    check_next(commit, after);
}

// Normal and debug runs may be preempted if they run on one host and have written a checkpoint
// there; preemptible runs always.
void PreemptionChecker::check_preempted(const Commit& commit, const model::Run& run,
                                        const model::Attempt& attempt) {
  check_beneficiary(commit, run, attempt);
  const bool preemptible = run.spec.run_class == model::RunClass::preemptible;
  if (preemptible != (attempt.cause == model::Cause::evicted))
    return report_wrong_preemption(run, attempt,
                                   format("and of class {}", name_of(run.spec.run_class)));
  if (run.audit.empty() || run.audit.back().time != context_.clock.now())
    report_wrong_preemption(run, attempt, "and nothing says so in its events");
  if (preemptible) return;
  if (run.spec.stays) report_wrong_preemption(run, attempt, "and is to stay where it is");
  if (model::node_count(run.spec) != 1)
    report_wrong_preemption(run, attempt, "and stands on several hosts");
  if (!attempt.last_checkpoint || !attempt.started)
    return report_wrong_preemption(run, attempt, "and has written no checkpoint where it is");
  if (attempt.cause == model::Cause::moved) return check_move(commit, run, attempt);
  if (run.spec.run_class != model::RunClass::normal)
    report_wrong_preemption(run, attempt, "and is short");
  if (const Duration since = *attempt.last_checkpoint - *attempt.started; since < interval_)
    report_wrong_preemption(run, attempt,
                            format("and had run for {} at its last checkpoint", text(since)));
}

void PreemptionChecker::check_move(const Commit& commit, const model::Run& run,
                                   const model::Attempt& attempt) {
  const auto before = durable_.runs.find(run.id);
  const int moves = before == durable_.runs.end() ? 0 : before->second.moves;
  if (run.moves != moves + 1 || run.moves > kMovesPromised)
    report_wrong_preemption(run, attempt, format("for the {}th time after {}", run.moves, moves));
  if (attempt.move_destination.size() != 1 ||
      std::ssize(attempt.move_destination.front().devices) != run.spec.devices)
    return report_wrong_preemption(run, attempt,
                                   "and has not the devices that it needs where it goes");
  const std::string& host = attempt.move_destination.front().host;
  if (const model::HostState state = state_of(CommitView(durable_, commit), host);
      state >= model::HostState::closed)
    report_wrong_preemption(run, attempt, format("to {}, which is {}", host, text(state)));
}

// Another run waits for the devices, or the host is drained.
void PreemptionChecker::check_beneficiary(const Commit& commit, const model::Run& run,
                                          const model::Attempt& attempt) {
  const CommitView rows(durable_, commit);
  const auto id = beneficiary_in(attempt.reason);
  const model::Run* other = id ? rows.find(*id) : nullptr;
  const bool waits = other && other->id != run.id && model::waits_for_devices(*other);
  const model::Node* node = rows.find(model::NodeId{attempt.id, 0});
  const bool driven_out = attempt.cause == model::Cause::moved && node &&
                          state_of(rows, node->host) == model::HostState::drained;
  if (!waits && !driven_out)
    report_wrong_preemption(run, attempt, "and nobody waits for that: " + attempt.reason);
}

// A run of another store, which this store did not know at the time of the reservation, uses them.
bool PreemptionChecker::has_orphan_on(const model::HostDevices& devices) const {
  return std::ranges::any_of(durable_.orphans, [&](const auto& entry) {
    const model::HostDevices& used = entry.second.devices;
    return used.host == devices.host &&
           std::ranges::find_first_of(used.devices, devices.devices) != used.devices.end();
  });
}

// A run that moves starts again at once where devices were reserved for it. If that host has been
// closed since, or an orphan uses the devices, the run waits as others do and may start elsewhere;
// likewise if that host has left the map, or its project's budget has too little.
void PreemptionChecker::check_next(const Commit& commit, const model::Attempt& ended) {
  const CommitView rows(durable_, commit);
  const model::HostDevices& kept = ended.move_destination.front();
  const map::ClusterMap map = map_after(durable_, commit);
  if (!map::find_host(map, kept.host) || has_orphan_on(kept)) return;
  const model::Node* node = rows.find(model::NodeId{{ended.id.run, ended.id.epoch + 1}, 0});
  const bool there = node && node->host == kept.host && node->devices == kept.devices;
  const bool open = state_of(rows, kept.host) < model::HostState::closed;
  if (!there && rows.find(ended.id.run)->awaits_budget) return;
  if (open != there)
    context_.report_violation(format("{} {} where it was moved to, on {}, which is {}",
                                     text(ended.id.run), there ? "begins" : "does not begin",
                                     kept.host, text(state_of(rows, kept.host))));
}

}  // namespace lockstep::sim
