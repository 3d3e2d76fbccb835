#include "platform/server/calls/insight_calls.h"

#include "platform/server/log_page.h"

namespace lockstep::server {
namespace {

// The node has ended: no agent can deliver anything.
bool has_left(const model::Node& node) {
  return node.state == model::NodeState::released || node.state == model::NodeState::lost;
}

}  // namespace

Result<void> InsightCalls::logs(const RouteCall<api::kLogs>& call,
                                const Reply<api::LogPage>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const auto look = [this, id, reply, query = call.query](LongPolls::AttemptKind turn) {
    const auto run = context_.find_run(id);
    auto page = log_page(context_.insight(), id, query, run && model::is_final((*run)->state));
    const std::int64_t version = records_.unfinished.version(id);
    const bool nothing_new = page && page->lines.empty() && !page->ended &&
                             query.unfinished.value_or(version) == version;
    if (turn == LongPolls::AttemptKind::early && nothing_new) return reply.is_abandoned();
    if (page) {
      page->unfinished = records_.unfinished.of(context_.state(), id, query.rank);
      page->unfinished_version = version;
    }
    reply.send(page);
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.tail ? 0 : call.query.wait_seconds), look);
  return {};
}

Result<api::LogMatches> InsightCalls::search_logs(const RouteCall<api::kSearchLogs>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const api::LogSearchQuery& query = call.query;
  const auto pattern = TRY(
      insight::LinePattern::create(query.pattern, query.ignore_case ? insight::LetterCase::ignored
                                                                    : insight::LetterCase::exact));
  return context_.insight().search(
      id, {.pattern = pattern, .after = query.after, .context = query.context, .rank = query.rank});
}

Result<api::SeriesList> InsightCalls::metrics(const RouteCall<api::kMetrics>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  using enum api::RankSelection;
  if (call.query.rank && call.query.ranks == aggregate)
    return Error{Code::invalid, "ranks=aggregate is about all ranks; leave out `rank`"};
  const insight::SeriesQuery query{.name = call.query.name,
                                   .rank = call.query.rank,
                                   .after_step = call.query.after_step,
                                   .points = call.query.points,
                                   .node = call.query.node,
                                   .pixels = call.query.pixels,
                                   .epoch = call.query.epoch,
                                   .aggregate = call.query.ranks.value_or(aggregate) == aggregate};
  return context_.insight().series(id, query);
}

Result<model::Node> InsightCalls::newest_node(const model::RunId& run, int index) const {
  const model::AttemptId attempt{run, TRY(context_.find_run(run))->epoch};
  const auto found = context_.state().nodes.find(model::NodeId{attempt, index});
  if (found != context_.state().nodes.end()) return found->second;
  return Error{Code::not_found, format("{} has no node {}", text(attempt), index)};
}

// The agent of an ended node that has reported delivers no more.
Result<void> InsightCalls::flight(const RouteCall<api::kFlight>& call,
                                  const Reply<api::FlightView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::Node node = TRY(newest_node(id, call.query.node));
  const Time asked =
      call.query.after ? *call.query.after : records_.flight.request(node.id.attempt);
  const auto look = [this, node = node.id, asked, reply](LongPolls::AttemptKind turn) {
    const auto known = newest_node(node.attempt.run, node.index);
    const bool may_come = known && known->id == node && !has_left(*known);
    if (turn == LongPolls::AttemptKind::early && may_come &&
        !records_.flight.has_since(node, asked))
      return reply.is_abandoned();
    reply.send(known ? records_.flight.view(*known, asked) : known.error());
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  agent_polls_.notify(id);
  return {};
}

Result<api::ProfileView> InsightCalls::profile(const RouteCall<api::kProfile>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  auto view = TRY(records_.profiles.begin(*TRY(context_.find_run(id)), call.request));
  TRY(context_.accounts().record(context_.run_record(call, id, "traces")));
  agent_polls_.notify(id);
  return view;
}

Result<void> InsightCalls::profile_state(const RouteCall<api::kProfileState>& call,
                                         const Reply<api::ProfileView>& reply) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  const auto look = [this, id, reply, query = call.query](LongPolls::AttemptKind turn) {
    const auto view = records_.profiles.view(id, query.request_id);
    const bool nothing_new = view && !view->ended && view->version <= query.after_version;
    if (turn == LongPolls::AttemptKind::early && nothing_new) return reply.is_abandoned();
    reply.send(view);
    return true;
  };
  long_polls_.wait(id, from_seconds(call.query.wait_seconds), look);
  return {};
}

Result<api::TracePart> InsightCalls::trace(const RouteCall<api::kTrace>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  TRY(context_.find_run(id));
  return records_.profiles.part(id, call.query);
}

}  // namespace lockstep::server
