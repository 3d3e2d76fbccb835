#include "platform/core/sched/scheduler.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>

#include "platform/core/sched/capacity/allocated_runs.h"
#include "platform/core/sched/capacity/engine_capacity.h"
#include "platform/core/sched/preempt/evictions.h"
#include "platform/core/sched/preempt/preemptions.h"
#include "platform/core/sched/preempt/relocations.h"
#include "platform/core/sched/queue/accounts.h"
#include "platform/core/sched/queue/debug_share.h"
#include "platform/core/sched/queue/reservation.h"
#include "platform/core/sched/queue/start_estimates.h"
#include "platform/core/sched/queue/wait_reasons.h"
#include "platform/core/sched/queue/waiting_list.h"

namespace lockstep::sched {

class Scheduler::Impl {
 public:
  Impl(const map::ClusterMap& map, const SchedulingPolicy& policy, MapGrowth growth,
       const std::optional<EngineHosts>& engine)
      : policy_(policy),
        table_(map, growth),
        engine_(engine ? std::make_unique<EngineCapacity>(*engine) : nullptr),
        device_allocator_(table_),
        waiting_(table_, accounts_, policy, engine_.get()) {
    LS_CHECK(policy.checkpoint_interval > Duration(0));
  }
  Impl(const Impl&) = delete;  // its members refer to one another
  Impl& operator=(const Impl&) = delete;

  void add_pending(const PendingRun& pending) {
    waiting_.add(pending, accounts_.account_id(pending.run.project, pending.user));
  }
  void remove_pending(const model::RunId& run) {
    cached_head_.reset();
    waiting_.remove(run);
  }
  void add_allocation(const Allocation& allocation);
  void set_expected_end(const model::RunId& run, Time expected_end);
  void remove_allocation(const model::RunId& run);
  void set_host(const std::string& name, model::HostState state, std::string why);
  void set_limits(const Limits& limits) { accounts_.set(limits); }

  Plan schedule(Time now);
  std::vector<WaitingRun> waiting() {
    std::optional<ReservedStart> first;
    if (cached_head_)
      first = {waiting_.run(cached_head_->entry), cached_head_->reservation.start(),
               cached_head_->reservation.blocker()};
    return explain_waiting(policy_, device_allocator_, accounts_, waiting_, allocated_runs_,
                           scheduled_at_, first);
  }
  std::vector<std::optional<Time>> start_estimates() {
    return estimate_starts(policy_, device_allocator_, accounts_, waiting_, allocated_runs_,
                           scheduled_at_);
  }
  std::optional<model::RunId> head();

 private:
  using Entry = WaitingList::Entry;
  static constexpr std::size_t kNeverRefused = static_cast<std::size_t>(-1);

  // A head that has to wait.
  struct ReservedHead {
    Reservation reservation;
    int tier = 0;
    Gang gang;
    Entry entry;
  };
  // State of the runs of one shape.
  struct ShapeState {
    int pending = 0;            // how many may still start
    bool fits_nowhere = false;  // no host takes this shape
    // How many runs had started when a run of this shape would have delayed a head.
    std::size_t refused_after_starts = kNeverRefused;
    // Behind the heads: runs with a longer limit need not be visited, see skip_too_long().
    Duration time_limit_max = Duration::max();
  };
  // The results of one scan of the queue so far.
  struct QueueScan {
    Time now;
    std::vector<ReservedHead> reserved_heads{};
    std::array<int, WaitingList::kTierCount>
        head_counts{};                 // by tier: runs that did not fit and may be heads
    std::vector<ShapeState> shapes{};  // by shape number
    std::size_t shapes_open = 0;
    std::vector<std::size_t> started{};  // positions in queue order
    std::vector<model::RunId> undone{};  // placed by this decision, and preempted again
    Plan plan{};
  };

