#include "platform/core/step/queue.h"

#include <algorithm>
#include <set>
#include <utility>

#include "platform/core/step/draft.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/placing.h"

namespace lockstep {

static_assert(kReadyLimit + kShipLimit + kSilenceLimit + kKillInterval < kOverheadMost);

namespace {

// What is left of its time-out once its attempts so far are counted.
Duration limit_of(const Run& run) { return run.spec.timeout - run.charged; }

// Runs of which a row that decides anything was edited. Nodes stay where they are.
std::set<RunId> edited_runs(const Draft& draft) {
  std::set<RunId> edited;
  for (const auto& [id, run] : draft.runs.changed()) edited.insert(id);
  for (const auto& [id, attempt] : draft.attempts.changed()) edited.insert(id.run);
  return edited;
}

}  // namespace

// A run that lost an attempt stands again where it stood.
Want want_of(const Run& run) {
  return {.run = run.id,
          .nodes = run.spec.nodes,
          .devices = run.spec.devices,
          .remainder = run.spec.remainder,
          .arrived = run.queued,
          .limit = limit_of(run),
          .used = run.charged,
          .priority = run.priority,
          .run_class = run.spec.run_class,
          .user = run.origin.user,
          .share = run.share,
          .needs = run.spec.needs};
}

// A gang holds all its devices until the last of its nodes is released. Its end is reckoned from
// when it was placed: then time alone does not change it, and what was decided stands until
// something happens. One that drains may end at any moment.
//
// Whether it may be moved or paused depends on what was reported, not on what time it is: it has
// written a checkpoint where it is, and, to be paused, one when it had run for long enough there.
Holding holding_of(const Run& run, const Attempt& attempt, const std::vector<const Node*>& nodes,
                   const SchedulingPolicy& policy) {
  const bool goes_on = attempt.saved && !attempt.draining && !run.spec.stays;
  Holding holding{
      .run = run.id,
      .slices = {},
      .expected_end = attempt.draining.value_or(attempt.created + limit_of(run)),
      .moves_left = goes_on ? std::max(0, kMovesMost - run.moves) : 0,
      .started = attempt.created,
      .run_class = run.spec.run_class,
      .user = run.origin.user,
      .needs = run.spec.needs,
      .may_pause = goes_on && *attempt.saved - *attempt.started >= policy.checkpoint_interval,
      .arrived = run.queued,
      .timeout = run.spec.timeout,
      .share = run.share,
      .priority = run.priority,
      .leaving = attempt.draining.has_value(),
      .saved = attempt.saved,
      .moving_to = attempt.moves_to,
      .limit = limit_of(run)};
  for (const Node* node : nodes) holding.slices.push_back({node->host, node->devices});
  return holding;
}

std::map<RunId, Holding> holdings_of(const std::map<NodeName, Orphan>& orphans) {
  std::map<RunId, Holding> holdings;
  for (const auto& [name, orphan] : orphans) {
    if (orphan.gone || orphan.slice.host.empty()) continue;
    const RunId holder = holder_of_orphan(name.id.attempt.run);
    Holding& holding = holdings[holder];
    holding.run = holder;
    holding.slices.push_back(orphan.slice);
    holding.expected_end = std::max(holding.expected_end, orphan.ends);
    if (!orphan.made) continue;
    holding.started = orphan.made->created;
    holding.needs = orphan.made->spec.needs;
  }
  return holdings;
}

Conditions conditions_of(const std::map<std::string, HostRow>& hosts,
                         const std::map<LimitId, LimitRow>& limits) {
  Conditions conditions;
  for (const auto& [id, host] : hosts)
    if (host.state != HostState::open) conditions.hosts.push_back({id, host.state, host.reason});
  for (const auto& [id, limit] : limits) {
    if (!limit.devices) continue;
    auto& of_scope = id.scope == LimitScope::project ? conditions.limits.project_devices
                                                     : conditions.limits.user_devices;
    of_scope[id.name] = *limit.devices;
  }
  return conditions;
}

void Queue::forget() {
  scheduler_.reset();
  told_.clear();
  orphans_.clear();
  changed();
}

void Queue::changed() {
  waiting_.reset();
  start_times_.reset();
}

bool Queue::follow(const Draft& draft) {
  heard_ = draft.now();
  if (!scheduler_) {
    read_all(draft);
    return true;
  }
  bool differs = follow_conditions(draft);
  const auto edited = edited_runs(draft);
  if (edited.empty() && draft.orphans.changed().empty()) return differs;
  forget_orphans();
  for (const RunId& run : edited) differs = follow(draft, run) || differs;
  return follow_orphans(draft) || differs;
}

// They are told last each time: of devices that a run holds as well, however that came about, they
// are left as the holders when it ends.
void Queue::forget_orphans() {
  for (const auto& [holder, holding] : orphans_) scheduler_->release(holder);
}

bool Queue::follow_orphans(const Draft& draft) {
  auto holdings = holdings_of(draft.orphans.all());
  const bool differs = holdings != orphans_;
  orphans_ = std::move(holdings);
  for (const auto& [holder, holding] : orphans_) scheduler_->hold(holding);
  if (differs) changed();
  return differs;
}

void Queue::read_all(const Draft& draft) {
  scheduler_.emplace(draft.map(), policy_);
  const Conditions conditions = conditions_of(draft.hosts.all(), draft.limits.all());
  for (const auto& [host, state, why] : conditions.hosts) scheduler_->set_host(host, state, why);
  limits_ = conditions.limits;
  scheduler_->set_limits(limits_);
  for (const RunId& run : draft.open_runs()) follow(draft, run);
  follow_orphans(draft);
}

bool Queue::follow_conditions(const Draft& draft) {
  for (const auto& [id, host] : draft.hosts.changed())
    scheduler_->set_host(id, host.state, host.reason);
  if (!draft.limits.changed().empty()) {
    limits_ = conditions_of({}, draft.limits.all()).limits;
    scheduler_->set_limits(limits_);
  }
  const bool differ = !draft.hosts.changed().empty() || !draft.limits.changed().empty();
  if (differ) changed();
  return differ;
}

bool Queue::follow(const Draft& draft, const RunId& run) {
  Told now = of_rows(draft, run);
  Told& before = told_[run];
  const bool differs = before != now;
  const bool matters = decides(before) || decides(now);
  if (differs) {
    tell(run, before, now);
    changed();
  }
  if (std::holds_alternative<std::monostate>(now))
    told_.erase(run);
  else
    before = std::move(now);
  return differs && matters;
}

// One that is held starts when somebody releases it, and one of whose name an orphan goes on when
// an operator has seen to the orphan.
Queue::Told Queue::of_rows(const Draft& draft, const RunId& id) const {
  const Run& run = *draft.runs.find(id);
  if (const Attempt* attempt = draft.live_attempt(id))
    return holding_of(run, *attempt, draft.nodes_of(attempt->id), policy_);
  if (!draft.orphans_of(id).empty()) return {};
  if (waits_for_devices(run)) return want_of(run);
  if (run.state == RunState::queued && !run.held) return Later{want_of(run)};
  return {};
}

void Queue::tell(const RunId& run, const Told& before, const Told& now) {
  const auto* held = std::get_if<Holding>(&before);
  const auto* holds = std::get_if<Holding>(&now);
  if (held && holds) {
    Holding sooner = *held;
    sooner.expected_end = holds->expected_end;
    if (sooner == *holds) return scheduler_->expect(run, holds->expected_end);
  }
  if (held) scheduler_->release(run);
  if (std::holds_alternative<Want>(before)) scheduler_->withdraw(run);
  if (holds) scheduler_->hold(*holds);
  if (const auto* wants = std::get_if<Want>(&now)) scheduler_->submit(*wants);
}

void Queue::pass(Draft& draft) {
  decided_ = draft.now();
  Plan plan = scheduler_->decide(decided_);
  leave(draft, plan);
  for (Placement& placement : plan.placements) start(draft, std::move(placement));
  if (reasons_ == Reasons::when_asked) return;
  for (const WaitingRun& waiting : this->waiting())
    if (draft.runs.find(waiting.run)->reason != waiting.reason)  // an edit copies the row
      draft.runs.edit(waiting.run).reason = waiting.reason;
}

// The scheduler counts them as leaving, and as having what is kept for them where they go.
void Queue::leave(Draft& draft, Plan& plan) {
  const auto room_for = [&](const RunId& run) {
    const auto found = plan.makes_room_for.find(run);
    return found == plan.makes_room_for.end() ? std::nullopt : std::optional(found->second);
  };
  std::vector<Leave> leaves;
  for (const RunId& run : plan.evictions) leaves.push_back({run, {}, room_for(run)});
  for (Move& move : plan.moves)
    leaves.push_back({move.run, std::move(move.slices), room_for(move.run)});
  for (const Leave& leave : leaves) {
    ask_to_leave(draft, leave);
    told_[leave.run] = of_rows(draft, leave.run);
  }
  if (!leaves.empty()) changed();
}

// The scheduler counts it as holding what it was given.
void Queue::start(Draft& draft, Placement placement) {
  const RunId run = placement.run;
  start_attempt(draft, std::move(placement));
  told_[run] = of_rows(draft, run);
  changed();
}

const std::vector<WaitingRun>& Queue::waiting() const {
  if (!waiting_) waiting_ = scheduler_ ? scheduler_->waiting() : std::vector<WaitingRun>();
  return *waiting_;
}

// In the order of waiting().
OpenRuns Queue::open_runs() const {
  OpenRuns open{.limits = limits_};
  for (const WaitingRun& one : waiting())
    open.waiting.push_back(&std::get<Want>(told_.at(one.run)));
  for (const auto& [run, told] : told_) {
    if (const auto* later = std::get_if<Later>(&told)) open.later.push_back(&later->want);
    if (const auto* holding = std::get_if<Holding>(&told)) open.holding.push_back(holding);
  }
  return open;
}

// Time alone breaks the bounds, too: when a run outlives what they count on.
const std::vector<StartTimes>& Queue::start_times() const {
  if (!start_times_) work_out_start_times();
  if (bounds_until_ < heard_)
    for (StartTimes& times : *start_times_) times.latest.reset();
  return *start_times_;
}

void Queue::work_out_start_times() const {
  start_times_.emplace();
  bounds_until_ = Time::max();
  if (!scheduler_) return;
  const OpenRuns open = open_runs();
  for (const Holding* holding : open.holding)
    bounds_until_ = std::min(bounds_until_, holding->expected_end + policy_.overhead);
  if (!orphans_.empty()) bounds_until_ = Time::min();  // they end when an operator has seen to them
  const auto estimates = scheduler_->estimates();
  const auto bounds = latest_starts(policy_, waiting(), open, decided_);
  for (std::size_t i = 0; i < estimates.size(); ++i) {
    // A head counts on what leaves for it, which the estimate does not know.
    const auto expected = waiting()[i].expected_start ? waiting()[i].expected_start : estimates[i];
    start_times_->push_back({expected, bounds[i]});
  }
}

std::vector<Holding> Queue::holdings() const {
  std::vector<Holding> held;
  for (const auto& [run, told] : told_)
    if (const auto* holding = std::get_if<Holding>(&told)) held.push_back(*holding);
  return held;
}

}  // namespace lockstep
