#include "platform/core/step/budget/idle.h"

#include <algorithm>
#include <string>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/attempt_end.h"
#include "platform/core/step/ending/reason_text.h"

namespace lockstep::step {
namespace {

constexpr Duration kIdleLimit = std::chrono::hours(1);
constexpr Duration kIdleLimitDebug = std::chrono::minutes(15);

bool has_gpus(const Draft& draft, const model::AttemptId& id) {
  const auto is_gpu = [](const map::Device* device) {
    return device->kind == map::DeviceKind::gpu;
  };
  return std::ranges::any_of(draft.nodes_of(id), [&](const model::Node* node) {
    const map::Host* host = map::find_host(draft.map(), node->host);
    return host && std::ranges::any_of(map::devices(*host), is_gpu);
  });
}

std::string moment_text(Time time) {
  return text(Time(std::chrono::floor<std::chrono::seconds>(time)));
}

std::string warning_text(const IdlePolicy& policy, Time since) {
  const std::string so_far = "it has not used its devices since " + moment_text(since);
  if (!policy.stops) return so_far + "; `lockstep limits --idle-stop` can stop such runs";
  return format("{}, and is stopped at {} unless it does; see `lockstep limits --idle-stop`",
                so_far, moment_text(since + policy.limit));
}

void warn(Draft& draft, const model::AttemptId& id, const IdlePolicy& policy, Time since) {
  draft.attempts.edit(id).idle_warned = since;
  model::add_audit_entry(draft.runs.edit(id.run).audit,
                         {.time = draft.now(), .by = "", .what = warning_text(policy, since)});
}

}  // namespace

std::optional<Time> idle_since(const Draft& draft, const model::AttemptId& id) {
  std::optional<Time> latest;
  for (const model::Node* node : draft.nodes_of(id)) {
    if (!node->idle_since) return std::nullopt;
    latest = std::max(latest, node->idle_since);
  }
  return latest;
}

IdlePolicy idle_policy_of(const Draft& draft, const model::AttemptId& id) {
  const model::LimitRow* row = draft.limits.find({model::LimitScope::project, id.run.project});
  IdlePolicy policy{.limit = kIdleLimit, .stops = has_gpus(draft, id)};
  if (row && row->idle_stop) {
    policy.stops = *row->idle_stop > Duration(0);
    if (policy.stops) policy.limit = *row->idle_stop;
  }
  if (draft.runs.find(id.run)->spec.run_class == model::RunClass::debug)
    policy.limit = std::min(policy.limit, kIdleLimitDebug);
  return policy;
}

void check_idle(Draft& draft, const model::AttemptId& id) {
  const auto since = idle_since(draft, id);
  if (!since) return;
  const IdlePolicy policy = idle_policy_of(draft, id);
  const Duration idle = draft.now() - *since;
  if (policy.stops && idle >= policy.limit)
    return begin_draining(draft, id, model::Cause::idle,
                          format("did not use its devices for {}", short_text(policy.limit)));
  if (idle >= policy.limit * 3 / 4 && draft.attempts.find(id)->idle_warned != since)
    warn(draft, id, policy, *since);
}

}  // namespace lockstep::step
