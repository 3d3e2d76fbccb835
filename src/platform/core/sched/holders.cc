#include "platform/core/sched/holders.h"

#include <utility>

namespace lockstep {

std::int64_t device_count(const Holder& holder) {
  std::int64_t devices = 0;
  for (const Taken& taken : holder.taken) devices += std::ssize(taken.devices);
  return devices;
}

bool Holders::Sooner::operator()(const End& a, const End& b) const {
  if (a.time != b.time) return a.time < b.time;
  return a.holder->run < b.holder->run;
}

void Holders::add(Holder holder) {
  const auto [place, added] = by_run_.emplace(holder.run, std::move(holder));
  LS_CHECK(added);
  count(place->second, 1);
  ends_.add({place->second.expected_end, &place->second});
}

Holder Holders::remove(const RunId& run) {
  const auto found = by_run_.find(run);
  LS_CHECK(found != by_run_.end());
  count(found->second, -1);
  ends_.remove({found->second.expected_end, &found->second});
  Holder holder = std::move(found->second);
  by_run_.erase(found);
  return holder;
}

void Holders::count(const Holder& holder, int sign) {
  Sum& sum = sums_[static_cast<std::size_t>(holder.run_class)];
  sum.devices += sign * device_count(holder);
  sum.runs += sign;
  leaving_ += sign * int{holder.leaving};
}

}  // namespace lockstep
