#include "platform/core/step/starting/incremental_scheduler.h"

#include <algorithm>
#include <set>
#include <utility>

#include "map/query.h"
#include "platform/core/step/budget/charges.h"
#include "platform/core/step/handlers/draft.h"
#include "platform/core/step/starting/attempt_placement.h"
#include "platform/core/step/starting/preconditions.h"

namespace lockstep::step {

namespace {

// Runs with an edited row that affects scheduling. Nodes never move to other devices, but those of
// `unplaced` attempts get a host.
std::set<model::RunId> edited_runs(const Draft& draft, const std::set<model::RunId>& unplaced) {
  std::set<model::RunId> edited;
  for (const auto& [id, run] : draft.runs.changed()) edited.insert(id);
  for (const auto& [id, attempt] : draft.attempts.changed()) edited.insert(id.run);
  for (const auto& [id, node] : draft.nodes.changed())
    if (unplaced.contains(id.attempt.run)) edited.insert(id.attempt.run);
  for (const auto& [id, node] : draft.given_up.changed())
    if (draft.live_attempt(id.attempt.run)) edited.insert(id.attempt.run);
  return edited;
}

// A released node that was found again while its attempt drains is given up, and holds its devices
// apart from the gang.
std::vector<const model::Node*> nodes_in_gang(const Draft& draft, const model::AttemptId& attempt) {
  auto nodes = draft.nodes_of(attempt);
  std::erase_if(nodes, [&](const model::Node* node) {
    const model::GivenUpNode* given_up = draft.given_up.find(node->id);
    return given_up && !given_up->gone;
  });
  return nodes;
}

}  // namespace

Duration overhead_max(const model::Settings& settings) {
  constexpr Duration kMargin = std::chrono::minutes(1);  // agents and engines answer in that time
  return settings.start_limit + settings.log_delivery_limit + settings.lost_after + kMargin;
}

// A run that lost an attempt keeps its place in the queue.
sched::PendingRun pending_run_of(const model::Run& run) {
  return {.run = run.id,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .remainder = run.spec.remainder,
          .arrived = run.queued,
          .time_limit = model::time_left(run),
          .time_used = run.time_used,
          .priority = run.priority,
          .run_class = run.spec.run_class,
          .user = run.origin.user,
          .fair_share_used = run.fair_share_used,
          .needs = model::placement_needs(run.spec)};
}

// A gang holds all its devices until the last of its nodes is released. Its expected end counts
// from its placement: so it does not change with time alone, and decisions stand until the next
// event. A draining run may end at any moment.
//
// The permission to move or pause it depends on reports, not on the current time. It must have
// written a checkpoint where it runs; to be paused, one after it had run there long enough.
sched::Allocation allocation_of(const model::Run& run, const model::Attempt& attempt,
                                const std::vector<const model::Node*>& nodes,
                                const sched::SchedulingPolicy& policy) {
  const bool goes_on = attempt.last_checkpoint && !attempt.draining && !run.spec.stays;
  // A gang is not moved, also if only one of its hosts is still on the map.
  const bool may_move = goes_on && model::node_count(run.spec) == 1;
  sched::Allocation allocation{
      .run = run.id,
      .devices = {},
      .expected_end = attempt.draining.value_or(attempt.created + model::time_left(run)),
      .moves_left = may_move ? std::max(0, model::kMovesMax - run.moves) : 0,
      .started = attempt.created,
      .run_class = run.spec.run_class,
      .user = run.origin.user,
      .needs = model::placement_needs(run.spec),
      .may_pause =
          goes_on && *attempt.last_checkpoint - *attempt.started >= policy.checkpoint_interval,
      .arrived = run.queued,
      .timeout = model::time_limit(run),
      .fair_share_used = run.fair_share_used,
      .priority = run.priority,
      .leaving = attempt.draining.has_value(),
      .last_checkpoint = attempt.last_checkpoint,
      .move_destination = attempt.move_destination,
      .time_limit = model::time_left(run)};
  for (const model::Node* node : nodes)
    allocation.devices.push_back({attempt.is_placed ? node->host : "", node->devices});
  return allocation;
}

std::map<model::RunId, sched::Allocation> orphan_allocations_of(
    const std::map<model::NodeName, model::Orphan>& orphans) {
  std::map<model::RunId, sched::Allocation> allocations;
  for (const auto& [name, orphan] : orphans) {
    if (orphan.terminated || orphan.devices.host.empty()) continue;
    const model::RunId allocation_id = model::orphan_allocation_id(name.id.attempt.run);
    sched::Allocation& allocation = allocations[allocation_id];
    allocation.run = allocation_id;
    allocation.devices.push_back(orphan.devices);
    allocation.expected_end = std::max(allocation.expected_end, orphan.expected_end);
    if (!orphan.attempt_record) continue;
    allocation.started = orphan.attempt_record->created;
    allocation.needs = model::placement_needs(orphan.attempt_record->spec);
  }
  return allocations;
}

std::map<model::RunId, sched::Allocation> given_up_allocations_of(
    const std::map<model::NodeId, model::GivenUpNode>& nodes) {
  std::map<model::RunId, sched::Allocation> allocations;
  for (const auto& [id, node] : nodes) {
    if (node.gone) continue;
    const model::RunId allocation_id = model::given_up_allocation_id(id.attempt.run);
    sched::Allocation& allocation = allocations[allocation_id];
    allocation.run = allocation_id;
    allocation.devices.push_back(node.devices);
    allocation.started = node.since;
    allocation.expected_end =
        std::max(allocation.expected_end, node.last_call + node.gone_after.value_or(Duration(0)));
  }
  return allocations;
}

// The engine has chosen these hosts, for a daemon with other options than this one. Which of their
// devices are in use is unknown, so all of them are.
sched::Allocation unplaced_allocation_of(const Draft& draft, const model::Run& run,
                                         const model::AttemptId& attempt) {
  sched::Allocation allocation{
      .run = model::unplaced_allocation_id(run.id),
      .devices = {},
      .expected_end = draft.attempts.find(attempt)->created + model::time_left(run),
      .started = draft.attempts.find(attempt)->created};
  for (const model::Node* node : nodes_in_gang(draft, attempt)) {
    const map::Host* host = map::find_host(draft.map(), node->host);
    if (!host || node->state == model::NodeState::released) continue;
    model::HostDevices& held = allocation.devices.emplace_back();
    held.host = node->host;
    for (int device = 0; device < std::ssize(map::devices(*host)); ++device)
      held.devices.push_back(device);
  }
  return allocation;
}

sched::OperatorSettings operator_settings_of(
    const std::map<std::string, model::HostRow>& hosts,
    const std::map<model::LimitId, model::LimitRow>& limits) {
  sched::OperatorSettings settings;
  for (const auto& [id, host] : hosts)
    if (const auto state = model::placement_state(host); state != model::HostState::open)
      settings.hosts.push_back({id, state, model::placement_reason(host)});
  for (const auto& [id, limit] : limits) {
    if (!limit.devices) continue;
    auto& of_scope = id.scope == model::LimitScope::project ? settings.limits.project_devices
                                                            : settings.limits.user_devices;
    of_scope[id.name] = *limit.devices;
  }
  return settings;
}

std::string_view stored_reason(const sched::WaitingRun& waiting) {
  return waiting.behind_head ? "waits behind other runs in the queue" : waiting.reason.line();
}

void IncrementalScheduler::reset() {
  scheduler_.reset();
  inputs_.clear();
  unplaced_.clear();
  leftover_allocations_.clear();
  need_max_.clear();
  invalidate_results();
}

void IncrementalScheduler::invalidate_results() {
  waiting_.reset();
  start_times_.reset();
}

bool IncrementalScheduler::sync(const Draft& draft) {
  last_event_at_ = draft.now();
  if (!scheduler_) {
    load_rows(draft);
    return true;
  }
  bool differs = sync_operator_settings(draft) || !draft.budgets.changed().empty() ||
                 !draft.buckets.changed().empty();
  const auto edited = edited_runs(draft, unplaced_);
  if (edited.empty() && draft.orphans.changed().empty() && draft.given_up.changed().empty())
    return differs;
  remove_leftovers();
  for (const model::RunId& run : edited) differs = sync(draft, run) || differs;
  return sync_leftovers(draft) || differs;
}

// Orphans and given-up nodes are added last each time. If a run and an orphan hold the same
// devices, for whatever reason, the orphan keeps them when the run ends.
void IncrementalScheduler::remove_leftovers() {
  for (const auto& [allocation_id, allocation] : leftover_allocations_)
    scheduler_->remove_allocation(allocation_id);
}

// An engine that chooses hosts knows itself which of their devices are in use.
bool IncrementalScheduler::sync_leftovers(const Draft& draft) {
  auto current = orphan_allocations_of(draft.orphans.all());
  current.merge(given_up_allocations_of(draft.given_up.all()));
  for (const model::RunId& id : unplaced_)
    if (const model::Attempt* attempt = draft.live_attempt(id)) {
      auto allocation = unplaced_allocation_of(draft, *draft.runs.find(id), attempt->id);
      current.emplace(allocation.run, std::move(allocation));
    }
  const auto is_at_engine = [&](const model::HostDevices& devices) {
    return engine_hosts_.contains(devices.host);
  };
  for (auto& [allocation_id, allocation] : current) std::erase_if(allocation.devices, is_at_engine);
  const bool differs = current != leftover_allocations_;
  leftover_allocations_ = std::move(current);
  for (const auto& [allocation_id, allocation] : leftover_allocations_)
    scheduler_->add_allocation(allocation);
  if (differs) invalidate_results();
  return differs;
}

void IncrementalScheduler::make_scheduler(const Draft& draft) {
  engine_hosts_.clear();
  has_placing_engine_ = draft.has_placing_engine();
  if (!has_placing_engine_) {
    scheduler_ = std::make_unique<sched::Scheduler>(draft.map(), policy_, draft.map_growth());
    return;
  }
  model::HostsByPlacement hosts = draft.hosts_by_placement();
  for (const map::Host* host : map::hosts(hosts.by_engine)) engine_hosts_.insert(host->id);
  scheduler_ = std::make_unique<sched::Scheduler>(
      hosts.by_lockstep, policy_, draft.map_growth(),
      sched::EngineHosts{std::move(hosts.by_engine), draft.settings().slurm_jobs_max});
}

void IncrementalScheduler::load_rows(const Draft& draft) {
  make_scheduler(draft);
  const sched::OperatorSettings settings =
      operator_settings_of(draft.hosts.all(), draft.limits.all());
  for (const auto& [host, state, why] : settings.hosts) scheduler_->set_host(host, state, why);
  limits_ = settings.limits;
  scheduler_->set_limits(limits_);
  for (const model::RunId& run : draft.open_runs()) sync(draft, run);
  sync_leftovers(draft);
}

bool IncrementalScheduler::sync_operator_settings(const Draft& draft) {
  for (const auto& [id, host] : draft.hosts.changed())
    scheduler_->set_host(id, model::placement_state(host), model::placement_reason(host));
  if (!draft.limits.changed().empty()) {
    limits_ = operator_settings_of({}, draft.limits.all()).limits;
    scheduler_->set_limits(limits_);
  }
  const bool differ = !draft.hosts.changed().empty() || !draft.limits.changed().empty();
  if (differ) invalidate_results();
  return differ;
}

bool IncrementalScheduler::sync(const Draft& draft, const model::RunId& run) {
  const model::Attempt* attempt = draft.live_attempt(run);
  if (attempt && !attempt->is_placed && !model::is_external(*draft.runs.find(run)))
    unplaced_.insert(run);
  else
    unplaced_.erase(run);
  SchedulerInput now = input_of(draft, run);
  SchedulerInput& before = inputs_[run];
  const bool differs = before != now;
  const bool matters = affects_schedule(before) || affects_schedule(now);
  if (differs) {
    update(run, before, now);
    invalidate_results();
  }
  if (std::holds_alternative<sched::PendingRun>(now))
    if (const auto need = need_max_.find(run.project); need != need_max_.end())
      need->second =
          std::max(need->second, needed_budget(draft, *draft.runs.find(run), need_weight_));
  if (std::holds_alternative<std::monostate>(now))
    inputs_.erase(run);
  else
    before = std::move(now);
  return differs && matters;
}

// A held run gets eligible when a user releases it. A run with an orphan of the same name gets
// eligible when an operator has stopped or adopted the orphan.
IncrementalScheduler::SchedulerInput IncrementalScheduler::input_of(const Draft& draft,
                                                                    const model::RunId& id) const {
  const model::Run& run = *draft.runs.find(id);
  if (model::is_external(run)) return {};
  if (const model::Attempt* attempt = draft.live_attempt(id))
    return allocation_of(run, *attempt, nodes_in_gang(draft, attempt->id), policy_);
  if (!draft.orphans_of(id).empty()) return {};
  if (model::waits_for_devices(run)) return pending_run_of(run);
  if (run.state == model::RunState::queued && !run.held) return IneligibleRun{pending_run_of(run)};
  return {};
}

void IncrementalScheduler::update(const model::RunId& run, const SchedulerInput& before,
                                  const SchedulerInput& now) {
  const auto* held = std::get_if<sched::Allocation>(&before);
  const auto* holds = std::get_if<sched::Allocation>(&now);
  if (held && holds) {
    sched::Allocation sooner = *held;
    sooner.expected_end = holds->expected_end;
    if (sooner == *holds) return scheduler_->set_expected_end(run, holds->expected_end);
  }
  if (held) scheduler_->remove_allocation(run);
  if (std::holds_alternative<sched::PendingRun>(before)) scheduler_->remove_pending(run);
  if (holds) scheduler_->add_allocation(*holds);
  if (const auto* pending = std::get_if<sched::PendingRun>(&now)) scheduler_->add_pending(*pending);
}

void IncrementalScheduler::schedule(Draft& draft) {
  scheduled_at_ = draft.now();
  check_budgets(draft);
  sched::Plan plan = scheduler_->schedule(scheduled_at_);
  if (exceeds_budgets(draft, plan)) {
    // Without these runs the plan may differ in everything.
    reset();
    load_rows(draft);
    return schedule(draft);
  }
  preempt(draft, plan);
  for (sched::Placement& placement : plan.placements) start(draft, std::move(placement));
  update_bucket_reasons(draft);
  if (reason_updates_ == ReasonUpdates::on_demand) return;
  for (const sched::WaitingRun& waiting : this->waiting())
    if (draft.runs.find(waiting.run)->reason != stored_reason(waiting))  // an edit copies the row
      draft.runs.edit(waiting.run).reason = stored_reason(waiting);
}

// The scheduler itself counts them as leaving, and reserves the devices of their destination.
void IncrementalScheduler::preempt(Draft& draft, sched::Plan& plan) {
  const auto beneficiary_of = [&](const model::RunId& run) {
    const auto found = plan.preempted_for.find(run);
    return found == plan.preempted_for.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<PreemptionNotice> notices;
  for (const model::RunId& run : plan.evictions) notices.push_back({run, {}, beneficiary_of(run)});
  for (sched::Move& move : plan.moves)
    notices.push_back({move.run, std::move(move.devices), beneficiary_of(move.run)});
  for (const PreemptionNotice& notice : notices) {
    preempt_run(draft, notice);
    inputs_[notice.run] = input_of(draft, notice.run);
  }
  if (!notices.empty()) invalidate_results();
}

// A run that its project cannot pay now blocks no other: the scheduler does not have it.
void IncrementalScheduler::check_budgets(Draft& draft) {
  std::set<std::string> projects;
  for (const auto& [project, budget] : draft.budgets.changed()) projects.insert(project);
  for (const auto& [project, bucket] : draft.buckets.changed()) projects.insert(project);
  if (projects.empty()) return;
  if (const int weight = least_weight(draft); weight != need_weight_) {
    need_max_.clear();
    need_weight_ = weight;
  }
  for (const std::string& project : projects) {
    const auto need = need_max_.find(project);
    if (need == need_max_.end() || !has_budget(draft, project, need->second))
      check_budget_of(draft, project);
  }
}

// Compares all its waiting runs with the budget, and so finds the largest need of the rest.
void IncrementalScheduler::check_budget_of(Draft& draft, const std::string& project) {
  std::vector<std::pair<model::RunId, budget::DeviceTime>> missing;
  budget::DeviceTime largest{};
  for (auto it = inputs_.lower_bound({project, 0}); it != inputs_.end(); ++it) {
    if (it->first.project != project) break;
    if (!std::holds_alternative<sched::PendingRun>(it->second)) continue;
    const model::Run& run = *draft.runs.find(it->first);
    if (const auto amount = missing_budget(draft, run, need_weight_))
      missing.emplace_back(it->first, *amount);
    else
      largest = std::max(largest, needed_budget(draft, run, need_weight_));
  }
  need_max_[project] = largest;
  for (const auto& [run, amount] : missing) {
    wait_for_budget(draft, run, amount);
    sync(draft, run);
  }
}

// They say when the bucket will have enough, which each use of it changes.
void IncrementalScheduler::update_bucket_reasons(Draft& draft) const {
  for (const auto& [project, bucket] : draft.buckets.changed())
    for (auto it = inputs_.lower_bound({project, 0}); it != inputs_.end(); ++it) {
      if (it->first.project != project) break;
      const model::Run& run = *draft.runs.find(it->first);
      if (!run.awaits_budget) continue;
      model::Run updated = run;
      set_wait_reason(draft, updated);
      if (updated.reason != run.reason) draft.runs.edit(run.id).reason = updated.reason;
    }
}

// True if some run of the plan waits for its budget now: several runs would take the rest of it, or
// the devices of the placement weigh more than others.
bool IncrementalScheduler::exceeds_budgets(Draft& draft, const sched::Plan& plan) const {
  AvailableBudgets available(draft);
  bool exceeds = false;
  for (const sched::Placement& placement : plan.placements)
    if (const auto missing = available.take(*draft.runs.find(placement.run), placement.devices)) {
      wait_for_budget(draft, placement.run, *missing);
      exceeds = true;
    }
  return exceeds;
}

// The scheduler itself counts the devices as allocated to it.
void IncrementalScheduler::start(Draft& draft, sched::Placement placement) {
  const model::RunId run = placement.run;
  start_attempt(draft, std::move(placement));
  inputs_[run] = input_of(draft, run);
  invalidate_results();
}

const std::vector<sched::WaitingRun>& IncrementalScheduler::waiting() const {
  if (!waiting_) waiting_ = scheduler_ ? scheduler_->waiting() : std::vector<sched::WaitingRun>();
  return *waiting_;
}

// In the order of waiting().
sched::LatestStartInput IncrementalScheduler::latest_start_input() const {
  sched::LatestStartInput open{.limits = limits_};
  for (const sched::WaitingRun& one : waiting())
    open.waiting.push_back(&std::get<sched::PendingRun>(inputs_.at(one.run)));
  for (const auto& [run, input] : inputs_) {
    if (const auto* later = std::get_if<IneligibleRun>(&input))
      open.ineligible.push_back(&later->run);
    if (const auto* allocation = std::get_if<sched::Allocation>(&input))
      open.allocations.push_back(allocation);
  }
  return open;
}

// The bounds also become invalid with time: when a run exceeds its expected end.
const std::vector<sched::StartTimes>& IncrementalScheduler::start_times() const {
  if (!start_times_) compute_start_times();
  if (bounds_valid_until_ < last_event_at_)
    for (sched::StartTimes& times : *start_times_) times.latest.reset();
  return *start_times_;
}

void IncrementalScheduler::compute_start_times() const {
  start_times_.emplace();
  bounds_valid_until_ = Time::max();
  if (!scheduler_) return;
  const auto estimates = scheduler_->start_estimates();
  // The expected start of a head includes preemptions for it, which the estimate does not know.
  for (std::size_t i = 0; i < estimates.size(); ++i)
    start_times_->push_back(
        {waiting()[i].expected_start ? waiting()[i].expected_start : estimates[i], std::nullopt});
  if (has_placing_engine_) return;  // it starts and ends runs by rules of its own
  const sched::LatestStartInput open = latest_start_input();
  for (const sched::Allocation* allocation : open.allocations)
    bounds_valid_until_ =
        std::min(bounds_valid_until_, allocation->expected_end + policy_.overhead);
  if (!leftover_allocations_.empty())
    bounds_valid_until_ = Time::min();  // no limit is known for their end
  const auto bounds = sched::latest_start_times(policy_, waiting(), open, scheduled_at_);
  for (std::size_t i = 0; i < bounds.size(); ++i) (*start_times_)[i].latest = bounds[i];
}

std::vector<sched::Allocation> IncrementalScheduler::allocations() const {
  std::vector<sched::Allocation> held;
  for (const auto& [run, input] : inputs_)
    if (const auto* allocation = std::get_if<sched::Allocation>(&input))
      held.push_back(*allocation);
  return held;
}

}  // namespace lockstep::step
