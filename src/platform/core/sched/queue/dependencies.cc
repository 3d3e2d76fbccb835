#include "platform/core/sched/queue/dependencies.h"

#include <map>
#include <string>

#include "base/format.h"

namespace lockstep::sched {
namespace {

// The cycle from the run to itself, along the dependencies that were found.
std::string describe_cycle(const model::RunId& run, const model::RunId& last,
                           const std::map<model::RunId, model::RunId>& found_from) {
  std::string cycle = text(run);
  for (model::RunId at = last; at != run; at = found_from.at(at))
    cycle = text(at) + " after " + cycle;
  return text(run) + " after " + cycle;
}

}  // namespace

Result<void> check_no_cycle(
    const model::RunId& run, std::span<const model::RunId> after,
    const std::function<std::vector<model::RunId>(const model::RunId&)>& after_of) {
  std::map<model::RunId, model::RunId> found_from;
  std::vector<model::RunId> to_visit;
  const auto visit = [&](const model::RunId& by, const model::RunId& other) {
    if (other != run && found_from.emplace(other, by).second) to_visit.push_back(other);
    return other == run;
  };
  const auto refuse = [&](const model::RunId& last) {
    return Error{Code::invalid, format("{} would wait for itself: {}; leave one of them out",
                                       text(run), describe_cycle(run, last, found_from))};
  };
  for (const model::RunId& other : after)
    if (visit(run, other)) return refuse(run);
  while (!to_visit.empty()) {
    const model::RunId visited = to_visit.back();
    to_visit.pop_back();
    for (const model::RunId& other : after_of(visited))
      if (visit(visited, other)) return refuse(visited);
  }
  return {};
}

}  // namespace lockstep::sched
