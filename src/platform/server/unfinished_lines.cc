#include "platform/server/unfinished_lines.h"

#include <algorithm>
#include <utility>

namespace lockstep::server {
namespace {

constexpr std::size_t kUnfinishedTextMax = 1024;

// Its ranks have ended, or the node is unknown.
bool has_ended(const model::State& state, const model::NodeId& node) {
  const auto found = state.nodes.find(node);
  return found == state.nodes.end() || found->second.state == model::NodeState::released ||
         found->second.state == model::NodeState::lost;
}

}  // namespace

bool UnfinishedLines::update(const model::State& state, const model::NodeId& node,
                             std::vector<api::UnfinishedLine> lines) {
  for (api::UnfinishedLine& line : lines)
    if (line.text.size() > kUnfinishedTextMax) line.text.resize(kUnfinishedTextMax);
  const auto known = runs_.find(node.attempt.run);
  if (known == runs_.end() && lines.empty()) return false;
  // The entry of a node whose agent was killed is removed when another run adds one.
  if (known == runs_.end())
    for (auto& [run, of_run] : runs_)
      std::erase_if(of_run.nodes, [&](const auto& one) { return has_ended(state, one.first); });
  std::erase_if(runs_, [](const auto& one) { return one.second.nodes.empty(); });

  RunLines& of_run = runs_[node.attempt.run];
  std::vector<api::UnfinishedLine>& kept = of_run.nodes[node];
  if (kept == lines) return false;
  kept = std::move(lines);
  if (kept.empty()) of_run.nodes.erase(node);
  of_run.version = ++changes_;
  if (of_run.nodes.empty()) runs_.erase(node.attempt.run);
  return true;
}

std::vector<api::LogLine> UnfinishedLines::of(const model::State& state, const model::RunId& run,
                                              std::optional<int> rank) const {
  std::vector<api::LogLine> lines;
  const auto found = runs_.find(run);
  const auto known = state.runs.find(run);
  if (found == runs_.end() || known == state.runs.end()) return lines;
  for (const auto& [node, texts] : found->second.nodes) {
    if (node.attempt.epoch != known->second.epoch || has_ended(state, node)) continue;
    for (const api::UnfinishedLine& line : texts)
      if (rank.value_or(line.rank) == line.rank)
        lines.push_back({.epoch = node.attempt.epoch, .rank = line.rank, .text = line.text});
  }
  std::ranges::sort(lines, {}, &api::LogLine::rank);
  return lines;
}

std::int64_t UnfinishedLines::version(const model::RunId& run) const {
  const auto found = runs_.find(run);
  return found == runs_.end() ? 0 : found->second.version;
}

}  // namespace lockstep::server
