#include "platform/core/step/handlers/second_agent.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string>
#include <vector>

#include "base/format.h"
#include "platform/core/step/ending/reason_text.h"

namespace lockstep::step {
namespace {

// More of them are refused too, and a single event says so.
constexpr std::size_t kRefusedAgentsMax = 8;

std::string describe_agent(const model::AgentIncarnation& agent) {
  return format("{} (since {})", agent.machine.empty() ? "an unknown machine" : agent.machine,
                text(Time(std::chrono::floor<std::chrono::seconds>(agent.started))));
}

std::string describe_refusal(const model::Node& node, const model::AgentIncarnation& second) {
  return format("a second agent of {} called from {} and was refused; the node's agent is on {}",
                describe_location(node), describe_agent(second),
                describe_agent(node.agents.front()));
}

// Replaces the event of the same agent, which had fewer items then.
void put_event(Draft& draft, const model::RunId& run, const std::string& refusal,
               std::int64_t items) {
  const std::string what = items == 0
                               ? refusal
                               : format("{}; {} item{} that it sent {} not stored", refusal, items,
                                        items == 1 ? "" : "s", items == 1 ? "was" : "were");
  std::vector<model::AuditEntry>& audit = draft.runs.edit(run).audit;
  std::erase_if(audit, [&](const model::AuditEntry& entry) {
    return entry.by.empty() && entry.what.starts_with(refusal);
  });
  model::add_audit_entry(audit, {.time = draft.now(), .by = "", .what = what});
}

void put_event_of_further_agents(Draft& draft, const model::Node& node) {
  const std::string what = format(
      "more than {} other agents of {} called and were refused; the items that the further ones "
      "sent are neither stored nor counted",
      kRefusedAgentsMax, describe_location(node));
  const model::RunId& run = node.id.attempt.run;
  const auto& audit = draft.runs.find(run)->audit;
  if (std::ranges::find(audit, what, &model::AuditEntry::what) != audit.end()) return;
  model::add_audit_entry(draft.runs.edit(run).audit, {.time = draft.now(), .by = "", .what = what});
}

}  // namespace

model::AgentIncarnation& add_agent(model::Node& node, const model::AgentIncarnation& agent) {
  node.agents.push_back(agent);
  node.agents.back().machine = one_line(agent.machine);
  return node.agents.back();
}

void refuse_second_agent(Draft& draft, const model::NodeReport& report) {
  const model::Node& known = *draft.nodes.find(report.node);
  const auto entry = std::ranges::find(known.agents, report.agent.id, &model::AgentIncarnation::id);
  const bool is_new = entry == known.agents.end();
  if (is_new && known.agents.size() > kRefusedAgentsMax)
    return put_event_of_further_agents(draft, known);
  if (!is_new && entry->refused_items >= report.last_item) return;
  const auto position = static_cast<std::size_t>(entry - known.agents.begin());
  model::Node& node = draft.nodes.edit(report.node);
  model::AgentIncarnation& second = is_new ? add_agent(node, report.agent) : node.agents[position];
  second.refused_items = report.last_item;
  put_event(draft, report.node.attempt.run, describe_refusal(node, second), second.refused_items);
}

}  // namespace lockstep::step
