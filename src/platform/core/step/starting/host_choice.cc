#include "platform/core/step/starting/host_choice.h"

#include <algorithm>
#include <map>
#include <set>

#include "platform/core/model/hosts_by_placement.h"
#include "platform/core/sched/capacity/free_capacity.h"

namespace lockstep::step {
namespace {

using map::DeviceKind;

bool is_suspected(const model::HostRow& row, const model::RunId& run) {
  return row.state == model::HostState::avoided ||
         std::ranges::find(row.losses, text(run), &model::HostLoss::run) != row.losses.end();
}

// How many hosts with devices of one kind are open, large enough for a node, and can be used now;
// and those of them that lost no attempt.
struct HostCounts {
  int open = 0;
  int large = 0;
  int usable = 0;
  int trusted = 0;
};
using CountsByKind = std::map<DeviceKind, HostCounts>;

// GPUs, if the gang fits on them. The scheduler decides by the hosts that can be used. If the gang
// fits no more, the engine waits for others that are open.
DeviceKind kind_for(const CountsByKind& counts, int nodes) {
  for (const auto member : {&HostCounts::usable, &HostCounts::large})
    for (const auto& [kind, hosts] : counts)
      if (hosts.*member >= nodes) return kind;
  const auto any =
      std::ranges::find_if(counts, [](const auto& one) { return one.second.open > 0; });
  return any == counts.end() ? DeviceKind::core : any->first;
}

}  // namespace

HostChoice host_choice_of(const model::State& state, const model::Attempt& attempt) {
  const model::Run& run = state.runs.at(attempt.id.run);
  const sched::HostTable table(state.map, [&](const map::Pod& pod) {
    return model::engine_of(state, pod) == attempt.engine;
  });
  const auto suitable = restricted_to(model::hardware_needs(model::placement_needs(run.spec)),
                                      sched::FreeCapacity(table));
  const auto kind_of = [&](int host) {
    return table.traits[sched::as_index(host)].kind.value_or(DeviceKind::gpu);
  };
  std::set<int> excluded, suspected;
  CountsByKind counts;
  for (int host = 0; host < table.host_count(); ++host) {
    const auto found = state.hosts.find(table.names[sched::as_index(host)]);
    const model::HostRow* row = found == state.hosts.end() ? nullptr : &found->second;
    if (!suitable.is_eligible(host) || (row && row->state >= model::HostState::closed)) {
      excluded.insert(host);
      continue;
    }
    HostCounts& of_kind = counts[kind_of(host)];
    ++of_kind.open;
    const bool is_suspect = row && is_suspected(*row, run.id);
    if (is_suspect) suspected.insert(host);
    if (!suitable.has_free(host, run.spec.devices)) continue;
    ++of_kind.large;
    if (row && !model::why_unusable(*row).empty()) continue;
    ++of_kind.usable;
    if (!is_suspect) ++of_kind.trusted;
  }
  const int nodes = model::node_count(run.spec);
  const DeviceKind kind = kind_for(counts, nodes);
  HostChoice choice{.gpus = kind == DeviceKind::gpu, .excluded = {}};
  if (counts[kind].trusted >= nodes) excluded.merge(suspected);
  for (int host = 0; host < table.host_count(); ++host) {
    // A job that asks for GPUs gets none of the other hosts anyway.
    const bool is_of_other_kind = !choice.gpus && kind_of(host) != kind;
    if (is_of_other_kind || excluded.contains(host))
      choice.excluded.push_back(table.names[sched::as_index(host)]);
  }
  return choice;
}

}  // namespace lockstep::step
