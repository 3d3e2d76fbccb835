#include "platform/core/sched/holders.h"

#include <utility>

namespace lockstep {

bool Holders::Sooner::operator()(const End& a, const End& b) const {
  if (a.time != b.time) return a.time < b.time;
  return a.holder->run < b.holder->run;
}

void Holders::add(Holder holder) {
  const auto [place, added] = by_run_.emplace(holder.run, std::move(holder));
  LS_CHECK(added);
  ends_.add({place->second.expected_end, &place->second});
}

Holder Holders::remove(const RunId& run) {
  const auto found = by_run_.find(run);
  LS_CHECK(found != by_run_.end());
  ends_.remove({found->second.expected_end, &found->second});
  Holder holder = std::move(found->second);
  by_run_.erase(found);
  return holder;
}

}  // namespace lockstep
