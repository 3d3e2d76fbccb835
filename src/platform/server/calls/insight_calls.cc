#include "platform/server/calls/insight_calls.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "platform/insight/columns.h"
#include "platform/run_query/query.h"
#include "platform/server/log_page.h"
#include "platform/server/run_filter.h"
#include "platform/server/run_selection.h"

namespace lockstep::server {
namespace {

// The node has ended: no agent can deliver anything.
bool has_left(const model::Node& node) {
  return node.state == model::NodeState::released || node.state == model::NodeState::lost;
}

constexpr int kCurvesDefault = 20;
constexpr std::int64_t kPixelsOfAllCurves = 20'000;

// "demo/1,demo/2".
Result<std::vector<model::RunId>> named_runs(const std::string& names) {
  std::vector<model::RunId> runs;
  for (std::size_t begin = 0; begin <= names.size();) {
    const std::size_t end = std::min(names.find(',', begin), names.size());
    auto run = model::parse_run_id(std::string_view(names).substr(begin, end - begin));
    if (!run) return std::move(run).error().with_context("runs");
    runs.push_back(*std::move(run));
    begin = end + 1;
  }
  if (std::ssize(runs) > api::kCurvesMax)
    return Error{Code::invalid,
                 format("runs: at most {} runs, got {}", api::kCurvesMax, runs.size())};
  return runs;
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
                                   .aggregate = call.query.ranks.value_or(aggregate) == aggregate,
                                   .minutes = call.query.ranks == aggregate};
  return context_.insight().series(id, query);
}

// They belong to the newest attempt.
Result<api::PointsAnswer> InsightCalls::add_points(const RouteCall<api::kAddPoints>& call) {
  const model::RunId id = TRY(run_of(call.path_parameters));
  const model::AttemptId attempt{id, TRY(context_.find_run(id))->epoch};
  const auto found = context_.state().attempts.find(attempt);
  if (found == context_.state().attempts.end())
    return Error{Code::invalid, format("{} has no attempt that could take points: it has not "
                                       "started, or it ended long ago",
                                       text(id))};
  const insight::PointBatch batch = TRY(insight::batch_of(call.request, attempt, context_.now()));
  api::PointsAnswer answer =
      insight::answer_of(TRY(context_.insight().append(found->second.generation, batch)), batch);
  if (answer.stored > 0) events_.handle_reports(id, false, true);
  return answer;
}

Result<InsightCalls::CurveRuns> InsightCalls::runs_of(const Principal& caller,
                                                      const api::CurvesQuery& query) const {
  const bool filters = query.project || query.state || query.tag || query.user || query.since ||
                       query.until || query.limit || query.query;
  CurveRuns found;
  if (query.runs) {
    if (filters) return Error{Code::invalid, "runs: leave out the fields that select runs"};
    found.runs = TRY(named_runs(*query.runs));
    return found;
  }
  const int limit = query.limit.value_or(kCurvesDefault);
  const api::RunsQuery wanted{.project = query.project,
                              .state = query.state,
                              .limit = limit,
                              .tag = query.tag,
                              .user = query.user,
                              .since = query.since,
                              .until = query.until,
                              .query = query.query};
  if (query.query) return queried_runs(caller, wanted);
  const auto filter = readable_runs(context_, caller, wanted);
  if (!filter) return found;
  for (const model::Run& run : TRY(context_.controller().list_runs(*filter)))
    found.runs.push_back(run.id);
  found.more = std::ssize(found.runs) > limit;
  if (found.more) found.runs.pop_back();
  return found;
}

// `more`: there are, or there may be, since a call looks at a bounded number of runs.
Result<InsightCalls::CurveRuns> InsightCalls::queried_runs(const Principal& caller,
                                                           const api::RunsQuery& query) const {
  if (TRY(run_query::parse_query(*query.query)).group)
    return Error{Code::invalid, "query: group: is for lists of runs; leave it out"};
  const store::SelectedRuns selected = TRY(select_runs(context_, caller, query));
  CurveRuns found{.more = selected.next.has_value()};
  for (const store::SelectedRun& each : selected.runs) found.runs.push_back(each.run);
  return found;
}

// Many curves share a bound of pixels, so that the answer takes a bounded time.
Result<api::CurveList> InsightCalls::curves(const RouteCall<api::kCurves>& call) {
  const api::CurvesQuery& query = call.query;
  if (query.x && query.x_metric)
    return Error{Code::invalid, "x and x_metric are two axes; give one of them"};
  const identity::Directory& directory = context_.accounts().directory();
  const identity::Bearer& bearer = call.caller.bearer;
  CurveRuns runs = TRY(runs_of(call.caller, query));
  const auto share = kPixelsOfAllCurves / std::max<std::int64_t>(1, std::ssize(runs.runs));
  const insight::RunCurveQuery wanted{.metric = query.metric,
                                      .x = query.x.value_or(api::CurveAxis::step),
                                      .x_metric = query.x_metric,
                                      .pixels = std::min<std::int64_t>(query.pixels, share),
                                      .rank = query.rank,
                                      .band = query.band,
                                      .from = query.from,
                                      .to = query.to};
  model::RunFilter readable{.limit = static_cast<int>(api::kCurvesMax)};
  readable.runs.emplace();
  std::vector<std::string> names;
  for (model::RunId& run : runs.runs) {
    names.push_back(text(run));
    run.project = identity::readable_project(directory, bearer, run.project);
    if (identity::can_read(directory, bearer, run.project)) readable.runs->push_back(run);
  }
  std::set<model::RunId> known;
  for (const model::Run& run : TRY(context_.controller().list_runs(readable))) known.insert(run.id);
  api::CurveList list{.more = runs.more};
  for (std::size_t i = 0; i < runs.runs.size(); ++i) {
    const model::RunId& run = runs.runs[i];
    api::RunCurve curve;
    if (known.contains(run)) {
      curve = TRY(context_.insight().curve(run, wanted));
      curve.known = true;
    }
    curve.run = names[i];
    list.curves.push_back(std::move(curve));
  }
  return list;
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