  // Scans the queue once.
  Plan scan_queue(Time now, std::vector<model::RunId>& requeued);
  QueueScan begin_scan(Time now);
  void visit_entry(QueueScan& scan, std::size_t position, int tier = WaitingList::kNormalTier);
  std::size_t skip_too_long(const QueueScan& scan, std::size_t next);
  void update_shape(QueueScan& scan, int shape, bool starts) const;
  // candidates: positions of the runs behind the head.
  void backfill_shortest_first(QueueScan& scan, std::vector<std::size_t> candidates);
  // True if the run starts; then it holds its devices from here on.
  bool try_start(QueueScan& scan, const Entry& entry, int tier);
  bool engine_takes(const Gang& gang) const;
  bool may_backfill(QueueScan& scan, const Entry& entry, int tier, std::span<const int> hosts);
  bool respects_head_limits(const QueueScan& scan, const Entry& entry) const;
  bool leaves_head_limits(const QueueScan& scan, const Entry& entry) const;
  bool leaves_limits(const ReservedHead& kept, const Entry& entry) const;
  void record_no_fit(QueueScan& scan, const Entry& entry, int tier);
  bool is_cached_head(const QueueScan& scan, const Entry& entry, int tier) const;
  Reservation make_reservation(const QueueScan& scan, const Gang& gang, Duration limit, int tier);
  // At the engine if there are no hosts.
  void start(QueueScan& scan, const Entry& entry, std::span<const int> hosts);
  std::int64_t devices_at_engine(const std::vector<model::HostDevices>& devices) const;
  bool has_room_in_debug_share(const Entry& entry) const;
  static bool may_preempt(const QueueScan& scan, int tier);
  bool preempt_for(QueueScan& scan, const Entry& head, int tier);
  void reset_shapes(QueueScan& scan);
  void move_run(Plan& plan, const Relocation& relocation, Time now);
  void move_at_once(Plan& plan, const Relocation& relocation, Time now);
  void start_move(Plan& plan, const Relocation& relocation, Time now);
  void evict(QueueScan& scan, const model::RunId& run);
  void mark_leaving(const model::RunId& run, Time now);
  void requeue(Plan& plan, const std::vector<model::RunId>& requeued);
  bool ends_before_heads(const QueueScan& scan, const Entry& entry, int tier) const;
  // A preemptible run is evicted when the head's time has come, so the head's reservation ignores
  // it. But it must respect a head for which runs are leaving: otherwise they would leave for
  // nothing.
  bool must_respect(const ReservedHead& kept, int tier) const {
    return tier != WaitingList::kPreemptibleTier || kept.tier == tier ||
           allocated_runs_.leaving() > 0;
  }

  const SchedulingPolicy policy_;
  const HostTable table_;
  const std::unique_ptr<EngineCapacity> engine_;  // null: no engine chooses hosts
  Accounts accounts_;
  DeviceAllocator device_allocator_;
  WaitingList waiting_;
  AllocatedRuns allocated_runs_;
  Time scheduled_at_{};  // time of the last schedule()
  // The first head of the last scan; none if devices were allocated or freed since.
  std::optional<ReservedHead> cached_head_;
  std::vector<ShapeState> shapes_;  // of a scan, kept only for its memory
  // If the policy does not preempt at once: preemptible runs that this decision has placed. If one
  // of them is preempted for another run, it has not begun yet.
  std::map<model::RunId, PendingRun> placed_preemptible_;
};

namespace {

void append(Plan& plan, Plan more) {
  std::ranges::move(more.evictions, std::back_inserter(plan.evictions));
  std::ranges::move(more.moves, std::back_inserter(plan.moves));
  std::ranges::move(more.placements, std::back_inserter(plan.placements));
  plan.preempted_for.merge(more.preempted_for);
}

// The devices of each node, without a host.
std::vector<model::HostDevices> devices_without_hosts(const Shape& shape) {
  std::vector<model::HostDevices> nodes(as_index(shape.nodes + (shape.remainder > 0 ? 1 : 0)));
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    nodes[i].devices.resize(as_index(resources_on(shape, i).devices));
    std::iota(nodes[i].devices.begin(), nodes[i].devices.end(), 0);
  }
  return nodes;
}

// Devices reserved at its destination. They count towards no limit: the run holds as many already.
AllocatedRun reserved_at_destination(const AllocatedRun& allocated_run, HostAllocations taken,
                                     Time until) {
  return {.allocations = std::move(taken),
          .run = allocated_run.run,
          .expected_end = until,
          .run_class = allocated_run.run_class,
          .account = allocated_run.account,
          .needs = allocated_run.needs,
          .is_move_destination = true};
}

}  // namespace

