#include "platform/server/handlers.h"

#include <algorithm>
#include <limits>

#include <unistd.h>

#include "map/file.h"
#include "platform/api/error.h"
#include "platform/server/log_page.h"
#include "platform/server/views.h"

namespace lockstep {

namespace {

constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr int kRankMost = std::numeric_limits<int>::max();
constexpr std::int64_t kRunsLimit = 1000;
constexpr std::int64_t kLinesLimit = 10'000;
constexpr std::int64_t kPointsLimit = 100'000;

// Answers now or tells why not; shared because a std::function, which keeps it, must be copyable.
using Kept = std::shared_ptr<Responder>;

void answer(Responder& responder, const Result<Json>& result) {
  responder.send(result ? json_response(*result) : error_response(result.error()));
}

Result<std::optional<int>> rank_of(const Ask& ask) {
  const auto rank = TRY(ask.integer("rank", 0, kRankMost));
  return rank ? std::optional(static_cast<int>(*rank)) : std::nullopt;
}

HttpResponse response(int status, std::string body) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}}};
}

}  // namespace

HttpResponse json_response(const Json& json) { return response(200, dump_json(json) + "\n"); }

HttpResponse error_response(const Error& error) {
  return response(api::status_of(error.code), api::error_body(error) + "\n");
}

template <auto Answer>
void Handlers::at_once(const Ask& ask, Responder responder) {
  answer(responder, (this->*Answer)(ask));
}

Handlers::Handler Handlers::of(const api::Route& route) {
  static const std::vector<std::pair<const api::Route*, Handler>> table = {
      {&api::kHealth, &Handlers::at_once<&Handlers::health>},
      {&api::kVersion, &Handlers::at_once<&Handlers::version>},
      {&api::kMap, &Handlers::at_once<&Handlers::map>},
      {&api::kSubmit, &Handlers::at_once<&Handlers::submit>},
      {&api::kRuns, &Handlers::at_once<&Handlers::runs>},
      {&api::kRun, &Handlers::run},
      {&api::kStop, &Handlers::at_once<&Handlers::stop>},
      {&api::kLogs, &Handlers::logs},
      {&api::kMetrics, &Handlers::at_once<&Handlers::metrics>},
      {&api::kHeartbeat, &Handlers::heartbeat},
  };
  for (const auto& [known, handler] : table)
    if (known->method == route.method && known->path == route.path) return handler;
  return nullptr;
}

Result<const Run*> Handlers::find_run(const RunId& id) const {
  const auto found = state().runs.find(id);
  if (found == state().runs.end())
    return Error{Code::not_found, format("there is no run {}", text(id))};
  return &found->second;
}

Result<Json> Handlers::view(const RunId& id, Detail detail) {
  const Run& run = *TRY(find_run(id));
  return to_json(
      TRY(run_view(state(), run, setup_.insight, setup_.controller.checkpoint_folder(run),
                   setup_.clock.now(), detail)));
}

Result<Json> Handlers::health(const Ask&) { return Json{{"status", "ok"}}; }

Result<Json> Handlers::version(const Ask&) {
  return to_json(api::Version{
      .version = setup_.version, .home = setup_.home.folder.string(), .pid = ::getpid()});
}

Result<Json> Handlers::map(const Ask&) { return map_to_json(state().map); }

Result<Json> Handlers::submit(const Ask& ask) {
  auto request = TRY(ask.body<api::SubmitRequest>());
  const RunId id =
      TRY(setup_.controller.submit(std::move(request.spec), std::move(request.origin)));
  return view(id, Detail::full);
}

Result<Json> Handlers::stop(const Ask& ask) {
  const RunId id = TRY(ask.run());
  const auto request = TRY(ask.body<api::StopRequest>());
  TRY(find_run(id));
  TRY(setup_.controller.stop(id, request.reason));
  return view(id, Detail::full);
}

Result<Json> Handlers::runs(const Ask& ask) {
  TRY(ask.allow_query({"project", "state", "limit"}));
  const auto project = ask.query("project");
  std::optional<RunState> wanted;
  if (const auto words = ask.query("state")) wanted = TRY(parse_name<RunState>(*words));
  const auto limit =
      static_cast<std::size_t>(TRY(ask.integer("limit", 1, kRunsLimit)).value_or(50));
  std::vector<const Run*> found;
  for (const auto& [id, run] : state().runs)
    if ((!project || id.project == *project) && (!wanted || run.state == *wanted))
      found.push_back(&run);
  std::ranges::stable_sort(found, std::ranges::greater(), [](const Run* run) {
    return std::pair(run->submitted, run->id.number);
  });
  found.resize(std::min(limit, found.size()));
  Json views = Json::array();
  for (const Run* run : found) views.push_back(TRY(view(run->id, Detail::summary)));
  return Json{{"runs", std::move(views)}};
}

