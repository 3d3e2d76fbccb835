#include "platform/core/sched/reasons.h"

#include <algorithm>
#include <optional>

#include "base/format.h"
#include "platform/core/sched/reservation.h"

namespace lockstep {
namespace {

// Work ahead is added up no further than this: nobody plans beyond, and sums cannot overflow.
constexpr Duration kFarthest = std::chrono::hours(24 * 365 * 100);

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

std::string need_of(const HostTable& table, const Gang& gang) {
  const auto& [nodes, devices, remainder] = gang.shape;
  const bool gathers = nodes > 1 || remainder > 0;
  return format("{} with {} free {}{}{}", count_of(nodes, "host"), devices,
                devices == 1 ? "device" : "devices",
                remainder == 0 ? "" : format(" and one with {}", remainder),
                gathers && gang.reach == Reach::pod && table.pod_count() > 1 ? " in one pod" : "");
}

class Explanation {
 public:
  Explanation(const SchedulingPolicy& policy, const Room& room, WaitingList& waiting,
              Holders& holders)
      : policy_(policy),
        room_(room),
        waiting_(waiting),
        holders_(holders),
        by_shape_(waiting.count_by_shape().size()),
        fits_by_shape_(waiting.count_by_shape().size()) {}

  std::vector<WaitingRun> of_all() {
    std::vector<WaitingRun> all;
    all.reserve(waiting_.entries().size());
    for (const auto& entry : waiting_.entries()) all.push_back(of(entry));
    return all;
  }

 private:
  using Entry = WaitingList::Entry;

  // What runs of one shape have in common.
  struct Outlook {
    std::optional<RunId> blocker;
    std::optional<Time> start;
    std::string reason;
  };

  WaitingRun of(const Entry& entry);
  WaitingRun behind_head(const Entry& entry);
  std::string could_delay(const Want& want) const;
  bool fits(const Entry& entry);
  const Outlook& outlook(const Entry& entry);
  std::string what_it_waits_for(const Gang& gang, const RunId& blocker) const;
  void count_in(const Entry& entry);

  const SchedulingPolicy& policy_;
  const Room& room_;
  WaitingList& waiting_;
  Holders& holders_;
  std::vector<std::optional<Outlook>> by_shape_;
  std::vector<std::optional<bool>> fits_by_shape_;  // now
  std::optional<RunId> head_;
  std::optional<Time> head_start_;
  std::string behind_;  // what those say who stand behind it
  Duration ahead_{};    // work of the head and those behind it so far, spread over all devices
};

WaitingRun Explanation::of(const Entry& entry) {
  const RunId& run = waiting_.want(entry).run;
  const Gang& gang = waiting_.gang(entry);
  if (gang.reach == Reach::nowhere)
    return {run, std::nullopt, too_large(room_.table(), gang.shape).message};
  if (head_ && policy_.passing != Passing::anybody) return behind_head(entry);
  const Outlook& found = outlook(entry);
  head_ = run;
  head_start_ = found.start;
  behind_ = format("waits behind {} in the queue", text(run));
  count_in(entry);
  return {run, found.blocker, found.reason, found.start};
}

WaitingRun Explanation::behind_head(const Entry& entry) {
  const Want& want = waiting_.want(entry);
  const bool refused = policy_.passing == Passing::backfill && fits(entry);
  WaitingRun waiting{want.run, head_, refused ? could_delay(want) : behind_};
  if (head_start_) waiting.expected_start = *head_start_ + ahead_;
  count_in(entry);
  return waiting;
}

std::string Explanation::could_delay(const Want& want) const {
  return format("waits behind {}, which it could delay by running for up to {}", text(*head_),
                text(want.limit));
}

bool Explanation::fits(const Entry& entry) {
  auto& known = fits_by_shape_[as_index(entry.shape)];
  if (!known) known = room_.fits(waiting_.gang(entry));
  return *known;
}

const Explanation::Outlook& Explanation::outlook(const Entry& entry) {
  auto& known = by_shape_[as_index(entry.shape)];
  if (known) return *known;
  const Gang& gang = waiting_.gang(entry);
  known.emplace();
  if (fits(entry)) {  // since the last decision
    known->reason = "waits for the next pass over the queue";
    return *known;
  }
  const Reservation reservation(room_, gang, holders_);
  known->blocker = reservation.blocker();
  known->start = reservation.start();
  known->reason = what_it_waits_for(gang, reservation.blocker());
  return *known;
}

std::string Explanation::what_it_waits_for(const Gang& gang, const RunId& blocker) const {
  const int have = fitting_hosts(room_, gang);
  return format("waits for {}: needs {}, {} {} them", text(blocker), need_of(room_.table(), gang),
                have, have == 1 ? "has" : "have");
}

void Explanation::count_in(const Entry& entry) {
  const Duration share = entry.limit / room_.table().devices;
  ahead_ = std::min(ahead_ + share * device_count(waiting_.gang(entry).shape), kFarthest);
}

}  // namespace

std::vector<WaitingRun> explain(const SchedulingPolicy& policy, const Room& room,
                                WaitingList& waiting, Holders& holders) {
  return Explanation(policy, room, waiting, holders).of_all();
}

Error too_large(const HostTable& table, const Shape& shape) {
  const int hosts = table.host_count();
  if (shape.nodes > 1 && hosts == 1)
    return {Code::invalid,
            format("the map has 1 host; start the daemon with `lockstep serve --hosts {}x{}` to "
                   "present this machine as {}",
                   shape.nodes, shape.devices, number_in_words(shape.nodes))};
  return {Code::invalid,
          format("needs {} with {} each, but the map has {} with {} in all, at most {} on one; ask "
                 "for less, or see `lockstep map`",
                 count_of(shape.nodes, "host"), count_of(shape.devices, "device"),
                 count_of(hosts, "host"), count_of(table.devices, "device"), table.most_devices)};
}

}  // namespace lockstep
