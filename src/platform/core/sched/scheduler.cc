#include "platform/core/sched/scheduler.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "platform/core/sched/accounts.h"
#include "platform/core/sched/departures.h"
#include "platform/core/sched/evictions.h"
#include "platform/core/sched/holders.h"
#include "platform/core/sched/in_order.h"
#include "platform/core/sched/lane.h"
#include "platform/core/sched/moves.h"
#include "platform/core/sched/reasons.h"
#include "platform/core/sched/reservation.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

class Scheduler::State {
 public:
  State(const Map& map, const SchedulingPolicy& policy)
      : policy_(policy), table_(map), floor_(table_), waiting_(table_, accounts_, policy) {
    LS_CHECK(policy.checkpoint_interval > Duration(0));
  }
  State(const State&) = delete;  // its parts refer to one another
  State& operator=(const State&) = delete;

  void submit(const Want& want) {
    waiting_.add(want, accounts_.number_of(want.run.project, want.user));
  }
  void expect_more(std::size_t waiting, std::size_t holding) {
    waiting_.reserve(waiting);
    holders_.reserve(holding);
  }
  void withdraw(const RunId& run) {
    first_.reset();
    waiting_.remove(run);
  }
  void hold(const Holding& holding);
  void fetch(const Holding& holding, bool far) const;
  void expect(const RunId& run, Time expected_end);
  void release(const RunId& run);
  void set_host(const std::string& name, HostState state, std::string why);
  void set_limits(const Limits& limits) { accounts_.set(limits); }

  Plan decide(Time now);
  std::vector<WaitingRun> waiting() {
    std::optional<HeadStart> first;
    if (first_)
      first = {waiting_.run(first_->entry), first_->place.start(), first_->place.blocker()};
    return explain(policy_, floor_, accounts_, waiting_, holders_, decided_, first);
  }
  std::vector<std::optional<Time>> estimates() {
    return starts_in_order(policy_, floor_, accounts_, waiting_, holders_, decided_);
  }
  std::optional<RunId> head();

 private:
  using Entry = WaitingList::Entry;
  static constexpr std::size_t kNeverRefused = static_cast<std::size_t>(-1);

  // Of one that has to wait.
  struct Kept {
    Reservation place;
    int rank = 0;
    Gang gang;
    Entry entry;
  };
  // Of the runs of one shape.
  struct OfShape {
    int left = 0;       // how many may still start
    bool full = false;  // it fits nowhere
    // How many runs had started when its next would have delayed a head.
    std::size_t refused = kNeverRefused;
    // And behind the heads: who runs longer than this has not to be looked at, see skim().
    Duration longest = Duration::max();
  };
  // What one walk over the queue has found so far.
  struct Pass {
    Time now;
    std::vector<Kept> kept{};
    std::array<int, WaitingList::kRanks> heads{};  // by rank: those that did not fit and may block
    std::vector<OfShape> shapes{};                 // by number
    std::size_t shapes_left = 0;
    std::vector<std::size_t> started{};  // positions in the order
    std::vector<RunId> taken_back{};     // were placed by this decision, and make room now
    Plan plan{};
  };

  // Once over the queue.
  Plan walk(Time now, std::vector<RunId>& taken_back);
  Pass begin(Time now);
  void look_at(Pass& pass, std::size_t position, int rank = WaitingList::kOrdinary);
  std::size_t skim(const Pass& pass, std::size_t next);
  void note(Pass& pass, int shape, bool starts) const;
  // Of those behind the head, by their positions.
  void pass_shortest_first(Pass& pass, std::vector<std::size_t> candidates);
  // Whether the run starts; if it does, it holds devices from here on.
  bool consider(Pass& pass, const Entry& entry, int rank);
  bool may_pass(Pass& pass, const Entry& entry, int rank, std::span<const int> hosts);
  bool leaves_limits(const Pass& pass, const Entry& entry) const;
  void meet_full(Pass& pass, const Entry& entry, int rank);
  bool known_head(const Pass& pass, const Entry& entry, int rank) const;
  Reservation keep(const Pass& pass, const Gang& gang, Duration limit, int rank);
  void start(Pass& pass, const Entry& entry, std::span<const int> hosts);
  bool has_room_in_lane(const Entry& entry) const;
  static bool may_make_room(const Pass& pass, int rank);
  bool make_room(Pass& pass, const Entry& head, int rank);
  void look_anew(Pass& pass);
  void move(Plan& plan, const Relocation& relocation, Time now);
  void relocate(Plan& plan, const Relocation& relocation, Time now);
  void reserve(Plan& plan, const Relocation& relocation, Time now);
  void evict(Pass& pass, const RunId& run);
  void leave(const RunId& run, Time now);
  void wait_again(Plan& plan, const std::vector<RunId>& taken_back);
  bool ends_in_time(const Pass& pass, const Entry& entry, int rank) const;
  // Who is preemptible is evicted when a head's time has come, which is reckoned without him; but
  // not while others leave for it: they would have left in vain.
  bool bothers(const Kept& kept, int rank) const {
    return rank != WaitingList::kPreemptible || kept.rank == rank || holders_.leaving() > 0;
  }