// Those that have no host, or one of the engine's.
std::int64_t Scheduler::Impl::devices_at_engine(
    const std::vector<model::HostDevices>& devices) const {
  std::int64_t count = 0;
  for (const model::HostDevices& node : devices)
    if (node.host.empty() || (engine_ && engine_->has(node.host)))
      count += std::ssize(node.devices);
  return count;
}

void Scheduler::Impl::add_allocation(const Allocation& allocation) {
  LS_CHECK(!waiting_.contains(allocation.run));
  cached_head_.reset();
  const auto account = accounts_.account_id(allocation.run.project, allocation.user);
  AllocatedRun allocated_run{
      .allocations = device_allocator_.allocate(allocation.devices, allocation.needs),
      .run = allocation.run,
      .expected_end = allocation.expected_end,
      .moves_left = allocation.moves_left,
      .started = allocation.started,
      .run_class = allocation.run_class,
      .account = account,
      .needs = allocation.needs,
      .may_pause = allocation.may_pause,
      .queue_key =
          order_key(policy_, allocation.arrived, allocation.timeout, allocation.fair_share_used),
      .leaving = allocation.leaving,
      .priority = allocation.priority,
      .last_checkpoint = allocation.last_checkpoint,
      .devices_at_engine = devices_at_engine(allocation.devices)};
  accounts_.add_usage(account, device_count(allocated_run));
  if (!allocation.move_destination.empty())
    allocated_runs_.add(reserved_at_destination(
        allocated_run, device_allocator_.allocate(allocation.move_destination, allocation.needs),
        allocation.expected_end + allocation.time_limit));
  allocated_runs_.add(std::move(allocated_run));
}

void Scheduler::Impl::set_expected_end(const model::RunId& run, Time expected_end) {
  cached_head_.reset();
  AllocatedRun allocated_run = allocated_runs_.remove(run);
  allocated_run.expected_end = expected_end;
  allocated_runs_.add(std::move(allocated_run));
}

void Scheduler::Impl::remove_allocation(const model::RunId& run) {
  cached_head_.reset();
  const AllocatedRun allocated_run = allocated_runs_.remove(run);
  accounts_.remove_usage(allocated_run.account, device_count(allocated_run));
  device_allocator_.deallocate(allocated_run.allocations);
  if (allocated_runs_.contains(run, true))
    device_allocator_.deallocate(allocated_runs_.remove(run, true).allocations);
}

void Scheduler::Impl::set_host(const std::string& name, model::HostState state, std::string why) {
  if (const auto of_engine = engine_ ? engine_->table().find(name) : std::nullopt) {
    engine_->set_host_state(*of_engine, state, std::move(why));
    return waiting_.engine_host_changed();
  }
  const auto host = table_.find(name);
  if (!host) return;
  cached_head_.reset();
  device_allocator_.set_host_state(*host, state, std::move(why));
  waiting_.set_host_open(*host, device_allocator_.is_open(*host));
}

