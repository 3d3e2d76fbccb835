#include "platform/core/sched/scheduler.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "platform/core/sched/holders.h"
#include "platform/core/sched/moves.h"
#include "platform/core/sched/place.h"
#include "platform/core/sched/reasons.h"
#include "platform/core/sched/reservation.h"
#include "platform/core/sched/waiting_list.h"

namespace lockstep {

class Scheduler::State {
 public:
  State(const Map& map, const SchedulingPolicy& policy)
      : policy_(policy), table_(map), floor_(table_), waiting_(table_, policy) {
    LS_CHECK(policy.checkpoint_interval > Duration(0));
  }
  State(const State&) = delete;  // its parts refer to one another
  State& operator=(const State&) = delete;

  void submit(const Want& want) {
    LS_CHECK(!holders_.contains(want.run));
    waiting_.add(want);
  }
  void withdraw(const RunId& run) { waiting_.remove(run); }
  void hold(const Holding& holding) {
    LS_CHECK(!waiting_.contains(holding.run));
    holders_.add({holding.run, floor_.take(holding.slices), holding.expected_end,
                  holding.moves_left, holding.started});
  }
  void expect(const RunId& run, Time expected_end) {
    Holder holder = holders_.remove(run);
    holder.expected_end = expected_end;
    holders_.add(std::move(holder));
  }
  void release(const RunId& run) { floor_.give(holders_.remove(run).taken); }

  Plan decide(Time now);
  std::vector<WaitingRun> waiting() { return explain(policy_, floor_.room(), waiting_, holders_); }
  std::optional<RunId> head();

 private:
  using Entry = WaitingList::Entry;

  // What one decision has found so far.
  struct Pass {
    Time now;
    std::optional<Reservation> reservation{};  // once a head has to wait
    bool head_waits = false;
    // By shape: how many of its runs may still start, none once it fits nowhere; how many runs had
    // started when its next would have delayed the head.
    std::vector<int> left{};
    std::vector<std::size_t> refused{};
    std::size_t shapes_left = 0;
    std::vector<std::size_t> started{};  // positions in the order
    Plan plan{};
  };

  // Whether the run starts; if it does, it holds devices from here on.
  bool consider(Pass& pass, const Entry& entry);
  bool may_pass(Pass& pass, const Entry& entry, std::span<const int> hosts);
  void meet_full(Pass& pass, const Entry& entry);
  void start(Pass& pass, const Entry& entry, std::span<const int> hosts);
  bool make_room(Pass& pass, const Gang& head);
  void move(Pass& pass, const Relocation& relocation);
  bool ends_in_time(const Pass& pass, const Entry& entry) const {
    return pass.reservation && pass.now + entry.limit <= pass.reservation->start();
  }