  const SchedulingPolicy policy_;
  const HostTable table_;
  Accounts accounts_;
  Floor floor_;
  WaitingList waiting_;
  Holders holders_;
  Time decided_{};  // when it last did
  // The first head, as the last walk has found it; none once devices have changed hands since.
  std::optional<Kept> first_;
  std::vector<OfShape> shapes_;  // a walk's, kept for its memory alone
  // Of this decision, if devices are not vacated at once: preemptible runs that it has placed.
  // Should one of them have to make room for somebody after all, it has not begun yet.
  std::map<RunId, Want> placed_;
};

namespace {

void append(Plan& plan, Plan more) {
  std::ranges::move(more.evictions, std::back_inserter(plan.evictions));
  std::ranges::move(more.moves, std::back_inserter(plan.moves));
  std::ranges::move(more.placements, std::back_inserter(plan.placements));
  plan.makes_room_for.merge(more.makes_room_for);
}

// Devices where it goes. They count to no limit: it holds as many already.
Holder kept_for(const Holder& holder, TakenList taken, Time until) {
  return {.taken = std::move(taken),
          .run = holder.run,
          .expected_end = until,
          .run_class = holder.run_class,
          .account = holder.account,
          .needs = holder.needs,
          .arriving = true};
}

}  // namespace

void Scheduler::State::hold(const Holding& holding) {
  LS_CHECK(!waiting_.contains(holding.run));
  first_.reset();
  const auto account = accounts_.number_of(holding.run.project, holding.user);
  Holder holder{.taken = floor_.take(holding.slices, holding.needs),
                .run = holding.run,
                .expected_end = holding.expected_end,
                .moves_left = holding.moves_left,
                .started = holding.started,
                .run_class = holding.run_class,
                .account = account,
                .needs = holding.needs,
                .may_pause = holding.may_pause,
                .key = order_key(policy_, holding.arrived, holding.timeout, holding.share),
                .leaving = holding.leaving,
                .priority = holding.priority,
                .saved = holding.saved};
  accounts_.take(account, device_count(holder));
  if (!holding.moving_to.empty())
    holders_.add(kept_for(holder, floor_.take(holding.moving_to, holding.needs),
                          holding.expected_end + holding.limit));
  holders_.add(std::move(holder));
}

void Scheduler::State::fetch(const Holding& holding, bool far) const {
  if (!far) return floor_.fetch(holding.slices);
  for (const Slice& slice : holding.slices) table_.fetch(slice.host);
}

void Scheduler::State::expect(const RunId& run, Time expected_end) {
  first_.reset();
  Holder holder = holders_.remove(run);
  holder.expected_end = expected_end;
  holders_.add(std::move(holder));
}

void Scheduler::State::release(const RunId& run) {
  first_.reset();
  const Holder holder = holders_.remove(run);
  accounts_.give(holder.account, device_count(holder));
  floor_.give(holder.taken);
  if (holders_.contains(run, true)) floor_.give(holders_.remove(run, true).taken);
}

void Scheduler::State::set_host(const std::string& name, HostState state, std::string why) {
  const auto host = table_.find(name);
  if (!host) return;
  first_.reset();
  floor_.set(*host, state, std::move(why));
  waiting_.set_open(*host, floor_.is_open(*host));
}

