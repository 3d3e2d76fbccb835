#include "platform/core/sched/after.h"

#include <map>
#include <string>

#include "base/format.h"

namespace lockstep {
namespace {

// From the run to itself, by who told us of whom.
std::string way_round(const RunId& run, const RunId& last, const std::map<RunId, RunId>& told_by) {
  std::string way = text(run);
  for (RunId at = last; at != run; at = told_by.at(at)) way = text(at) + " after " + way;
  return text(run) + " after " + way;
}

}  // namespace

Result<void> check_no_cycle(const RunId& run, std::span<const RunId> after,
                            const std::function<std::vector<RunId>(const RunId&)>& after_of) {
  std::map<RunId, RunId> told_by;
  std::vector<RunId> to_ask;
  const auto look_at = [&](const RunId& by, const RunId& other) {
    if (other != run && told_by.emplace(other, by).second) to_ask.push_back(other);
    return other == run;
  };
  const auto refuse = [&](const RunId& last) {
    return Error{Code::invalid, format("{} would wait for itself: {}; leave one of them out",
                                       text(run), way_round(run, last, told_by))};
  };
  for (const RunId& other : after)
    if (look_at(run, other)) return refuse(run);
  while (!to_ask.empty()) {
    const RunId asked = to_ask.back();
    to_ask.pop_back();
    for (const RunId& other : after_of(asked))
      if (look_at(asked, other)) return refuse(asked);
  }
  return {};
}

}  // namespace lockstep
