#include "platform/core/sched/evictions.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace lockstep {
namespace {

struct Victim {
  const Holder* holder = nullptr;
  Load load;  // of its part on one host
  Duration loss{};
};
using VictimsByHost = std::vector<std::vector<Victim>>;

bool stands_behind(const Holder& holder, const Victims& victims) {
  const bool is_rival = holder.run.project == victims.project && holder.priority > victims.priority;
  return holder.key > *victims.pausing_behind && !is_rival;
}

bool has_checkpoint(const SchedulingPolicy& policy, const Holder& holder, Time now) {
  return holder.saved || now - holder.started >= policy.checkpoint_interval;
}

bool is_victim(const SchedulingPolicy& policy, const Holder& holder, const Victims& victims,
               Time now) {
  if (is_evictable(holder)) return true;  // also one that came this moment
  return !holder.leaving && victims.pausing_behind && holder.run_class == RunClass::normal &&
         holder.may_pause && holder.taken.size() == 1 && stands_behind(holder, victims) &&
         has_checkpoint(policy, holder, now);
}

// By host, who loses least first.
VictimsByHost victims_of(const HostTable& table, Holders& holders, const SchedulingPolicy& policy,
                         const Victims& victims, Time now) {
  VictimsByHost by_host(table.names.size());
  for (const auto& [end, holder, _] : holders.by_end()) {
    if (!is_victim(policy, *holder, victims, now)) continue;
    const Duration loss = device_count(*holder) * lost_time(policy, *holder, now);
    for (const Taken& taken : holder->taken)
      by_host[as_index(taken.host)].push_back({holder, load_of(taken), loss});
  }
  for (auto& all : by_host)
    std::ranges::sort(all, {},
                      [](const Victim& one) { return std::pair(one.loss, one.holder->run); });
  return by_host;
}

// What it takes to make room for one node on one host.
struct Vacancy {
  int host = 0;
  std::vector<const Holder*> leave;
  Duration loss{};
};

class Clearance {
 public:
  Clearance(const Room& room, const Gang& gang, VictimsByHost victims)
      : room_(seen_by(gang.shape.needs, room)),
        would_do_(seen_by(fixed_part(gang.shape.needs), room)),
        gang_(gang),
        victims_(std::move(victims)) {}

  std::vector<RunId> cheapest() {
    const HostTable& table = room_.table();
    if (gang_.reach == Reach::pods) {
      try_hosts(0, table.host_count());
    } else {
      for (const auto& [first, end] : table.pods) try_hosts(first, end);
    }
    return best_;
  }

 private:
  void try_hosts(int first, int end);
  std::optional<Vacancy> vacate(int host, const Load& node);
  bool holds(int host, const Load& node) const {
    return room_.is_seen(host) && room_.free(host) >= node.devices;
  }

  Room room_;
  const Room would_do_;  // the hosts that would, if they were free
  const Gang& gang_;
  const VictimsByHost victims_;
  std::vector<RunId> best_;
  Duration least_{};
};

void Clearance::try_hosts(int first, int end) {
  const Shape& shape = gang_.shape;
  const auto cheaper = [](const Vacancy& one) { return std::pair(one.loss, one.host); };
  const auto vacancies = [&](std::size_t node) {
    std::vector<Vacancy> all;
    for (int host = first; host < end; ++host)
      if (auto vacancy = vacate(host, load_on(shape, node))) all.push_back(std::move(*vacancy));
    std::ranges::sort(all, {}, cheaper);
    return all;
  };
  auto chosen = vacancies(0);
  if (std::ssize(chosen) < shape.nodes) return;
  chosen.resize(as_index(shape.nodes));
  if (shape.remainder > 0) {
    auto rest = vacancies(as_index(shape.nodes));
    std::erase_if(rest, [&](const Vacancy& one) {
      return std::ranges::count(chosen, one.host, &Vacancy::host) > 0;
    });
    if (rest.empty()) return;
    chosen.push_back(std::move(rest.front()));
  }
  std::ranges::sort(chosen, {}, &Vacancy::host);
  std::vector<RunId> leave;
  Duration loss{};
  for (const Vacancy& vacancy : chosen) {
    loss += vacancy.loss;  // that of a gang on several of the hosts counts for each
    for (const Holder* holder : vacancy.leave)
      if (std::ranges::count(leave, holder->run) == 0) leave.push_back(holder->run);
  }
  if (leave.empty() || (!best_.empty() && loss >= least_)) return;
  best_ = std::move(leave);
  least_ = loss;
}

std::optional<Vacancy> Clearance::vacate(int host, const Load& node) {
  if (!would_do_.is_seen(host)) return std::nullopt;
  Vacancy vacancy{.host = host, .leave = {}};
  std::vector<const Victim*> gone;
  for (const Victim& victim : victims_[as_index(host)]) {
    if (holds(host, node)) break;
    room_.give(host, victim.load);
    gone.push_back(&victim);
  }
  const bool enough = holds(host, node);
  for (auto one = gone.rbegin(); one != gone.rend(); ++one) {
    room_.take(host, (*one)->load);
    if (!enough || holds(host, node)) continue;  // it may stay
    room_.give(host, (*one)->load);
    vacancy.leave.push_back((*one)->holder);
    vacancy.loss += (*one)->loss;
  }
  for (const Victim* one : gone)
    if (std::ranges::count(vacancy.leave, one->holder) > 0) room_.take(host, one->load);
  if (!enough) return std::nullopt;
  return vacancy;
}

}  // namespace

Duration lost_time(const SchedulingPolicy& policy, const Holder& holder, Time now) {
  const Duration undone =
      holder.saved ? now - *holder.saved : (now - holder.started) % policy.checkpoint_interval;
  return undone + policy.restart_time;
}

std::vector<RunId> evictions_for(const Room& room, const Gang& gang, Holders& holders,
                                 const SchedulingPolicy& policy, const Victims& victims, Time now) {
  auto by_host = victims_of(room.table(), holders, policy, victims, now);
  return Clearance(room, gang, std::move(by_host)).cheapest();
}

}  // namespace lockstep