// The loop ends. A scan that changes anything starts a run for good, or preempts one, or only
// places and requeues preemptible runs. Those are requeued for a head that fits once other runs
// have left, and until then none of them takes its devices again (must_respect()). So a scan leaves
// fewer waiting runs, except for one or two scans for each head. More of them are a bug, as is a
// policy that repeats until stable, does not preempt at once and reserves nothing for the head.
Plan Scheduler::Impl::schedule(Time now) {
  Plan plan;
  scheduled_at_ = now;
  placed_preemptible_.clear();
  for (const Relocation& one :
       find_moves_off_drained_hosts(device_allocator_, allocated_runs_, policy_, now))
    move_run(plan, one, now);
  const std::size_t scans_without_progress_max = 2 * (waiting_.size() + 1);
  std::size_t scans_without_progress = 0;
  bool changed = true;
  do {
    const std::size_t before = waiting_.size();
    std::vector<model::RunId> requeued;
    Plan found = scan_queue(now, requeued);
    changed = !found.placements.empty() || !requeued.empty();
    append(plan, std::move(found));
    requeue(plan, requeued);
    if (changed && waiting_.size() >= before) ++scans_without_progress;
    LS_CHECK(scans_without_progress <= scans_without_progress_max,
             "a decision places runs and takes them back without end");
  } while (policy_.repeats_until_stable && changed);
  return plan;
}

// As if this decision had never placed them.
void Scheduler::Impl::requeue(Plan& plan, const std::vector<model::RunId>& requeued) {
  for (const model::RunId& run : requeued) {
    std::erase_if(plan.placements, [&](const Placement& one) { return one.run == run; });
    add_pending(placed_preemptible_.at(run));
  }
}

Plan Scheduler::Impl::scan_queue(Time now, std::vector<model::RunId>& requeued) {
  const auto entries = waiting_.entries();
  QueueScan scan = begin_scan(now);
  // The debug share; runs beyond it are among the others by their keys.
  std::vector<std::size_t> beyond_share;
  std::size_t next = 0;
  for (; next < entries.size() && entries[next].tier == WaitingList::kDebugTier; ++next) {
    if (has_room_in_debug_share(entries[next]))
      visit_entry(scan, next, WaitingList::kDebugTier);
    else
      beyond_share.push_back(next);
  }
  const auto stands_behind = [&](std::size_t late) {
    return next < entries.size() && entries[next].tier == WaitingList::kNormalTier &&
           entries[next].key <= entries[late].key;
  };
  auto late = beyond_share.begin();
  while (scan.shapes_open > 0 || may_preempt(scan, WaitingList::kNormalTier)) {
    if (late == beyond_share.end()) next = skip_too_long(scan, next);
    const bool from_beyond = late != beyond_share.end() && !stands_behind(*late);
    if (!from_beyond && next == entries.size()) break;
    visit_entry(scan, from_beyond ? *late++ : next++);
    const bool head_waits = scan.head_counts[WaitingList::kNormalTier] > 0;
    if (!head_waits || policy_.backfill_mode == BackfillMode::greedy) continue;
    if (policy_.backfill_mode == BackfillMode::none) break;
    if (policy_.backfill_order == BackfillOrder::in_queue_order) continue;
    std::vector<std::size_t> candidates(late, beyond_share.end());
    for (; next < entries.size(); ++next) candidates.push_back(next);
    backfill_shortest_first(scan, std::move(candidates));
  }
  std::ranges::sort(scan.started);
  waiting_.remove_at(scan.started);
  requeued = std::move(scan.undone);
  shapes_ = std::move(scan.shapes);
  // Runs that started after its reservation was computed may have changed it.
  if (scan.started.empty() && requeued.empty() && !scan.reserved_heads.empty())
    cached_head_ = std::move(scan.reserved_heads.front());
  return std::move(scan.plan);
}

Scheduler::Impl::QueueScan Scheduler::Impl::begin_scan(Time now) {
  QueueScan scan{.now = now};
  scan.shapes = std::move(shapes_);
  scan.shapes.clear();
  for (const int count : waiting_.count_by_shape()) {
    scan.shapes.push_back({.pending = count});
    scan.shapes_open += static_cast<std::size_t>(count > 0);
  }
  return scan;
}