Result<Json> Handlers::metrics(const Ask& ask) {
  TRY(ask.allow_query({"name", "rank", "after_step", "points"}));
  const RunId id = TRY(ask.run());
  TRY(find_run(id));
  const insight::SeriesQuery query{
      .name = ask.query("name"),
      .rank = TRY(rank_of(ask)),
      .after_step = TRY(ask.integer("after_step", -1, kMost)),
      .points =
          TRY(ask.integer("points", 1, kPointsLimit)).value_or(insight::SeriesQuery{}.points)};
  auto page = TRY(setup_.insight.series(id, query));
  api::SeriesList list{.series = {}, .left_out = page.left_out};
  for (auto& series : page.series) {
    auto& view = list.series.emplace_back();
    view.name = std::move(series.name);
    view.rank = series.rank;
    view.total = series.total;
    view.downsampled = series.downsampled();
    for (const insight::Point& point : series.points)
      view.points.push_back({.step = point.step, .time = point.time, .value = point.value});
  }
  return to_json(list);
}

// --- What may wait ---

void Handlers::run(const Ask& ask, Responder responder) {
  auto kept = std::make_shared<Responder>(std::move(responder));
  if (auto begun = wait_for_run(ask, kept); !begun) answer(*kept, begun.error());
}

Result<void> Handlers::wait_for_run(const Ask& ask, Kept responder) {
  TRY(ask.allow_query({"after_version", "wait"}));
  const RunId id = TRY(ask.run());
  const std::int64_t after = TRY(ask.integer("after_version", -1, kMost)).value_or(-1);
  const Duration patience = TRY(ask.wait());
  TRY(find_run(id));
  waiting_.wait(id, patience, [this, id, after, responder](Waiting::Turn turn) {
    const auto run = find_run(id);
    if (turn == Waiting::Turn::early && run && (*run)->version <= after) return responder->gone();
    answer(*responder, view(id, Detail::full));
    return true;
  });
  return {};
}

void Handlers::logs(const Ask& ask, Responder responder) {
  auto kept = std::make_shared<Responder>(std::move(responder));
  if (auto begun = wait_for_logs(ask, kept); !begun) answer(*kept, begun.error());
}

Result<void> Handlers::wait_for_logs(const Ask& ask, Kept responder) {
  TRY(ask.allow_query({"after", "rank", "limit", "tail", "wait"}));
  const RunId id = TRY(ask.run());
  TRY(find_run(id));
  const LogAsk wanted{.run = id,
                      .after = TRY(ask.integer("after", 0, kMost)).value_or(0),
                      .limit = TRY(ask.integer("limit", 1, kLinesLimit)).value_or(1000),
                      .tail = TRY(ask.integer("tail", 0, kLinesLimit)),
                      .rank = TRY(rank_of(ask))};
  const Duration patience = wanted.tail ? Duration(0) : TRY(ask.wait());
  waiting_.wait(id, patience, [this, id, wanted, responder](Waiting::Turn turn) {
    const auto run = find_run(id);
    auto page = log_page(setup_.insight, wanted, run && is_final((*run)->state));
    const bool nothing_new = page && page->lines.empty() && !page->ended;
    if (turn == Waiting::Turn::early && nothing_new) return responder->gone();
    answer(*responder, page ? Result<Json>(to_json(*page)) : Result<Json>(page.error()));
    return true;
  });
  return {};
}

void Handlers::heartbeat(const Ask& ask, Responder responder) {
  auto kept = std::make_shared<Responder>(std::move(responder));
  if (auto begun = wait_for_command(ask, kept); !begun) answer(*kept, begun.error());
}

// First what it brings is made durable, then its word is heard, then the answer waits for a command
// that the agent does not act on yet.
Result<void> Handlers::wait_for_command(const Ask& ask, Kept responder) {
  TRY(ask.allow_query({}));
  const auto heartbeat = TRY(ask.body<api::Heartbeat>());
  const NodeId node = TRY(ask.node());
  if (heartbeat.node != text(node))
    return Error{Code::invalid,
                 format("node: '{}' is not the {} of the path", heartbeat.node, text(node))};
  const NodeReport report = TRY(node_report(node, heartbeat));
  const std::int64_t acknowledged = TRY(keep_items(node, heartbeat));
  TRY(setup_.controller.report(report));
  waiting_.wait(
      node.attempt.run, patience_of(heartbeat.wait_seconds),
      [this, node, acknowledged, responder, known = heartbeat.known_command](Waiting::Turn turn) {
        const Command command = command_for(state(), node);
        if (turn == Waiting::Turn::early && text(command.kind) == known) return responder->gone();
        answer(*responder, to_json(heartbeat_answer(command, acknowledged)));
        return true;
      });
  return {};
}

// Up to which sequence the node's items are durable. Those of a node that nobody knows (the
// store was replaced) belong to no run: they are dropped, so that its agent can leave.
Result<std::int64_t> Handlers::keep_items(const NodeId& node, const api::Heartbeat& heartbeat) {
  const auto items = TRY(items_of(heartbeat));
  if (!state().nodes.contains(node)) return items.empty() ? 0 : items.back().sequence;
  const std::int64_t stored = TRY(setup_.insight.ingest(node, items));
  if (!items.empty()) waiting_.wake(node.attempt.run);
  return stored;
}

}  // namespace lockstep