  const SchedulingPolicy policy_;
  const HostTable table_;
  Floor floor_;
  WaitingList waiting_;
  Holders holders_;
};

namespace {
constexpr std::size_t kNeverRefused = static_cast<std::size_t>(-1);
}  // namespace

Plan Scheduler::State::decide(Time now) {
  const auto& entries = waiting_.entries();
  Pass pass{.now = now};
  pass.left = waiting_.count_by_shape();
  pass.refused.resize(pass.left.size(), kNeverRefused);
  pass.shapes_left = pass.left.size() - static_cast<std::size_t>(std::ranges::count(pass.left, 0));
  for (std::size_t i = 0; i < entries.size() && pass.shapes_left > 0; ++i) {
    if (consider(pass, entries[i])) pass.started.push_back(i);
    if (pass.head_waits && policy_.passing == Passing::nobody) break;
  }
  waiting_.remove_at(pass.started);
  return std::move(pass.plan);
}

bool Scheduler::State::consider(Pass& pass, const Entry& entry) {
  const std::size_t shape = as_index(entry.shape);
  if (pass.left[shape] == 0) return false;
  // Nothing has changed since the head could spare its shape no devices.
  if (pass.refused[shape] == pass.started.size() && !ends_in_time(pass, entry)) return false;
  const Gang& gang = waiting_.gang(entry);
  auto hosts = choose_hosts(floor_.room(), gang, policy_.fit);
  if (hosts.empty() && !pass.head_waits && make_room(pass, gang))
    hosts = choose_hosts(floor_.room(), gang, policy_.fit);
  if (hosts.empty()) {
    meet_full(pass, entry);
    return false;
  }
  if (!may_pass(pass, entry, hosts)) {
    pass.refused[shape] = pass.started.size();
    return false;
  }
  start(pass, entry, hosts);
  return true;
}

bool Scheduler::State::may_pass(Pass& pass, const Entry& entry, std::span<const int> hosts) {
  if (!pass.reservation || ends_in_time(pass, entry)) return true;
  return pass.reservation->spare(waiting_.gang(entry).shape, hosts);
}

std::optional<RunId> Scheduler::State::head() {
  for (const Entry& entry : waiting_.entries())
    if (waiting_.gang(entry).reach != Reach::nowhere) return waiting_.want(entry).run;
  return std::nullopt;
}

// The first that does not fit is the head. One that never will blocks nobody.
void Scheduler::State::meet_full(Pass& pass, const Entry& entry) {
  pass.left[as_index(entry.shape)] = 0;
  --pass.shapes_left;
  const Gang& gang = waiting_.gang(entry);
  if (pass.head_waits || gang.reach == Reach::nowhere) return;
  pass.head_waits = true;
  if (policy_.passing == Passing::backfill) pass.reservation.emplace(floor_.room(), gang, holders_);
}

void Scheduler::State::start(Pass& pass, const Entry& entry, std::span<const int> hosts) {
  if (--pass.left[as_index(entry.shape)] == 0) --pass.shapes_left;
  const Want& want = waiting_.want(entry);
  Holder holder{want.run, floor_.take(shape_of(want), hosts), pass.now + want.limit,
                want.moves_left, pass.now};
  pass.plan.placements.push_back({want.run, floor_.named(holder.taken)});
  holders_.add(std::move(holder));
}

// By moves, if they are allowed and there is a way.
bool Scheduler::State::make_room(Pass& pass, const Gang& head) {
  if (!policy_.moves) return false;
  const auto relocations = relocations_for(floor_.room(), head, holders_, pass.now);
  for (const Relocation& relocation : relocations) move(pass, relocation);
  return !relocations.empty();
}

void Scheduler::State::move(Pass& pass, const Relocation& relocation) {
  Holder holder = holders_.remove(relocation.run);
  const int devices = static_cast<int>(holder.taken.front().devices.size());
  floor_.give(holder.taken);
  holder.taken = floor_.take({1, devices, 0}, std::span(&relocation.host, 1));
  holder.expected_end +=
      (pass.now - holder.started) % policy_.checkpoint_interval + policy_.restart_time;
  holder.started = pass.now;
  --holder.moves_left;
  pass.plan.moves.push_back({holder.run, floor_.named(holder.taken)});
  holders_.add(std::move(holder));
}

Scheduler::Scheduler(const Map& map, const SchedulingPolicy& policy)
    : state_(std::make_unique<State>(map, policy)) {}
Scheduler::~Scheduler() = default;
Scheduler::Scheduler(Scheduler&&) noexcept = default;
Scheduler& Scheduler::operator=(Scheduler&&) noexcept = default;

void Scheduler::submit(const Want& want) { state_->submit(want); }
void Scheduler::withdraw(const RunId& run) { state_->withdraw(run); }
void Scheduler::hold(const Holding& holding) { state_->hold(holding); }
void Scheduler::expect(const RunId& run, Time expected_end) { state_->expect(run, expected_end); }
void Scheduler::release(const RunId& run) { state_->release(run); }
Plan Scheduler::decide(Time now) { return state_->decide(now); }
std::optional<RunId> Scheduler::head() const { return state_->head(); }
std::vector<WaitingRun> Scheduler::waiting() const { return state_->waiting(); }

}  // namespace lockstep