// tier: the best tier by which it may start.
void Scheduler::Impl::visit_entry(QueueScan& scan, std::size_t position, int tier) {
  const Entry& entry = waiting_.entries()[position];
  const bool starts = try_start(scan, entry, std::max(entry.tier, tier));
  if (starts) scan.started.push_back(position);
  update_shape(scan, entry.shape, starts);
}

// The next position at which try_start() may have an effect. This skips most of the runs behind the
// heads, in about a nanosecond each.
std::size_t Scheduler::Impl::skip_too_long(const QueueScan& scan, std::size_t next) {
  const auto entries = waiting_.entries();
  if (scan.head_counts[WaitingList::kNormalTier] < policy_.reservations) return next;
  while (next < entries.size() && entries[next].tier == WaitingList::kNormalTier &&
         entries[next].time_limit > scan.shapes[as_index(entries[next].shape)].time_limit_max)
    ++next;
  return next;
}

// Records the result of try_start() for a shape: it fits nowhere, or only runs fit that end before
// every head starts.
void Scheduler::Impl::update_shape(QueueScan& scan, int shape, bool starts) const {
  if (starts) {  // the heads' reservations have changed
    for (ShapeState& one : scan.shapes)
      if (!one.fits_nowhere) one.time_limit_max = Duration::max();
    return;
  }
  ShapeState& found = scan.shapes[as_index(shape)];
  if (found.fits_nowhere) {
    found.time_limit_max = Duration::min();
  } else if (found.refused_after_starts == scan.started.size()) {
    for (const ReservedHead& kept : scan.reserved_heads)
      found.time_limit_max = std::min(found.time_limit_max, kept.reservation.start() - scan.now);
  }
}

void Scheduler::Impl::backfill_shortest_first(QueueScan& scan,
                                              std::vector<std::size_t> candidates) {
  const auto entries = waiting_.entries();
  std::ranges::stable_sort(candidates, {}, [&](std::size_t i) { return entries[i].time_limit; });
  for (auto next = candidates.begin(); next != candidates.end() && scan.shapes_open > 0;) {
    const std::size_t starts = scan.started.size();
    visit_entry(scan, *next);
    if (scan.started.size() == starts) {
      ++next;
    } else {
      candidates.erase(next);
      next = candidates.begin();
    }
  }
}

bool Scheduler::Impl::try_start(QueueScan& scan, const Entry& entry, int tier) {
  ShapeState& shape = scan.shapes[as_index(entry.shape)];
  const Gang& gang = waiting_.gang(entry);
  const bool may_be_head =
      can_be_placed(gang.scope) && scan.head_counts[as_index(tier)] < policy_.reservations;
  if (shape.fits_nowhere && !may_be_head) return false;
  // Nothing has changed since a run of this shape would have delayed a head.
  if (shape.refused_after_starts == scan.started.size() && !ends_before_heads(scan, entry, tier))
    return false;
  if (!accounts_.allows(entry.account, device_count(gang.shape))) return false;
  if (!respects_head_limits(scan, entry)) return false;
  auto hosts = device_allocator_.choose(gang, policy_.fit);
  if (hosts.empty() && !engine_takes(gang) && preempt_for(scan, entry, tier))
    hosts = device_allocator_.choose(gang, policy_.fit);
  if (!hosts.empty() && !may_backfill(scan, entry, tier, hosts)) {
    hosts.clear();
    if (!engine_takes(gang)) {
      shape.refused_after_starts = scan.started.size();
      return false;
    }
  }
  if (hosts.empty() && engine_takes(gang) && !leaves_head_limits(scan, entry)) return false;
  if (hosts.empty() && !engine_takes(gang)) {
    record_no_fit(scan, entry, tier);
    return false;
  }
  start(scan, entry, hosts);
  return true;
}

// Once it takes no run of a shape, it takes none during the same scan: it only gets fuller.
bool Scheduler::Impl::engine_takes(const Gang& gang) const {
  return engine_ && can_be_placed(gang.at_engine) &&
         allocated_runs_.at_engine() < engine_->runs_max();
}