// It comes to an end: a walk that changes anything starts a run for good, or has one leave, or only
// places and takes back preemptible runs. Those are taken back for a head that has its place once
// others have left, and until then none of them takes it again (bothers()). So a walk leaves fewer
// waiting than there were, but for one or two for each head; more of them were our mistake, as are
// policies that settle, do not vacate at once and keep no place for the head.
Plan Scheduler::State::decide(Time now) {
  Plan plan;
  decided_ = now;
  placed_.clear();
  for (const Relocation& one : departures_from_drained(floor_, holders_, policy_, now))
    move(plan, one, now);
  const std::size_t in_vain_most = 2 * (waiting_.size() + 1);
  std::size_t in_vain = 0;
  bool changed = true;
  do {
    const std::size_t before = waiting_.size();
    std::vector<RunId> taken_back;
    Plan found = walk(now, taken_back);
    changed = !found.placements.empty() || !taken_back.empty();
    append(plan, std::move(found));
    wait_again(plan, taken_back);
    if (changed && waiting_.size() >= before) ++in_vain;
    LS_CHECK(in_vain <= in_vain_most, "a decision places runs and takes them back without end");
  } while (policy_.settles && changed);
  return plan;
}

// As if this decision had never placed them.
void Scheduler::State::wait_again(Plan& plan, const std::vector<RunId>& taken_back) {
  for (const RunId& run : taken_back) {
    std::erase_if(plan.placements, [&](const Placement& one) { return one.run == run; });
    submit(placed_.at(run));
  }
}

Plan Scheduler::State::walk(Time now, std::vector<RunId>& taken_back) {
  const auto entries = waiting_.entries();
  Pass pass = begin(now);
  // The lane; whoever is beyond it stands among the others by its key.
  std::vector<std::size_t> beyond;
  std::size_t next = 0;
  for (; next < entries.size() && entries[next].rank == WaitingList::kLane; ++next) {
    if (has_room_in_lane(entries[next]))
      look_at(pass, next, WaitingList::kLane);
    else
      beyond.push_back(next);
  }
  const auto stands_behind = [&](std::size_t late) {
    return next < entries.size() && entries[next].rank == WaitingList::kOrdinary &&
           entries[next].key <= entries[late].key;
  };
  auto late = beyond.begin();
  while (pass.shapes_left > 0 || may_make_room(pass, WaitingList::kOrdinary)) {
    if (late == beyond.end()) next = skim(pass, next);
    const bool from_beyond = late != beyond.end() && !stands_behind(*late);
    if (!from_beyond && next == entries.size()) break;
    look_at(pass, from_beyond ? *late++ : next++);
    const bool head_waits = pass.heads[WaitingList::kOrdinary] > 0;
    if (!head_waits || policy_.passing == Passing::anybody) continue;
    if (policy_.passing == Passing::nobody) break;
    if (policy_.candidates == Candidates::in_turn) continue;
    std::vector<std::size_t> candidates(late, beyond.end());
    for (; next < entries.size(); ++next) candidates.push_back(next);
    pass_shortest_first(pass, std::move(candidates));
  }
  std::ranges::sort(pass.started);
  waiting_.remove_at(pass.started);
  taken_back = std::move(pass.taken_back);
  shapes_ = std::move(pass.shapes);
  // Whoever started after it was reckoned may have changed it.
  if (pass.started.empty() && taken_back.empty() && !pass.kept.empty())
    first_ = std::move(pass.kept.front());
  return std::move(pass.plan);
}

Scheduler::State::Pass Scheduler::State::begin(Time now) {
  Pass pass{.now = now};
  pass.shapes = std::move(shapes_);
  pass.shapes.clear();
  for (const int count : waiting_.count_by_shape()) {
    pass.shapes.push_back({.left = count});
    pass.shapes_left += static_cast<std::size_t>(count > 0);
  }
  return pass;
}

// rank: by which it may start, at best.
void Scheduler::State::look_at(Pass& pass, std::size_t position, int rank) {
  const Entry& entry = waiting_.entries()[position];
  const bool starts = consider(pass, entry, std::max(entry.rank, rank));
  if (starts) pass.started.push_back(position);
  note(pass, entry.shape, starts);
}

