#include "platform/core/step/ending/removal.h"

#include <algorithm>
#include <string>

#include "base/format.h"

namespace lockstep::step {
namespace {

Error not_removable(const model::RunId& run, const std::string& why) {
  return {Code::invalid, format("{} cannot be removed: {}", text(run), why)};
}

bool waits_for(const model::Run& run, const std::string& name) {
  return run.awaits_dependencies && std::ranges::find(run.spec.after, name) != run.spec.after.end();
}

}  // namespace

Result<void> check_removable(const model::State& state, const model::RunId& id,
                             const std::vector<model::RunId>& same_folder) {
  const auto run = state.runs.find(id);
  if (run == state.runs.end())
    return Error{Code::not_found, format("there is no run {}; `lockstep ps` lists them", text(id))};
  if (!model::is_final(run->second.state) && model::is_external(run->second))
    return not_removable(id, format("it is {}; end it where {} has started it",
                                    text(run->second.state), run->second.launcher));
  if (!model::is_final(run->second.state))
    return not_removable(id, format("it is {}; `lockstep stop {} --wait` ends it first",
                                    text(run->second.state), text(id)));
  if (!model::orphans_of(state, id).empty())
    return not_removable(id, format("{} of another store is active here; `lockstep orphan stop {}` "
                                    "ends it first",
                                    text(id), text(id)));
  const auto given_up = state.given_up.lower_bound({{id, 0}, 0});
  if (given_up != state.given_up.end() && given_up->first.attempt.run == id)
    return not_removable(id, format("processes of its attempt {} may still run on host {}, which "
                                    "does not answer",
                                    given_up->first.attempt.epoch, given_up->second.devices.host));
  for (const model::RunId& other : state.open)
    if (waits_for(state.runs.at(other), text(id)))
      return not_removable(id, format("{} is to start after it; remove it once that one has "
                                      "started, or stop that one",
                                      text(other)));
  for (const model::RunId& other : same_folder)
    return not_removable(id, format("{} continues from its checkpoint folder; remove it once that "
                                    "one has ended",
                                    text(other)));
  return {};
}

}  // namespace lockstep::step