bool Scheduler::Impl::ends_before_heads(const QueueScan& scan, const Entry& entry, int tier) const {
  return std::ranges::all_of(scan.reserved_heads, [&](const ReservedHead& kept) {
    return !must_respect(kept, tier) || scan.now + entry.time_limit <= kept.reservation.start();
  });
}

// A run that would still hold devices at a head's start must leave that head enough of its limits:
// a head that exceeds a limit evicts no run.
bool Scheduler::Impl::respects_head_limits(const QueueScan& scan, const Entry& entry) const {
  return std::ranges::all_of(scan.reserved_heads, [&](const ReservedHead& kept) {
    return scan.now + entry.time_limit <= kept.reservation.start() || leaves_limits(kept, entry);
  });
}

// The same at the engine: it alone knows when the run starts there, and so when it ends.
bool Scheduler::Impl::leaves_head_limits(const QueueScan& scan, const Entry& entry) const {
  return std::ranges::all_of(scan.reserved_heads,
                             [&](const ReservedHead& kept) { return leaves_limits(kept, entry); });
}

bool Scheduler::Impl::leaves_limits(const ReservedHead& kept, const Entry& entry) const {
  return accounts_.allows_both(kept.entry.account, device_count(kept.gang.shape), entry.account,
                               device_count(waiting_.gang(entry).shape));
}

// A run that would still hold devices at a head's start must leave that head its devices.
bool Scheduler::Impl::may_backfill(QueueScan& scan, const Entry& entry, int tier,
                                   std::span<const int> hosts) {
  const Shape& shape = waiting_.gang(entry).shape;
  std::vector<ReservedHead*> spared;
  for (ReservedHead& kept : scan.reserved_heads) {
    if (!must_respect(kept, tier) || scan.now + entry.time_limit <= kept.reservation.start())
      continue;
    if (kept.reservation.try_backfill(shape, hosts)) {
      spared.push_back(&kept);
      continue;
    }
    for (ReservedHead* one : spared) one->reservation.undo_backfill(shape, hosts);
    return false;
  }
  return true;
}

std::optional<model::RunId> Scheduler::Impl::head() {
  std::optional<model::RunId> head;
  const auto look = [&](const Entry& entry) {
    const Gang& gang = waiting_.gang(entry);
    if ((can_be_placed(gang.scope) || can_be_placed(gang.at_engine)) &&
        accounts_.allows(entry.account, device_count(gang.shape)))
      head = waiting_.run(entry);
    return !head;
  };
  visit_in_queue_order(
      waiting_.entries(), [&](const Entry& entry) { return has_room_in_debug_share(entry); }, look);
  return head;
}

// The first runs of a tier that do not fit are its heads. A run that cannot be placed blocks no
// other run.
void Scheduler::Impl::record_no_fit(QueueScan& scan, const Entry& entry, int tier) {
  if (!std::exchange(scan.shapes[as_index(entry.shape)].fits_nowhere, true)) --scan.shapes_open;
  const Gang& gang = waiting_.gang(entry);
  int& heads = scan.head_counts[as_index(tier)];
  if (!can_be_placed(gang.scope) || heads == policy_.reservations) return;
  ++heads;
  // If no shape behind it fits either, no reservation is needed.
  const bool is_last = tier == WaitingList::kNormalTier && scan.shapes_open == 0;
  if (policy_.backfill_mode != BackfillMode::easy || is_last) return;
  scan.reserved_heads.push_back(
      is_cached_head(scan, entry, tier)
          ? *std::exchange(cached_head_, std::nullopt)
          : ReservedHead{make_reservation(scan, gang, entry.time_limit, tier), tier, gang, entry});
}

// True if the reservation of the last scan is still valid. It is not if it depends on preemptible
// runs.
bool Scheduler::Impl::is_cached_head(const QueueScan& scan, const Entry& entry, int tier) const {
  return cached_head_ && scan.reserved_heads.empty() && cached_head_->tier == tier &&
         cached_head_->entry.slot == entry.slot &&
         allocated_runs_.count_of(model::RunClass::preemptible) == 0;
}