// From there on the first for whom consider() may do anything. Most of those who wait behind the
// heads are passed over here, at a nanosecond each.
std::size_t Scheduler::State::skim(const Pass& pass, std::size_t next) {
  const auto entries = waiting_.entries();
  if (pass.heads[WaitingList::kOrdinary] < policy_.reservations) return next;
  while (next < entries.size() && entries[next].rank == WaitingList::kOrdinary &&
         entries[next].limit > pass.shapes[as_index(entries[next].shape)].longest)
    ++next;
  return next;
}

// What consider() has found of a shape: it fits nowhere, or only who ends before every head starts.
void Scheduler::State::note(Pass& pass, int shape, bool starts) const {
  if (starts) {  // what the heads can spare is another now
    for (OfShape& one : pass.shapes)
      if (!one.full) one.longest = Duration::max();
    return;
  }
  OfShape& found = pass.shapes[as_index(shape)];
  if (found.full) {
    found.longest = Duration::min();
  } else if (found.refused == pass.started.size()) {
    for (const Kept& kept : pass.kept)
      found.longest = std::min(found.longest, kept.place.start() - pass.now);
  }
}

void Scheduler::State::pass_shortest_first(Pass& pass, std::vector<std::size_t> candidates) {
  const auto entries = waiting_.entries();
  std::ranges::stable_sort(candidates, {}, [&](std::size_t i) { return entries[i].limit; });
  for (auto next = candidates.begin(); next != candidates.end() && pass.shapes_left > 0;) {
    const std::size_t starts = pass.started.size();
    look_at(pass, *next);
    if (pass.started.size() == starts) {
      ++next;
    } else {
      candidates.erase(next);
      next = candidates.begin();
    }
  }
}

bool Scheduler::State::consider(Pass& pass, const Entry& entry, int rank) {
  OfShape& shape = pass.shapes[as_index(entry.shape)];
  const Gang& gang = waiting_.gang(entry);
  const bool may_be_head =
      can_be_placed(gang.reach) && pass.heads[as_index(rank)] < policy_.reservations;
  if (shape.full && !may_be_head) return false;
  // Nothing has changed since a head could spare its shape no devices.
  if (shape.refused == pass.started.size() && !ends_in_time(pass, entry, rank)) return false;
  if (!accounts_.allows(entry.account, device_count(gang.shape))) return false;
  if (!leaves_limits(pass, entry)) return false;
  auto hosts = floor_.choose(gang, policy_.fit);
  if (hosts.empty() && make_room(pass, entry, rank)) hosts = floor_.choose(gang, policy_.fit);
  if (hosts.empty()) {
    meet_full(pass, entry, rank);
    return false;
  }
  if (!may_pass(pass, entry, rank, hosts)) {
    shape.refused = pass.started.size();
    return false;
  }
  start(pass, entry, hosts);
  return true;
}

bool Scheduler::State::ends_in_time(const Pass& pass, const Entry& entry, int rank) const {
  return std::ranges::all_of(pass.kept, [&](const Kept& kept) {
    return !bothers(kept, rank) || pass.now + entry.limit <= kept.place.start();
  });
}

// Whoever would still be there leaves each of them what their project and user may hold: a head
// that a limit keeps has nobody evicted.
bool Scheduler::State::leaves_limits(const Pass& pass, const Entry& entry) const {
  const std::int64_t devices = device_count(waiting_.gang(entry).shape);
  return std::ranges::all_of(pass.kept, [&](const Kept& kept) {
    return pass.now + entry.limit <= kept.place.start() ||
           accounts_.allow(kept.entry.account, device_count(kept.gang.shape), entry.account,
                           devices);
  });
}

// Whoever would still be there leaves each of them its place, or takes none.
bool Scheduler::State::may_pass(Pass& pass, const Entry& entry, int rank,
                                std::span<const int> hosts) {
  const Shape& shape = waiting_.gang(entry).shape;
  std::vector<Kept*> spared;
  for (Kept& kept : pass.kept) {
    if (!bothers(kept, rank) || pass.now + entry.limit <= kept.place.start()) continue;
    if (kept.place.spare(shape, hosts)) {
      spared.push_back(&kept);
      continue;
    }
    for (Kept* one : spared) one->place.unspare(shape, hosts);
    return false;
  }
  return true;
}

