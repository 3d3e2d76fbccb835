#include "platform/core/sched/reasons.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/format.h"
#include "platform/core/sched/lane.h"
#include "platform/core/sched/reservation.h"

namespace lockstep {
namespace {

std::string count_of(std::int64_t n, std::string_view thing) {
  return format("{} {}{}", n, thing, n == 1 ? "" : "s");
}

// As small numbers are said.
std::string number_in_words(int n) {
  constexpr std::string_view kWords[] = {"two", "three", "four"};
  return n >= 2 && n <= 4 ? std::string(kWords[n - 2]) : format("{}", n);
}

// How many hosts have what one of its nodes needs free; of the pod that has most of them, when the
// gang must stay in one.
int fitting_hosts(const Room& room, const Gang& gang) {
  const int devices = gang.shape.devices;
  if (gang.reach == Reach::pods) return room.all_hosts_with(devices);
  int most = 0;
  for (int pod = 0; pod < room.table().pod_count(); ++pod)
    most = std::max(most, room.hosts_with(pod, devices));
  return most;
}

// Of one node, behind its devices: ", 4 cores and 8 GiB".
std::string words_of(const Needs& needs) {
  std::string words;
  const auto add = [&](const std::string& more) { words += ", " + more; };
  if (needs.kind) add(format("of kind {}", *needs.kind == DeviceKind::gpu ? "gpu" : "core"));
  if (needs.device_memory > Bytes(0)) add(text(needs.device_memory) + " on each of them");
  if (needs.cores > 0) add(count_of(needs.cores, "free core"));
  if (needs.memory > Bytes(0)) add(text(needs.memory) + " of free memory");
  return words;
}

std::string need_of(const HostTable& table, const Gang& gang) {
  const auto& [nodes, devices, remainder, needs] = gang.shape;
  const bool gathers = nodes > 1 || remainder > 0;
  return format("{} with {} free {}{}{}{}", count_of(nodes, "host"), devices,
                devices == 1 ? "device" : "devices", words_of(needs),
                remainder == 0 ? "" : format(" and one with {}", remainder),
                gathers && gang.reach == Reach::pod && table.pod_count() > 1 ? " in one pod" : "");
}

class Explanation {
 public:
  Explanation(const SchedulingPolicy& policy, const Floor& floor, const Accounts& accounts,
              WaitingList& waiting, Holders& holders, Time now,
              const std::optional<HeadStart>& first)
      : policy_(policy),
        floor_(floor),
        room_(floor.room()),
        accounts_(accounts),
        waiting_(waiting),
        holders_(holders),
        now_(now),
        first_(first),
        by_shape_(waiting.count_by_shape().size()),
        fits_by_shape_(waiting.count_by_shape().size()) {}

  std::vector<WaitingRun> of_all() {
    std::vector<WaitingRun> all;
    const auto entries = waiting_.entries();
    all.reserve(entries.size());
    const auto look = [&](const Entry& entry) {
      explain(entry, all.emplace_back());
      return true;
    };
    in_turn(entries, [&](const Entry& entry) { return has_room_in_lane(entry); }, look);
    return all;
  }

 private:
  using Entry = WaitingList::Entry;

  // What runs of one shape have in common.
  struct Outlook {
    std::optional<RunId> blocker;
    std::optional<Time> start;
    Reason reason;
  };

  bool has_room_in_lane(const Entry& entry) const {
    return lane_has_room(policy_, room_.table(), holders_, waiting_.gang(entry).shape);
  }
  void explain(const Entry& entry, WaitingRun& waiting);
  void by_limit(const Entry& entry, const Accounts::Refusal& refusal, WaitingRun& waiting) const;
  std::string closed_hosts(const Gang& gang) const;
  void behind_head(const Entry& entry, WaitingRun& waiting);
  const Reason& could_delay(Duration limit);
  bool fits(const Entry& entry);
  const Outlook& outlook(const Entry& entry);
  HeadStart start_of(const Entry& entry) const;
  std::string what_it_waits_for(const Gang& gang, const RunId& blocker) const;

