#include "platform/core/step/ending/host_losses.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/sched/capacity/host_loss_limits.h"

namespace lockstep::step {
namespace {

constexpr Duration kLossLifetime = std::chrono::hours(24);

bool is_old(const model::HostLoss& loss, Time now) { return now - loss.time >= kLossLifetime; }

std::set<std::string> runs_of(const std::vector<model::HostLoss>& losses) {
  std::set<std::string> runs;
  for (const model::HostLoss& loss : losses) runs.insert(loss.run);
  return runs;
}

bool may_drain_another(const Draft& draft) {
  const auto rows = draft.hosts.all();
  const auto drained = std::ranges::count_if(
      rows, [](const auto& row) { return row.second.state == model::HostState::drained; });
  return std::cmp_less((drained + 1) * 10, map::hosts(draft.map()).size() + 1);
}

void change(Draft& draft, model::HostRow& host, model::HostState state, std::string reason) {
  model::add_audit_entry(
      host.audit,
      {.time = draft.now(), .by = "", .what = format("{}: {}", name_of(state), reason)});
  host.state = state;
  host.since = draft.now();
  host.reason = state == model::HostState::open ? "" : std::move(reason);
}

}  // namespace

void record_host_loss(Draft& draft, const std::string& id, const model::RunId& run) {
  model::HostRow& host = draft.hosts.edit_or_add(id);
  std::erase_if(host.losses,
                [&](const model::HostLoss& loss) { return is_old(loss, draft.now()); });
  const auto known = std::ranges::find(host.losses, text(run), &model::HostLoss::run);
  if (known != host.losses.end()) host.losses.erase(known);
  host.losses.push_back({text(run), draft.now()});
  model::HostState state = sched::state_after_losses(static_cast<int>(host.losses.size()));
  if (state == model::HostState::drained && !may_drain_another(draft))
    state = model::HostState::avoided;
  if (state <= host.state) return;  // and settings by operators are stricter than avoided
  change(draft, host, state, format("lost {} within a day", joined(runs_of(host.losses), ", ")));
}

void clear_expired_losses(Draft& draft) {
  for (const model::HostRow* row : draft.hosts.current()) {
    if (row->state != model::HostState::avoided || row->losses.empty()) continue;
    if (!is_old(row->losses.back(), draft.now())) continue;
    model::HostRow& host = draft.hosts.edit(row->id);
    host.losses.clear();
    change(draft, host, model::HostState::open, "a day without another loss");
  }
}

}  // namespace lockstep::step
