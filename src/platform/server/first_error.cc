#include "platform/server/first_error.h"

#include <algorithm>
#include <ranges>

#include "platform/core/step/ending/diagnosis.h"
#include "platform/insight/failure_text.h"

namespace lockstep::server {
namespace {

constexpr int kAttemptsWithError = 3;  // each reads some lines from the store

bool failed(const api::AttemptView& attempt) {
  return attempt.cause == model::Cause::user_exit || attempt.cause == model::Cause::rank_lost ||
         attempt.cause == model::Cause::oom || attempt.cause == model::Cause::hung;
}

std::string host_of(const std::vector<const model::Node*>& nodes, int rank) {
  for (const model::Node* node : nodes)
    if (std::ranges::find(node->ranks, rank, &model::Rank::rank) != node->ranks.end())
      return node->host;
  return "";
}

Result<std::optional<api::RankError>> first_error(const model::State& state,
                                                  const model::AttemptId& id,
                                                  insight::Insight& insight) {
  const auto attempt = state.attempts.find(id);
  if (attempt == state.attempts.end()) return std::optional<api::RankError>();
  const model::RunSpec& spec = state.runs.at(id.run).spec;
  const auto nodes = model::nodes_of(state, id);
  const auto diagnosis =
      step::diagnose_attempt(attempt->second, nodes, spec.hang_after, spec.on_failure);
  if (!diagnosis || !diagnosis->rank) return std::optional<api::RankError>();
  const auto lines = TRY(insight.last_of_rank(id, *diagnosis->rank));
  auto found = insight::find_failure(lines);
  if (!found) return std::optional<api::RankError>();
  return std::optional(api::RankError{.rank = *diagnosis->rank,
                                      .host = host_of(nodes, *diagnosis->rank),
                                      .summary = std::move(found->summary),
                                      .lines = std::move(found->lines)});
}

}  // namespace

Result<void> add_first_errors(std::vector<api::AttemptView>& views, const model::State& state,
                              const model::RunId& run, insight::Insight& insight) {
  int looked = 0;
  for (api::AttemptView& view : views | std::views::reverse) {
    if (!failed(view)) continue;
    if (++looked > kAttemptsWithError) break;
    view.first_error = TRY(first_error(state, {run, view.epoch}, insight));
  }
  return {};
}

}  // namespace lockstep::server
