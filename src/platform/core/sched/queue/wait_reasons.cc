#include "platform/core/sched/queue/wait_reasons.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "platform/core/sched/queue/debug_share.h"
#include "platform/core/sched/queue/reservation.h"

namespace lockstep::sched {
namespace {

std::string count_of(std::int64_t n, std::string_view thing) {
  return format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// Small numbers as words.
std::string small_number_text(int n) {
  constexpr std::string_view kWords[] = {"two", "three", "four"};
  return n >= 2 && n <= 4 ? std::string(kWords[n - 2]) : format("{}", n);
}

// How many hosts have enough free devices for one of its nodes. If the gang must stay in one pod:
// of the pod with most of them.
int fitting_hosts(const FreeCapacity& capacity, const Gang& gang) {
  const int devices = gang.shape.devices;
  if (gang.scope == PlacementScope::several_pods) return capacity.all_hosts_with(devices);
  int most = 0;
  for (int pod = 0; pod < capacity.table().pod_count(); ++pod)
    most = std::max(most, capacity.hosts_with(pod, devices));
  return most;
}

// Text after the devices of one node: ", 4 cores and 8 GiB".
std::string describe_needs(const model::Needs& needs) {
  std::string result;
  const auto add = [&](const std::string& more) { result += ", " + more; };
  if (needs.kind) add(format("of kind {}", *needs.kind == map::DeviceKind::gpu ? "gpu" : "core"));
  if (needs.device_memory > Bytes(0)) add(text(needs.device_memory) + " on each of them");
  if (needs.cores > 0) add(count_of(needs.cores, "free core"));
  if (needs.memory > Bytes(0)) add(text(needs.memory) + " of free memory");
  if (needs.labels && !needs.labels->empty()) add("label " + map::labels_text(*needs.labels));
  return result;
}

std::string describe_gang(const HostTable& table, const Gang& gang) {
  const auto& [nodes, devices, remainder, needs] = gang.shape;
  const bool gathers = nodes > 1 || remainder > 0;
  return format("{} with {} free {}{}{}{}", count_of(nodes, "host"), devices,
                devices == 1 ? "device" : "devices", describe_needs(needs),
                remainder == 0 ? "" : format(" and one with {}", remainder),
                gathers && gang.scope == PlacementScope::one_pod && table.pod_count() > 1
                    ? " in one pod"
                    : "");
}

// "needs 4 devices, and project demo holds 8 of the 8 that it may hold at once"
WaitingReason limit_reason(const Accounts& accounts, const Accounts::ExceededLimit& refusal,
                           std::int64_t devices) {
  const std::string who =
      format("{} {}", refusal.by_user ? "user" : "project", accounts.principal_name(refusal));
  if (devices > refusal.limit)
    return WaitingReason(format("needs {}, and {} may hold {} at once", count_of(devices, "device"),
                                who, refusal.limit));
  return WaitingReason(format("needs {}, and {} holds {} of the {} that it may hold at once",
                              count_of(devices, "device"), who, refusal.devices_used,
                              refusal.limit));
}

// "needs 2 hosts with 2 free devices: vm-0 is cordoned (by root: its fan is loud), 1 more host is
// cordoned or drained, too"
std::string closed_hosts_reason(const DeviceAllocator& allocator, const Gang& gang) {
  const HostTable& table = allocator.free_capacity().table();
  std::string names;
  int count = 0;
  for (int host = 0; host < table.host_count(); ++host) {
    if (allocator.is_open(host) || ++count > 1) continue;
    names = format("{} is {}", table.names[as_index(host)],
                   model::displayed_host_state(allocator.state(host)));
    if (!allocator.state_reason(host).empty())
      names += format(" ({})", allocator.state_reason(host));
  }
  if (count > 1)
    names += format(", {} {} cordoned or drained, too", count_of(count - 1, "more host"),
                    count == 2 ? "is" : "are");
  return format("needs {}: {}", describe_gang(table, gang), names);
}

class WaitExplainer {
 public:
  WaitExplainer(const SchedulingPolicy& policy, const DeviceAllocator& allocator,
                const Accounts& accounts, WaitingList& waiting, AllocatedRuns& allocated_runs,
                Time now, const std::optional<ReservedStart>& first)
      : policy_(policy),
        device_allocator_(allocator),
        free_capacity_(allocator.free_capacity()),
        accounts_(accounts),
        waiting_(waiting),
        allocated_runs_(allocated_runs),
        now_(now),
        first_(first),
        by_shape_(waiting.count_by_shape().size()),
        fits_by_shape_(waiting.count_by_shape().size()),
        not_at_engine_by_shape_(waiting.count_by_shape().size()) {}

  std::vector<WaitingRun> explain_all() {
    std::vector<WaitingRun> all;
    const auto entries = waiting_.entries();
    all.reserve(entries.size());
    const auto look = [&](const Entry& entry) {
      explain(entry, all.emplace_back());
      return true;
    };
    visit_in_queue_order(
        entries, [&](const Entry& entry) { return has_room_in_debug_share(entry); }, look);
    return all;
  }

 private:
  using Entry = WaitingList::Entry;

  // The parts that runs of one shape have in common.
  struct ShapeReason {
    std::optional<model::RunId> blocker;
    std::optional<Time> start;
    WaitingReason reason;
  };

  bool has_room_in_debug_share(const Entry& entry) const {
    return debug_share_has_room(policy_, waiting_, allocated_runs_, waiting_.gang(entry).shape);
  }
  void explain(const Entry& entry, WaitingRun& waiting);
  void by_limit(const Entry& entry, const Accounts::ExceededLimit& refusal,
                WaitingRun& waiting) const;
  std::string why_nowhere(const Gang& gang) const;
  bool engine_is_full() const;
  std::string full_engine_reason() const;
  const std::string& why_not_at_engine(const Entry& entry);
  const std::optional<model::RunId>& first_end_at_engine();
  void at_engine(const Entry& entry, WaitingRun& waiting);
  void behind_head(const Entry& entry, WaitingRun& waiting);
  WaitingReason behind_head_reason(const Entry& entry);
  bool fits(const Entry& entry);
  const ShapeReason& shape_reason(const Entry& entry);
  ReservedStart start_of(const Entry& entry) const;
  std::string describe_wait(const Entry& entry, const model::RunId& blocker);

  const SchedulingPolicy& policy_;
  const DeviceAllocator& device_allocator_;
  const FreeCapacity& free_capacity_;
  const Accounts& accounts_;
  WaitingList& waiting_;
  AllocatedRuns& allocated_runs_;
  const Time now_;
  const std::optional<ReservedStart>& first_;
  std::vector<std::optional<ShapeReason>> by_shape_;
  std::vector<std::optional<bool>> fits_by_shape_;  // as of now
  std::vector<std::optional<std::string>> not_at_engine_by_shape_;
  std::optional<std::optional<model::RunId>> first_end_at_engine_;
  std::optional<model::RunId> head_;
  // Reasons for runs behind the head, by the shape if the engine could have the run (else -1), and
  // by the time limit of a run that could delay the head.
  std::map<std::pair<int, std::optional<Duration>>, WaitingReason> behind_head_reasons_;
};

void WaitExplainer::explain(const Entry& entry, WaitingRun& waiting) {
  waiting.run.project = waiting_.project(entry);
  waiting.run.number = entry.number;
  const Gang& gang = waiting_.gang(entry);
  if (!can_be_placed(gang.scope) && !can_be_placed(gang.at_engine)) {
    waiting.reason = WaitingReason(why_nowhere(gang));
    return;
  }
  if (const auto refusal = accounts_.exceeded_limit(entry.account, device_count(gang.shape)))
    return by_limit(entry, *refusal, waiting);
  if (!can_be_placed(gang.scope)) return at_engine(entry, waiting);
  if (head_ && policy_.backfill_mode != BackfillMode::greedy) return behind_head(entry, waiting);
  const ShapeReason& found = shape_reason(entry);
  head_ = waiting.run;
  behind_head_reasons_.clear();
  waiting.blocker = found.blocker;
  waiting.reason = found.reason;
  waiting.expected_start = found.start;
  waiting.reserved = found.start && policy_.backfill_mode != BackfillMode::greedy;
}

// It waits for the first time at which enough devices of its project, or user, are freed.
void WaitExplainer::by_limit(const Entry& entry, const Accounts::ExceededLimit& refusal,
                             WaitingRun& waiting) const {
  const std::int64_t needs = device_count(waiting_.gang(entry).shape);
  waiting.reason = limit_reason(accounts_, refusal, needs);
  if (needs > refusal.limit) return;
  std::int64_t held = refusal.devices_used;
  bool engine_decides = false;  // when one of these runs starts, and so when it ends
  for (const auto& [end, allocated_run] : allocated_runs_.by_end()) {
    if (allocated_run->is_move_destination ||
        !accounts_.applies_to(refusal, allocated_run->account))
      continue;
    held -= device_count(*allocated_run);
    engine_decides = engine_decides || is_at_engine(*allocated_run);
    if (held + needs > refusal.limit) continue;
    waiting.blocker = allocated_run->run;
    if (!engine_decides) waiting.expected_start = end;
    break;
  }
}

// No hosts could hold it now.
std::string WaitExplainer::why_nowhere(const Gang& gang) const {
  const EngineCapacity* engine = waiting_.engine();
  std::vector<std::string> closed;
  if (gang.scope == PlacementScope::hosts_closed)
    closed.push_back(closed_hosts_reason(device_allocator_, gang));
  if (gang.at_engine == PlacementScope::hosts_closed)
    closed.push_back(closed_hosts_reason(engine->hosts(), {gang.shape, gang.at_engine}));
  if (!closed.empty()) return joined(closed, "; ");
  return gang_too_large(free_capacity_.table(), engine ? &engine->table() : nullptr, gang.shape)
      .message;
}

bool WaitExplainer::engine_is_full() const {
  return allocated_runs_.at_engine() >= waiting_.engine()->runs_max();
}

// The same for all runs, and after each end of a job.
std::string WaitExplainer::full_engine_reason() const {
  return format("the engine has as many jobs as slurm_jobs_max allows, {}",
                waiting_.engine()->runs_max());
}

// Empty: the engine could have the run now, or never.
const std::string& WaitExplainer::why_not_at_engine(const Entry& entry) {
  auto& known = not_at_engine_by_shape_[as_index(entry.shape)];
  if (known) return *known;
  known.emplace();
  const Gang& gang = waiting_.gang(entry);
  if (gang.at_engine == PlacementScope::hosts_closed)
    known = closed_hosts_reason(waiting_.engine()->hosts(), {gang.shape, gang.at_engine});
  else if (can_be_placed(gang.at_engine) && engine_is_full())
    known = full_engine_reason();
  return *known;
}

const std::optional<model::RunId>& WaitExplainer::first_end_at_engine() {
  if (first_end_at_engine_) return *first_end_at_engine_;
  const auto& ends = allocated_runs_.by_end();
  const auto next = std::ranges::find_if(
      ends, [](const AllocatedRuns::End& end) { return is_at_engine(*end.allocated_run); });
  return first_end_at_engine_.emplace(next == ends.end() ? std::nullopt
                                                         : std::optional(next->allocated_run->run));
}

// It fits only there. A run that may not start there while it is not full could exhaust a limit
// that a head needs.
void WaitExplainer::at_engine(const Entry& entry, WaitingRun& waiting) {
  if (!engine_is_full() && head_) return behind_head(entry, waiting);
  waiting.blocker = first_end_at_engine();
  waiting.reason = WaitingReason(engine_is_full() ? full_engine_reason()
                                                  : "waits for the next pass over the queue");
}

void WaitExplainer::behind_head(const Entry& entry, WaitingRun& waiting) {
  waiting.blocker = head_;
  waiting.behind_head = true;
  waiting.reason = behind_head_reason(entry);
}

// Many runs share a reason: there are few shapes, and users specify few different time limits.
WaitingReason WaitExplainer::behind_head_reason(const Entry& entry) {
  const bool could_delay = policy_.backfill_mode == BackfillMode::easy && fits(entry);
  const std::string& at_engine = why_not_at_engine(entry);
  WaitingReason& known =
      behind_head_reasons_[{at_engine.empty() ? -1 : entry.shape,
                            could_delay ? std::optional(entry.time_limit) : std::nullopt}];
  if (!known.empty()) return known;
  std::string line = could_delay
                         ? format("waits behind {}, which it could delay by running for up to {}",
                                  text(*head_), text(entry.time_limit))
                         : format("waits behind {} in the queue", text(*head_));
  if (!at_engine.empty()) line += "; " + at_engine;
  return known = WaitingReason(std::move(line));
}

bool WaitExplainer::fits(const Entry& entry) {
  auto& known = fits_by_shape_[as_index(entry.shape)];
  if (!known) known = device_allocator_.fits(waiting_.gang(entry));
  return *known;
}

const WaitExplainer::ShapeReason& WaitExplainer::shape_reason(const Entry& entry) {
  auto& known = by_shape_[as_index(entry.shape)];
  if (known) return *known;
  known.emplace();
  if (fits(entry)) {  // the capacity has changed since the last decision
    known->reason = WaitingReason("waits for the next pass over the queue");
    return *known;
  }
  const ReservedStart found = start_of(entry);
  known->blocker = found.blocker;
  known->start = found.start;
  known->reason = WaitingReason(describe_wait(entry, *found.blocker));
  return *known;
}

ReservedStart WaitExplainer::start_of(const Entry& entry) const {
  model::RunId run = waiting_.run(entry);
  if (first_ && first_->run == run) return *first_;
  // Only the first head evicts runs.
  const bool evicts =
      entry.tier != WaitingList::kPreemptibleTier && policy_.backfill_mode != BackfillMode::greedy;
  const Reservation reservation(free_capacity_, waiting_.gang(entry), Duration{}, allocated_runs_,
                                evicts ? std::optional(now_) : std::nullopt);
  return {std::move(run), reservation.start(), reservation.blocker()};
}

std::string WaitExplainer::describe_wait(const Entry& entry, const model::RunId& blocker) {
  const Gang& gang = waiting_.gang(entry);
  const int have = fitting_hosts(device_allocator_.free_capacity_for(gang.shape.needs), gang);
  std::string reason =
      format("waits for {}: needs {}, {} {} them", text(blocker),
             describe_gang(free_capacity_.table(), gang), have, have == 1 ? "has" : "have");
  if (const std::string& at_engine = why_not_at_engine(entry); !at_engine.empty())
    reason += "; " + at_engine;
  return reason;
}

}  // namespace

std::vector<WaitingRun> explain_waiting(const SchedulingPolicy& policy,
                                        const DeviceAllocator& allocator, const Accounts& accounts,
                                        WaitingList& waiting, AllocatedRuns& allocated_runs,
                                        Time now, const std::optional<ReservedStart>& first) {
  return WaitExplainer(policy, allocator, accounts, waiting, allocated_runs, now, first)
      .explain_all();
}

namespace {

// The most hosts with so many devices that one gang may have.
int hosts_for_a_gang(const FreeCapacity& empty, int devices) {
  return fitting_hosts(
      empty, {{1, devices},
              empty.table().spreads ? PlacementScope::several_pods : PlacementScope::one_pod});
}

// Among the gangs that fit on the empty map and have at most as many devices in total, the one with
// the most devices. Ties: the one with as many devices on a node, else the one on the fewest hosts.
// Without a remainder.
std::optional<Shape> nearest_of_kind(const HostTable& table, const Shape& asked) {
  const FreeCapacity empty = restricted_to(asked.needs, FreeCapacity(table));
  std::optional<Shape> nearest;
  for (int devices = table.devices_per_host_max; devices > 0; --devices) {
    const std::int64_t wished = device_count(asked) / devices;
    const int hosts = hosts_for_a_gang(empty, devices);
    const Shape shape{static_cast<int>(std::min<std::int64_t>(wished, hosts)), devices, 0,
                      asked.needs};
    if (shape.nodes == 0) continue;
    const auto more = device_count(shape) - (nearest ? device_count(*nearest) : 0);
    if (more > 0 || (more == 0 && devices == asked.devices)) nearest = shape;
  }
  return nearest;
}

std::optional<Shape> nearest_that_fits(const HostTable& table, const Shape& asked) {
  if (table.mixes_kinds || asked.needs.kind) return nearest_of_kind(table, asked);
  std::optional<Shape> nearest;
  for (const map::DeviceKind kind : table.kinds()) {
    Shape of_kind = asked;
    of_kind.needs.kind = kind;
    const auto one = nearest_of_kind(table, of_kind);
    if (one && (!nearest || device_count(*one) > device_count(*nearest))) nearest = one;
  }
  return nearest;
}

std::string what_would_fit(const HostTable& table, const Shape& asked) {
  const auto nearest = nearest_that_fits(table, asked);
  if (!nearest) return "ask for less, or see `lockstep map`";
  return format("--nodes {} --devices {} would fit; `lockstep map` shows it", nearest->nodes,
                nearest->devices);
}

// "waits for hosts to join: needs 4 hosts with 8 devices each, and the map has 2 hosts with 16
// devices in all, at most 8 on one; --nodes 2 --devices 8 would fit now"
std::string waits_for_hosts(const HostTable& table, const Shape& shape) {
  const std::string needs =
      format("waits for hosts to join: needs {} with {} each{}", count_of(shape.nodes, "host"),
             count_of(shape.devices, "device"), describe_needs(shape.needs));
  if (table.host_count() == 0) return needs + ", and no host has joined yet";
  const auto nearest = nearest_that_fits(table, shape);
  return format(
      "{}, and the map has {} with {} in all, at most {} on one{}", needs,
      count_of(table.host_count(), "host"), count_of(table.devices, "device"),
      table.devices_per_host_max,
      nearest ? format("; --nodes {} --devices {} would fit now", nearest->nodes, nearest->devices)
              : std::string());
}

// Empty: no host has taints.
std::string taint_note(const HostTable& table) {
  const auto tainted = std::ranges::count_if(table.traits, &HostTable::Traits::has_taints);
  if (tainted == 0) return "";
  return format("{} with taints, which the run does not tolerate; ", count_of(tainted, "host"));
}

// Why a gang cannot have all hosts of the table. Empty: it can.
std::string restriction_note(const HostTable& table, const Shape& shape) {
  if (!table.spreads) return ", and a run stays in one pod, because the map has several engines";
  if (!table.mixes_kinds && !shape.needs.kind && table.kinds().size() > 1)
    return ", and a run has devices of one kind there";
  return "";
}

// "2 hosts with 8 devices in all, at most 4 on one"
std::string describe_hosts(const HostTable& table, const Shape& shape) {
  return format("{} with {} in all, at most {} on one{}", count_of(table.host_count(), "host"),
                count_of(table.devices, "device"), table.devices_per_host_max,
                restriction_note(table, shape));
}

std::int64_t most_devices(const HostTable& table, const Shape& shape) {
  const auto nearest = nearest_that_fits(table, shape);
  return nearest ? device_count(*nearest) : 0;
}

// "needs 4 hosts with 8 devices each; Lockstep places runs on 2 hosts with 8 devices in all, at
// most 4 on one; the engine chooses among 3 hosts with 12 devices in all, at most 4 on one"
std::string too_large_for_both(const HostTable& table, const HostTable& of_engine,
                               const Shape& shape) {
  const std::string engine =
      format("the engine chooses among {}", describe_hosts(of_engine, shape));
  if (table.growth == MapGrowth::hosts_join)
    return format("{}; {}", waits_for_hosts(table, shape), engine);
  const bool more_there = most_devices(of_engine, shape) > most_devices(table, shape);
  return format("needs {} with {} each{}; Lockstep places runs on {}; {}; {}",
                count_of(shape.nodes, "host"), count_of(shape.devices, "device"),
                describe_needs(shape.needs), describe_hosts(table, shape), engine,
                what_would_fit(more_there ? of_engine : table, shape));
}

}  // namespace

Error gang_too_large(const HostTable& table, const Shape& shape) {
  if (table.growth == MapGrowth::hosts_join) return {Code::invalid, waits_for_hosts(table, shape)};
  const int hosts = table.host_count();
  if (shape.nodes > 1 && hosts == 1)
    return {Code::invalid,
            format("the map has 1 host; start the daemon with `lockstep serve --hosts {}x{}` to "
                   "present this machine as {}",
                   shape.nodes, shape.devices, small_number_text(shape.nodes))};
  if (shape.needs != model::Needs{})
    return {Code::invalid,
            format("needs {} with {} each{}, and the map has no such hosts, or too few; {}",
                   count_of(shape.nodes, "host"), count_of(shape.devices, "device"),
                   describe_needs(shape.needs), what_would_fit(table, shape))};
  return {Code::invalid,
          format("needs {} with {} each, but the map has {}; {}", count_of(shape.nodes, "host"),
                 count_of(shape.devices, "device"), describe_hosts(table, shape),
                 taint_note(table) + what_would_fit(table, shape))};
}

Error gang_too_large(const HostTable& table, const HostTable* of_engine, const Shape& shape) {
  if (!of_engine || of_engine->host_count() == 0) return gang_too_large(table, shape);
  if (table.host_count() == 0 && table.growth == MapGrowth::none)
    return gang_too_large(*of_engine, shape);
  return {Code::invalid, too_large_for_both(table, *of_engine, shape)};
}

}  // namespace lockstep::sched