std::optional<RunId> Scheduler::State::head() {
  std::optional<RunId> head;
  const auto look = [&](const Entry& entry) {
    const Gang& gang = waiting_.gang(entry);
    if (can_be_placed(gang.reach) && accounts_.allows(entry.account, device_count(gang.shape)))
      head = waiting_.run(entry);
    return !head;
  };
  in_turn(waiting_.entries(), [&](const Entry& entry) { return has_room_in_lane(entry); }, look);
  return head;
}

// The first of a rank that do not fit are its heads. One that cannot be placed blocks nobody.
void Scheduler::State::meet_full(Pass& pass, const Entry& entry, int rank) {
  if (!std::exchange(pass.shapes[as_index(entry.shape)].full, true)) --pass.shapes_left;
  const Gang& gang = waiting_.gang(entry);
  int& heads = pass.heads[as_index(rank)];
  if (!can_be_placed(gang.reach) || heads == policy_.reservations) return;
  ++heads;
  // Where nobody behind fits either, nobody has to be held back.
  const bool is_last = rank == WaitingList::kOrdinary && pass.shapes_left == 0;
  if (policy_.passing != Passing::backfill || is_last) return;
  pass.kept.push_back(known_head(pass, entry, rank)
                          ? *std::exchange(first_, std::nullopt)
                          : Kept{keep(pass, gang, entry.limit, rank), rank, gang, entry});
}

// Whether it is as the last walk has found it. Nobody whom it could have evicted has a say in that.
bool Scheduler::State::known_head(const Pass& pass, const Entry& entry, int rank) const {
  return first_ && pass.kept.empty() && first_->rank == rank && first_->entry.slot == entry.slot &&
         holders_.count_of(RunClass::preemptible) == 0;
}

Reservation Scheduler::State::keep(const Pass& pass, const Gang& gang, Duration limit, int rank) {
  std::vector<Reservation> earlier;
  for (const Kept& kept : pass.kept)
    if (bothers(kept, rank)) earlier.push_back(kept.place);
  const auto evicts = rank == WaitingList::kPreemptible ? std::nullopt : std::optional(pass.now);
  return {floor_.room(), gang, limit, holders_, evicts, earlier};
}

void Scheduler::State::start(Pass& pass, const Entry& entry, std::span<const int> hosts) {
  first_.reset();
  if (--pass.shapes[as_index(entry.shape)].left == 0) --pass.shapes_left;
  const Want want = waiting_.want(entry);
  const Shape& shape = waiting_.gang(entry).shape;
  Holder holder{.taken = floor_.take(shape, hosts),
                .run = want.run,
                .expected_end = pass.now + want.limit,
                .moves_left = want.moves_left,
                .started = pass.now,
                .run_class = want.run_class,
                .account = entry.account,
                .needs = want.needs,
                .may_pause = want.may_pause,
                .key = order_key(policy_, want),
                .priority = want.priority};
  if (!policy_.vacates_at_once && want.run_class == RunClass::preemptible)
    placed_.insert_or_assign(want.run, want);
  pass.plan.placements.push_back({want.run, floor_.named(holder.taken)});
  accounts_.take(entry.account, device_count(shape));
  holders_.add(std::move(holder));
}

bool Scheduler::State::has_room_in_lane(const Entry& entry) const {
  return lane_has_room(policy_, table_, holders_, waiting_.gang(entry).shape);
}

// As long as nobody waits for whom it would have to leave a place: else others left in vain.
bool Scheduler::State::may_make_room(const Pass& pass, int rank) {
  return rank != WaitingList::kPreemptible && pass.kept.empty() && pass.heads[as_index(rank)] == 0;
}