Reservation Scheduler::Impl::make_reservation(const QueueScan& scan, const Gang& gang,
                                              Duration limit, int tier) {
  std::vector<Reservation> earlier;
  for (const ReservedHead& kept : scan.reserved_heads)
    if (must_respect(kept, tier)) earlier.push_back(kept.reservation);
  const auto evicts =
      tier == WaitingList::kPreemptibleTier ? std::nullopt : std::optional(scan.now);
  return {device_allocator_.free_capacity(), gang, limit, allocated_runs_, evicts, earlier};
}

void Scheduler::Impl::start(QueueScan& scan, const Entry& entry, std::span<const int> hosts) {
  cached_head_.reset();
  if (--scan.shapes[as_index(entry.shape)].pending == 0) --scan.shapes_open;
  const PendingRun pending = waiting_.pending_run(entry);
  const Shape& shape = waiting_.gang(entry).shape;
  AllocatedRun allocated_run{.allocations = device_allocator_.allocate(shape, hosts),
                             .run = pending.run,
                             .expected_end = scan.now + pending.time_limit,
                             .moves_left = pending.moves_left,
                             .started = scan.now,
                             .run_class = pending.run_class,
                             .account = entry.account,
                             .needs = pending.needs,
                             .may_pause = pending.may_pause,
                             .queue_key = order_key(policy_, pending),
                             .priority = pending.priority,
                             .devices_at_engine = hosts.empty() ? device_count(shape) : 0};
  if (!policy_.preempts_at_once && pending.run_class == model::RunClass::preemptible)
    placed_preemptible_.insert_or_assign(pending.run, pending);
  scan.plan.placements.push_back(
      {pending.run, hosts.empty() ? devices_without_hosts(shape)
                                  : device_allocator_.with_host_names(allocated_run.allocations)});
  accounts_.add_usage(entry.account, device_count(shape));
  allocated_runs_.add(std::move(allocated_run));
}

bool Scheduler::Impl::has_room_in_debug_share(const Entry& entry) const {
  return debug_share_has_room(policy_, waiting_, allocated_runs_, waiting_.gang(entry).shape);
}

// Only while no head of the tier waits: preempted runs would leave for nothing.
bool Scheduler::Impl::may_preempt(const QueueScan& scan, int tier) {
  return tier != WaitingList::kPreemptibleTier && scan.reserved_heads.empty() &&
         scan.head_counts[as_index(tier)] == 0;
}

// True if there is capacity now, because runs left at once.
bool Scheduler::Impl::preempt_for(QueueScan& scan, const Entry& head, int tier) {
  const Gang& gang = waiting_.gang(head);
  if (!can_be_placed(gang.scope) || !may_preempt(scan, tier)) return false;
  const PendingRun& pending = waiting_.pending_run(head);
  const PreemptionRequest request{gang, tier == WaitingList::kDebugTier, head.key,
                                  pending.run.project, pending.priority};
  const Preemptions preemptions =
      find_preemptions(request, device_allocator_, allocated_runs_, policy_, scan.now);
  const std::size_t requeued = scan.undone.size();
  for (const model::RunId& run : preemptions.evictions) evict(scan, run);
  for (const Relocation& relocation : preemptions.moves) move_run(scan.plan, relocation, scan.now);
  for (const model::RunId& run : preemptions.evictions)
    scan.plan.preempted_for.emplace(run, pending.run);
  for (const auto& [run, host] : preemptions.moves)
    scan.plan.preempted_for.emplace(run, pending.run);
  if (preemptions.empty()) return false;
  if (!policy_.preempts_at_once && scan.undone.size() == requeued) return false;
  reset_shapes(scan);
  return true;
}

