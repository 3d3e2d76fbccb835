// Hosts of a cluster of own machines: they join, report what they are, and are removed.
//
// A host's row has the number of its credential, which each join and each removal raises. So a join
// token, which has the number of its time, works once, and an older credential is void.
#include <algorithm>
#include <string_view>
#include <vector>

#include "base/format.h"
#include "map/query.h"
#include "platform/core/step/ending/given_up.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/handlers/event_handlers.h"
#include "platform/core/step/handlers/host_facts.h"

namespace lockstep::step {
namespace {

constexpr std::size_t kClaimLength = 64;  // of a SHA-256 in hex

Result<void> check_hosts_join(const Draft& draft) {
  if (draft.hosts_make_map()) return {};
  return Error{Code::invalid,
               format("the hosts of this cluster are those of its engine, {}; no host joins or "
                      "leaves it by a command",
                      draft.engine())};
}

Result<void> check_name_is_free(const Draft& draft, const std::string& host) {
  if (!model::is_host_of_other_engine(draft.map(), host)) return {};
  return Error{Code::invalid,
               format("the engine {} has a host '{}': join with another name, by a token of "
                      "`lockstep host token NAME`",
                      map::engine_of(draft.map(), host), host)};
}

Result<void> check_claim(std::string_view claim) {
  if (claim.size() == kClaimLength && claim.find_first_not_of("0123456789abcdef") == claim.npos)
    return {};
  return Error{Code::invalid,
               format("claim: must be a SHA-256 of {} hexadecimal digits", kClaimLength)};
}

Error is_not_joined(const std::string& host) {
  return {Code::not_found, format("no host '{}' has joined, or it was removed; make a token with "
                                  "`lockstep host token {}`, and join with it",
                                  one_line(host), one_line(host))};
}

// Names reach terminals, and addresses the environment of ranks.
Result<void> check_text(std::string_view field, const std::string& value) {
  if (one_line(value) == value) return {};
  return Error{Code::invalid, format("{}: must be one line of at most 300 bytes", field)};
}

Result<void> check_facts(const std::string& host, const map::Host& facts) {
  if (facts.id != host)
    return Error{Code::invalid,
                 format("facts.id: must be '{}', got '{}'", one_line(host), one_line(facts.id))};
  TRY(check_text("facts.name", facts.name));
  TRY(check_text("facts.address", facts.address));
  const map::ClusterMap alone{{}, {}, {{"", {}, {{"", {facts}}}}}, {}};
  if (auto checked = map::check(alone); !checked)
    return std::move(checked).error().with_context(format("the facts of host {}", host));
  return {};
}

std::vector<model::NodeId> nodes_on(const Draft& draft, const std::string& host) {
  std::vector<model::NodeId> found;
  for (const model::RunId& run : draft.open_runs())
    if (const model::Attempt* attempt = draft.live_attempt(run))
      for (const model::Node* node : draft.nodes_of(attempt->id))
        if (node->host == host && node->state != model::NodeState::released)
          found.push_back(node->id);
  return found;
}

// As if the engine no longer listed its nodes.
Result<void> release_nodes_on(Draft& draft, const std::string& host, const std::string& reason) {
  for (const model::NodeId& node : nodes_on(draft, host))
    TRY(handle_event(draft, model::NodeSeen{node,
                                            {.phase = model::NodePhase::gone,
                                             .reason = reason,
                                             .blame = model::EndBlame::engine}}));
  while (const model::GivenUpNode* node = find_given_up_node(draft, host))
    free_given_up_node(draft, node->id);
  return {};
}

std::string by_text(const std::string& by) { return by.empty() ? "" : " by " + one_line(by); }

}  // namespace

Result<void> handle_event(Draft& draft, const model::AdmitHost& event) {
  TRY(check_hosts_join(draft));
  TRY(map::check_host_id(event.host));
  TRY(check_name_is_free(draft, event.host));
  if (!event.pod.empty()) TRY(model::check_name("pod", event.pod));
  TRY(check_claim(event.claim));
  const model::HostRow* found = draft.hosts.find(event.host);
  const int number = found ? found->credential : 0;
  if (number == event.credential + 1 && found->claim == event.claim) return {};
  if (number != event.credential)
    return Error{Code::denied, format("the join token was used already, or its host was removed "
                                      "since; make another one with `lockstep host token {}`",
                                      event.host)};
  model::HostRow& host = draft.hosts.edit_or_add(event.host);
  const bool moves = host.facts && host.pod != event.pod;
  host.pod = event.pod;
  host.credential = event.credential + 1;
  host.claim = event.claim;
  host.machine = one_line(event.machine);
  host.joined = draft.now();
  model::add_audit_entry(host.audit, {.time = draft.now(), .by = "", .what = "joined"});
  if (moves) draft.update_map();
  return {};
}

Result<void> handle_event(Draft& draft, const model::DescribeHost& event) {
  TRY(check_hosts_join(draft));
  const model::HostRow* found = draft.hosts.find(event.host);
  if (!found || !model::has_joined(*found)) return is_not_joined(event.host);
  TRY(check_facts(event.host, event.facts));
  if (found->facts == event.facts && !found->next_facts) return {};
  const bool differs = found->facts && !has_same_devices(*found->facts, event.facts);
  if (!differs || !user_of_host(draft, event.host)) {
    set_facts(draft, event.host, event.facts);
    return {};
  }
  if (found->next_facts != event.facts) draft.hosts.edit(event.host).next_facts = event.facts;
  return {};
}

// No change if it was removed already.
Result<void> handle_event(Draft& draft, const model::RemoveHost& event) {
  TRY(check_hosts_join(draft));
  const model::HostRow* found = draft.hosts.find(event.host);
  if (!found || found->credential == 0) return is_not_joined(event.host);
  if (!model::has_joined(*found)) return {};
  const auto user = user_of_host(draft, event.host);
  if (user && !event.lost)
    return Error{
        Code::invalid,
        format("drain it first: {} holds devices of host {}; `lockstep host drain {}`, and "
               "remove it once `lockstep host ls` shows no run there. If the machine does "
               "not come back: `lockstep host rm {} --lost`",
               *user, event.host, event.host, event.host)};
  model::HostRow& host = draft.hosts.edit(event.host);
  ++host.credential;
  host.claim.clear();
  host.facts.reset();
  host.next_facts.reset();
  draft.update_map();
  TRY(release_nodes_on(draft, event.host,
                       format("host {} was removed as lost{}", event.host, by_text(event.by))));
  host.state = model::HostState::open;
  host.reason.clear();
  host.since = draft.now();
  host.losses.clear();
  host.labels.clear();
  host.unavailable.clear();
  model::add_audit_entry(host.audit, {.time = draft.now(),
                                      .by = one_line(event.by),
                                      .what = event.lost ? "removed as lost" : "removed"});
  return {};
}

Result<void> handle_event(Draft& draft, const model::HostDead& event) {
  TRY(check_hosts_join(draft));
  const model::HostRow* found = draft.hosts.find(event.host);
  if (!found || !model::has_joined(*found)) return is_not_joined(event.host);
  const std::string reason = format("host {} was declared dead{}", event.host, by_text(event.by));
  model::HostRow& host = draft.hosts.edit(event.host);
  host.unavailable = reason + "; it takes runs again once its host service calls";
  model::add_audit_entry(host.audit,
                         {.time = draft.now(), .by = one_line(event.by), .what = "declared dead"});
  return release_nodes_on(draft, event.host, reason);
}

Result<void> handle_event(Draft& draft, const model::SetMeasured& event) {
  TRY(check_hosts_join(draft));
  TRY(map::check_measured(event.measured));
  draft.measured = model::MeasuredRow{event.measured};
  return {};
}

}  // namespace lockstep::step
