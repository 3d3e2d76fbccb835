#include "platform/core/step/starting/host_choice.h"

#include <algorithm>
#include <set>

#include "map/query.h"
#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/sched/capacity/free_capacity.h"

namespace lockstep::step {
namespace {

bool is_suspected(const model::HostRow& row, const model::RunId& run) {
  return row.state == model::HostState::avoided ||
         std::ranges::find(row.losses, text(run), &model::HostLoss::run) != row.losses.end();
}

bool has_gpus(const map::Host& host) {
  return std::ranges::any_of(map::devices(host), [](const map::Device* device) {
    return device->kind == map::DeviceKind::gpu;
  });
}

map::ClusterMap map_of_engine(const model::State& state, const std::string& engine) {
  map::ClusterMap map = state.map;
  std::erase_if(map.pods,
                [&](const map::Pod& pod) { return model::engine_of(state, pod) != engine; });
  return map;
}

}  // namespace

HostChoice host_choice_of(const model::State& state, const model::Attempt& attempt) {
  const model::Run& run = state.runs.at(attempt.id.run);
  const sched::HostTable table(map_of_engine(state, attempt.engine));
  const auto suitable = restricted_to(model::hardware_needs(model::placement_needs(run.spec)),
                                      sched::FreeCapacity(table));
  HostChoice choice;
  std::set<std::string> excluded, suspected;
  int trusted = 0;
  for (int host = 0; host < table.host_count(); ++host) {
    const std::string& name = table.names[sched::as_index(host)];
    const auto row = state.hosts.find(name);
    const bool has_row = row != state.hosts.end();
    if (!suitable.is_eligible(host) || (has_row && row->second.state >= model::HostState::closed)) {
      excluded.insert(name);
      continue;
    }
    choice.gpus = choice.gpus || has_gpus(*map::find_host(state.map, name));
    if (has_row && is_suspected(row->second, run.id))
      suspected.insert(name);
    else if ((!has_row || model::why_unusable(row->second).empty()) &&
             suitable.has_free(host, run.spec.devices))
      ++trusted;
  }
  if (trusted >= model::node_count(run.spec)) excluded.merge(suspected);
  for (const std::string& name : table.names)
    if (excluded.contains(name)) choice.excluded.push_back(name);
  return choice;
}

}  // namespace lockstep::step