// Devices were freed, and no head has a reservation yet: shapes that did not fit may fit now.
void Scheduler::Impl::reset_shapes(QueueScan& scan) {
  for (ShapeState& shape : scan.shapes) {
    scan.shapes_open += static_cast<std::size_t>(shape.fits_nowhere && shape.pending > 0);
    shape = {.pending = shape.pending};
  }
}

void Scheduler::Impl::move_run(Plan& plan, const Relocation& relocation, Time now) {
  cached_head_.reset();
  if (policy_.preempts_at_once)
    move_at_once(plan, relocation, now);
  else
    start_move(plan, relocation, now);
}

void Scheduler::Impl::move_at_once(Plan& plan, const Relocation& relocation, Time now) {
  AllocatedRun allocated_run = allocated_runs_.remove(relocation.run);
  device_allocator_.deallocate(allocated_run.allocations);
  allocated_run.allocations =
      device_allocator_.allocate(shape_of(allocated_run), std::span(&relocation.host, 1));
  allocated_run.expected_end += lost_time(policy_, allocated_run, now);
  allocated_run.started = now;
  --allocated_run.moves_left;
  plan.moves.push_back(
      {allocated_run.run, device_allocator_.with_host_names(allocated_run.allocations)});
  allocated_runs_.add(std::move(allocated_run));
}

// The run leaves, and its destination is reserved from now on.
void Scheduler::Impl::start_move(Plan& plan, const Relocation& relocation, Time now) {
  AllocatedRun allocated_run = allocated_runs_.remove(relocation.run);
  const Duration limit = allocated_run.expected_end - allocated_run.started;
  auto taken = device_allocator_.allocate(shape_of(allocated_run), std::span(&relocation.host, 1));
  plan.moves.push_back({relocation.run, device_allocator_.with_host_names(taken)});
  allocated_runs_.add(reserved_at_destination(allocated_run, std::move(taken), now + limit));
  allocated_runs_.add(std::move(allocated_run));
  mark_leaving(relocation.run, now);
}

void Scheduler::Impl::evict(QueueScan& scan, const model::RunId& run) {
  if (placed_preemptible_.contains(run)) {
    scan.undone.push_back(run);
    return remove_allocation(run);
  }
  scan.plan.evictions.push_back(run);
  if (policy_.preempts_at_once)
    remove_allocation(run);
  else
    mark_leaving(run, scan.now);
}

void Scheduler::Impl::mark_leaving(const model::RunId& run, Time now) {
  cached_head_.reset();
  AllocatedRun allocated_run = allocated_runs_.remove(run);
  allocated_run.leaving = true;
  allocated_run.expected_end = now;
  allocated_runs_.add(std::move(allocated_run));
}

Scheduler::Scheduler(const map::ClusterMap& map, const SchedulingPolicy& policy, MapGrowth growth,
                     const std::optional<EngineHosts>& engine)
    : impl_(std::make_unique<Impl>(map, policy, growth, engine)) {}
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

void Scheduler::add_pending(const PendingRun& pending) { impl_->add_pending(pending); }
void Scheduler::remove_pending(const model::RunId& run) { impl_->remove_pending(run); }
void Scheduler::add_allocation(const Allocation& allocation) { impl_->add_allocation(allocation); }
void Scheduler::set_expected_end(const model::RunId& run, Time expected_end) {
  impl_->set_expected_end(run, expected_end);
}
void Scheduler::remove_allocation(const model::RunId& run) { impl_->remove_allocation(run); }
void Scheduler::set_host(const std::string& host, model::HostState state, std::string why) {
  impl_->set_host(host, state, std::move(why));
}
void Scheduler::set_limits(const Limits& limits) { impl_->set_limits(limits); }
Plan Scheduler::schedule(Time now) { return impl_->schedule(now); }
std::optional<model::RunId> Scheduler::head() const { return impl_->head(); }
std::vector<WaitingRun> Scheduler::waiting() const { return impl_->waiting(); }
std::vector<std::optional<Time>> Scheduler::start_estimates() const {
  return impl_->start_estimates();
}

}  // namespace lockstep::sched
