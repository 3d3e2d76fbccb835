#include "platform/core/sched/queue/dependencies.h"

#include <map>
#include <string>

#include "base/format.h"

namespace lockstep {
namespace {

// The cycle from the run to itself, along the dependencies that were found.
std::string describe_cycle(const RunId& run, const RunId& last,
                           const std::map<RunId, RunId>& found_from) {
  std::string cycle = text(run);
  for (RunId at = last; at != run; at = found_from.at(at)) cycle = text(at) + " after " + cycle;
  return text(run) + " after " + cycle;
}

}  // namespace

Result<void> check_no_cycle(const RunId& run, std::span<const RunId> after,
                            const std::function<std::vector<RunId>(const RunId&)>& after_of) {
  std::map<RunId, RunId> found_from;
  std::vector<RunId> to_visit;
  const auto visit = [&](const RunId& by, const RunId& other) {
    if (other != run && found_from.emplace(other, by).second) to_visit.push_back(other);
    return other == run;
  };
  const auto refuse = [&](const RunId& last) {
    return Error{Code::invalid, format("{} would wait for itself: {}; leave one of them out",
                                       text(run), describe_cycle(run, last, found_from))};
  };
  for (const RunId& other : after)
    if (visit(run, other)) return refuse(run);
  while (!to_visit.empty()) {
    const RunId visited = to_visit.back();
    to_visit.pop_back();
    for (const RunId& other : after_of(visited))
      if (visit(visited, other)) return refuse(visited);
  }
  return {};
}

}  // namespace lockstep