// Whether there is room now: by those who leave at once, if there is a way.
bool Scheduler::State::make_room(Pass& pass, const Entry& head, int rank) {
  const Gang& gang = waiting_.gang(head);
  if (!can_be_placed(gang.reach) || !may_make_room(pass, rank)) return false;
  const Want& want = waiting_.want(head);
  const Claim claim{gang, rank == WaitingList::kLane, head.key, want.run.project, want.priority};
  const Departures leave = departures_for(claim, floor_, holders_, policy_, pass.now);
  const std::size_t taken_back = pass.taken_back.size();
  for (const RunId& run : leave.evictions) evict(pass, run);
  for (const Relocation& relocation : leave.moves) move(pass.plan, relocation, pass.now);
  for (const RunId& run : leave.evictions) pass.plan.makes_room_for.emplace(run, want.run);
  for (const auto& [run, host] : leave.moves) pass.plan.makes_room_for.emplace(run, want.run);
  if (leave.empty()) return false;
  if (!policy_.vacates_at_once && pass.taken_back.size() == taken_back) return false;
  look_anew(pass);
  return true;
}

// Devices have become free, and no head had a place yet: what did not fit may.
void Scheduler::State::look_anew(Pass& pass) {
  for (OfShape& shape : pass.shapes) {
    pass.shapes_left += static_cast<std::size_t>(shape.full && shape.left > 0);
    shape = {.left = shape.left};
  }
}

void Scheduler::State::move(Plan& plan, const Relocation& relocation, Time now) {
  first_.reset();
  if (policy_.vacates_at_once)
    relocate(plan, relocation, now);
  else
    reserve(plan, relocation, now);
}

void Scheduler::State::relocate(Plan& plan, const Relocation& relocation, Time now) {
  Holder holder = holders_.remove(relocation.run);
  floor_.give(holder.taken);
  holder.taken = floor_.take(shape_of(holder), std::span(&relocation.host, 1));
  holder.expected_end += lost_time(policy_, holder, now);
  holder.started = now;
  --holder.moves_left;
  plan.moves.push_back({holder.run, floor_.named(holder.taken)});
  holders_.add(std::move(holder));
}

// It leaves, and has its next place from now on.
void Scheduler::State::reserve(Plan& plan, const Relocation& relocation, Time now) {
  Holder holder = holders_.remove(relocation.run);
  const Duration limit = holder.expected_end - holder.started;
  auto taken = floor_.take(shape_of(holder), std::span(&relocation.host, 1));
  plan.moves.push_back({relocation.run, floor_.named(taken)});
  holders_.add(kept_for(holder, std::move(taken), now + limit));
  holders_.add(std::move(holder));
  leave(relocation.run, now);
}

void Scheduler::State::evict(Pass& pass, const RunId& run) {
  if (placed_.contains(run)) {
    pass.taken_back.push_back(run);
    return release(run);
  }
  pass.plan.evictions.push_back(run);
  if (policy_.vacates_at_once)
    release(run);
  else
    leave(run, pass.now);
}

void Scheduler::State::leave(const RunId& run, Time now) {
  first_.reset();
  Holder holder = holders_.remove(run);
  holder.leaving = true;
  holder.expected_end = now;
  holders_.add(std::move(holder));
}

Scheduler::Scheduler(const Map& map, const SchedulingPolicy& policy)
    : state_(std::make_unique<State>(map, policy)) {}
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

void Scheduler::submit(const Want& want) { state_->submit(want); }
void Scheduler::expect_more(std::size_t waiting, std::size_t holding) {
  state_->expect_more(waiting, holding);
}
void Scheduler::withdraw(const RunId& run) { state_->withdraw(run); }
void Scheduler::hold(const Holding& holding) { state_->hold(holding); }
void Scheduler::fetch(const Holding& holding, bool far) const { state_->fetch(holding, far); }
void Scheduler::expect(const RunId& run, Time expected_end) { state_->expect(run, expected_end); }
void Scheduler::release(const RunId& run) { state_->release(run); }
void Scheduler::set_host(const std::string& host, HostState state, std::string why) {
  state_->set_host(host, state, std::move(why));
}
void Scheduler::set_limits(const Limits& limits) { state_->set_limits(limits); }
Plan Scheduler::decide(Time now) { return state_->decide(now); }
std::optional<RunId> Scheduler::head() const { return state_->head(); }
std::vector<WaitingRun> Scheduler::waiting() const { return state_->waiting(); }
std::vector<std::optional<Time>> Scheduler::estimates() const { return state_->estimates(); }

}  // namespace lockstep