  const SchedulingPolicy& policy_;
  const Floor& floor_;
  const Room& room_;
  const Accounts& accounts_;
  WaitingList& waiting_;
  Holders& holders_;
  const Time now_;
  const std::optional<HeadStart>& first_;
  std::vector<std::optional<Outlook>> by_shape_;
  std::vector<std::optional<bool>> fits_by_shape_;  // now
  std::optional<RunId> head_;
  // What those are told who stand behind it; and those who could delay it, by how long they run.
  Reason behind_;
  std::map<Duration, Reason> delaying_;
};

void Explanation::explain(const Entry& entry, WaitingRun& waiting) {
  waiting.run.project = waiting_.project(entry);
  waiting.run.number = entry.number;
  const Gang& gang = waiting_.gang(entry);
  if (gang.reach == Reach::nowhere) {
    waiting.reason = Reason(too_large(room_.table(), gang.shape).message);
    return;
  }
  if (gang.reach == Reach::closed) {
    waiting.reason = Reason(closed_hosts(gang));
    return;
  }
  if (const auto refusal = accounts_.refusal(entry.account, device_count(gang.shape)))
    return by_limit(entry, *refusal, waiting);
  if (head_ && policy_.passing != Passing::anybody) return behind_head(entry, waiting);
  const Outlook& found = outlook(entry);
  head_ = waiting.run;
  behind_ = Reason(format("waits behind {} in the queue", text(waiting.run)));
  delaying_.clear();
  waiting.blocker = found.blocker;
  waiting.reason = found.reason;
  waiting.expected_start = found.start;
}

// It waits for the first moment at which enough devices of its project, or user, are given back.
void Explanation::by_limit(const Entry& entry, const Accounts::Refusal& refusal,
                           WaitingRun& waiting) const {
  const std::int64_t needs = device_count(waiting_.gang(entry).shape);
  const std::string who =
      format("{} {}", refusal.by_user ? "user" : "project", accounts_.name_of(refusal));
  if (needs > refusal.most) {
    waiting.reason = Reason(format("needs {}, and {} may hold {} at once",
                                   count_of(needs, "device"), who, refusal.most));
    return;
  }
  std::int64_t held = refusal.held;
  for (const auto& [end, holder, _] : holders_.by_end()) {
    if (holder->arriving || !accounts_.counts(refusal, holder->account)) continue;
    held -= device_count(*holder);
    if (held + needs > refusal.most) continue;
    waiting.blocker = holder->run;
    waiting.expected_start = end;
    break;
  }
  waiting.reason = Reason(format("needs {}, and {} holds {} of the {} that it may hold at once",
                                 count_of(needs, "device"), who, refusal.held, refusal.most));
}

// "vm-0 is cordoned (by root: its fan is loud), 1 more host is cordoned or drained"
std::string Explanation::closed_hosts(const Gang& gang) const {
  const HostTable& table = room_.table();
  std::string names;
  int count = 0;
  for (int host = 0; host < table.host_count(); ++host) {
    if (floor_.is_open(host) || ++count > 1) continue;
    names = format("{} is {}", table.names[as_index(host)], state_in_words(floor_.state(host)));
    if (!floor_.why(host).empty()) names += format(" ({})", floor_.why(host));
  }
  if (count > 1)
    names += format(", {} {} cordoned or drained, too", count_of(count - 1, "more host"),
                    count == 2 ? "is" : "are");
  return format("needs {}: {}", need_of(table, gang), names);
}

void Explanation::behind_head(const Entry& entry, WaitingRun& waiting) {
  const bool refused = policy_.passing == Passing::backfill && fits(entry);
  waiting.blocker = head_;
  waiting.reason = refused ? could_delay(entry.limit) : behind_;
}

// Users write few different time-outs.
const Reason& Explanation::could_delay(Duration limit) {
  Reason& known = delaying_[limit];
  if (known.empty())
    known = Reason(format("waits behind {}, which it could delay by running for up to {}",
                          text(*head_), text(limit)));
  return known;
}

bool Explanation::fits(const Entry& entry) {
  auto& known = fits_by_shape_[as_index(entry.shape)];
  if (!known) known = floor_.fits(waiting_.gang(entry));
  return *known;
}

const Explanation::Outlook& Explanation::outlook(const Entry& entry) {
  auto& known = by_shape_[as_index(entry.shape)];
  if (known) return *known;
  const Gang& gang = waiting_.gang(entry);
  known.emplace();
  if (fits(entry)) {  // since the last decision
    known->reason = Reason("waits for the next pass over the queue");
    return *known;
  }
  const HeadStart found = start_of(entry);
  known->blocker = found.blocker;
  known->start = found.start;
  known->reason = Reason(what_it_waits_for(gang, *found.blocker));
  return *known;
}

HeadStart Explanation::start_of(const Entry& entry) const {
  RunId run = waiting_.run(entry);
  if (first_ && first_->run == run) return *first_;
  // Only the first has anybody evicted.
  const bool evicts =
      entry.rank != WaitingList::kPreemptible && policy_.passing != Passing::anybody;
  const Reservation reservation(room_, waiting_.gang(entry), Duration{}, holders_,
                                evicts ? std::optional(now_) : std::nullopt);
  return {std::move(run), reservation.start(), reservation.blocker()};
}

std::string Explanation::what_it_waits_for(const Gang& gang, const RunId& blocker) const {
  const int have = fitting_hosts(floor_.room_for(gang.shape.needs), gang);
  return format("waits for {}: needs {}, {} {} them", text(blocker), need_of(room_.table(), gang),
                have, have == 1 ? "has" : "have");
}

}  // namespace

std::vector<WaitingRun> explain(const SchedulingPolicy& policy, const Floor& floor,
                                const Accounts& accounts, WaitingList& waiting, Holders& holders,
                                Time now, const std::optional<HeadStart>& first) {
  return Explanation(policy, floor, accounts, waiting, holders, now, first).of_all();
}

namespace {

// Of the gangs that the empty map holds and that have no more devices in all the one with the most;
// of equals one with as many a node, else that on the fewest hosts. Without a remainder.
std::optional<Shape> nearest_that_fits(const HostTable& table, const Shape& asked) {
  const Room empty = seen_by(asked.needs, Room(table));
  std::optional<Shape> nearest;
  for (int devices = table.most_devices; devices > 0; --devices) {
    const std::int64_t wished = device_count(asked) / devices;
    const int hosts = empty.all_hosts_with(devices);
    const Shape shape{static_cast<int>(std::min<std::int64_t>(wished, hosts)), devices, 0,
                      asked.needs};
    if (shape.nodes == 0) continue;
    const auto more = device_count(shape) - (nearest ? device_count(*nearest) : 0);
    if (more > 0 || (more == 0 && devices == asked.devices)) nearest = shape;
  }
  return nearest;
}

std::string what_would_fit(const HostTable& table, const Shape& asked) {
  const auto nearest = nearest_that_fits(table, asked);
  if (!nearest) return "ask for less, or see `lockstep map`";
  return format("--nodes {} --devices {} would fit; `lockstep map` shows it", nearest->nodes,
                nearest->devices);
}

}  // namespace

Error too_large(const HostTable& table, const Shape& shape) {
  const int hosts = table.host_count();
  if (shape.nodes > 1 && hosts == 1)
    return {Code::invalid,
            format("the map has 1 host; start the daemon with `lockstep serve --hosts {}x{}` to "
                   "present this machine as {}",
                   shape.nodes, shape.devices, number_in_words(shape.nodes))};
  if (shape.needs != Needs{})
    return {Code::invalid,
            format("needs {} with {} each{}, and the map has no such hosts, or too few; {}",
                   count_of(shape.nodes, "host"), count_of(shape.devices, "device"),
                   words_of(shape.needs), what_would_fit(table, shape))};
  return {Code::invalid,
          format("needs {} with {} each, but the map has {} with {} in all, at most {} on one; {}",
                 count_of(shape.nodes, "host"), count_of(shape.devices, "device"),
                 count_of(hosts, "host"), count_of(table.devices, "device"), table.most_devices,
                 what_would_fit(table, shape))};
}

}  // namespace lockstep
