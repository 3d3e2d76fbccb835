#include "platform/core/step/handlers/host_facts.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/given_up.h"

namespace lockstep::step {
namespace {

bool is_on(const std::string& host, const model::HostDevices& slice) { return slice.host == host; }

bool uses_host(const Draft& draft, const model::Attempt& attempt, const std::string& host) {
  return std::ranges::any_of(draft.nodes_of(attempt.id),
                             [&](const model::Node* node) { return node->host == host; }) ||
         std::ranges::any_of(attempt.move_destination,
                             [&](const auto& slice) { return is_on(host, slice); });
}

std::string device_count_text(const map::Host& host) {
  const std::size_t count = map::device_count(host);
  return format("{} device{}", count, count == 1 ? "" : "s");
}

}  // namespace

std::optional<std::string> user_of_host(const Draft& draft, const std::string& host) {
  for (const model::RunId& run : draft.open_runs())
    if (const model::Attempt* attempt = draft.live_attempt(run);
        attempt && uses_host(draft, *attempt, host))
      return text(run);
  for (const model::Orphan* orphan : draft.orphans.current())
    if (!orphan->terminated && is_on(host, orphan->devices))
      return "orphan " + text(orphan->id.id.attempt.run);
  if (const model::GivenUpNode* node = find_given_up_node(draft, host))
    return text(model::given_up_allocation_id(node->id.attempt.run));
  return std::nullopt;
}

void set_facts(Draft& draft, const std::string& id, map::Host facts) {
  model::HostRow& host = draft.hosts.edit(id);
  std::string what = "has " + device_count_text(facts);
  if (!host.facts) host.unavailable = model::kNodesNotKnown;
  if (!host.facts)
    model::add_audit_entry(host.audit, {.time = draft.now(), .by = "", .what = std::move(what)});
  else if (!has_same_devices(*host.facts, facts))
    model::add_audit_entry(host.audit,
                           {.time = draft.now(),
                            .by = "",
                            .what = format("{}, it had {}", what, device_count_text(*host.facts))});
  host.facts = std::move(facts);
  host.next_facts.reset();
  draft.update_map();
}

void adopt_next_facts(Draft& draft) {
  for (const model::HostRow* host : draft.hosts.current())
    if (host->next_facts && !user_of_host(draft, host->id))
      set_facts(draft, host->id, *host->next_facts);
}

}  // namespace lockstep::step
