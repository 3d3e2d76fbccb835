#include "platform/server/route_handlers.h"

#include <algorithm>
#include <concepts>

#include <unistd.h>

#include "platform/api/openapi.h"
#include "platform/api/proof.h"
#include "platform/server/log_page.h"
#include "platform/server/queue_views.h"

namespace lockstep {
namespace {

// Nobody is there any more who could deliver something.
bool has_left(const Node& node) {
  return node.state == NodeState::released || node.state == NodeState::lost;
}

}  // namespace

template <const auto& kRoute, auto kMethod>
void Handlers::handle(const HttpRequest& request, std::vector<std::string> words,
                      Responder responder) {
  using Asked = Ask<kRoute>;
  const Reply<typename Asked::Route::Answer> reply(std::move(responder));
  const auto ask = read_ask<kRoute>(request, std::move(words));
  if (!ask)
    reply.give(ask.error());
  else if constexpr (std::invocable<decltype(kMethod), Handlers&, const Asked&>)
    reply.give((this->*kMethod)(*ask));
  else if (auto begun = (this->*kMethod)(*ask, reply); !begun)
    reply.give(begun.error());
}

Handlers::Handler Handlers::of(const api::Route& route) {
  using H = Handlers;
  static const std::vector<std::pair<const api::Route*, Handler>> table = {
      {&api::kHealth, &H::handle<api::kHealth, &H::health>},
      {&api::kOpenapi, &H::handle<api::kOpenapi, &H::openapi>},
      {&api::kVersion, &H::handle<api::kVersion, &H::version>},
      {&api::kMap, &H::handle<api::kMap, &H::map>},
      {&api::kSubmit, &H::handle<api::kSubmit, &H::submit>},
      {&api::kRuns, &H::handle<api::kRuns, &H::runs>},
      {&api::kRun, &H::handle<api::kRun, &H::run>},
      {&api::kStop, &H::handle<api::kStop, &H::stop>},
      {&api::kResume, &H::handle<api::kResume, &H::resume>},
      {&api::kHold, &H::handle<api::kHold, &H::hold>},
      {&api::kRelease, &H::handle<api::kRelease, &H::release>},
      {&api::kPriority, &H::handle<api::kPriority, &H::priority>},
      {&api::kQueue, &H::handle<api::kQueue, &H::queue>},
      {&api::kPlan, &H::handle<api::kPlan, &H::plan>},
      {&api::kHosts, &H::handle<api::kHosts, &H::list_hosts>},
      {&api::kSetHost, &H::handle<api::kSetHost, &H::set_host>},
      {&api::kLimits, &H::handle<api::kLimits, &H::limits>},
      {&api::kSetLimit, &H::handle<api::kSetLimit, &H::set_limit>},
      {&api::kOrphans, &H::handle<api::kOrphans, &H::orphans>},
      {&api::kStopOrphan, &H::handle<api::kStopOrphan, &H::stop_orphan>},
      {&api::kAdoptOrphan, &H::handle<api::kAdoptOrphan, &H::adopt_orphan>},
      {&api::kLogs, &H::handle<api::kLogs, &H::logs>},
      {&api::kFlight, &H::handle<api::kFlight, &H::flight>},
      {&api::kMetrics, &H::handle<api::kMetrics, &H::metrics>},
      {&api::kHeartbeat, &H::handle<api::kHeartbeat, &H::heartbeat>},
  };
  const auto found =
      std::ranges::find(table, &route, [](const auto& entry) { return entry.first; });
  return found == table.end() ? nullptr : found->second;
}

std::vector<std::string> Handlers::troubles() const {
  return setup_.troubles ? setup_.troubles() : std::vector<std::string>();
}

Result<const Run*> Handlers::find_run(const RunId& id) const {
  const auto found = state().runs.find(id);
  if (found == state().runs.end())
    return Error{Code::not_found, format("there is no run {}; `lockstep ps` lists them", text(id))};
  return &found->second;
}

Result<api::RunView> Handlers::view(const RunId& id) {
  const Run& run = *TRY(find_run(id));
  auto view = run_view(state(), run, TRY(setup_.insight.summary(id)),
                       setup_.controller.checkpoint_folder(run), setup_.clock.now());
  if (run.state == RunState::queued) add_outlook(view, run, setup_.controller.queue());
  view.events = event_views(run.audit, TRY(setup_.insight.events(id)));
  view.attempts = attempt_views(state(), id);
  view.checkpoints = checkpoint_views(TRY(setup_.insight.checkpoints(id)));
  view.troubles = troubles();
  return view;
}

Result<api::Health> Handlers::health(const Ask<api::kHealth>& ask) {
  api::Health health;
  if (!ask.query.nonce) return health;
  TRY(api::check_nonce(*ask.query.nonce));
  const std::string token =
      ask.query.attempt ? setup_.keys.agent_token({ask.query.generation.value_or(""),
                                                   TRY(parse_attempt_id(*ask.query.attempt))})
                        : setup_.keys.user_token();
  health.proof = api::daemon_proof(token, port_, *ask.query.nonce);
  return health;
}

Result<Json> Handlers::openapi(const Ask<api::kOpenapi>&) { return api::openapi(); }

Result<api::Version> Handlers::version(const Ask<api::kVersion>&) {
  return api::Version{.version = setup_.version,
                      .home = setup_.home.folder.string(),
                      .pid = ::getpid(),
                      .troubles = troubles(),
                      .notices = setup_.controller.notices()};
}

Result<Map> Handlers::map(const Ask<api::kMap>&) { return state().map; }

Result<api::RunView> Handlers::submit(const Ask<api::kSubmit>& ask) {
  const api::SubmitRequest& request = ask.request;
  return view(TRY(setup_.controller.submit(request.spec, request.origin, request.request_id)));
}

Result<api::RunView> Handlers::stop(const Ask<api::kStop>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.stop(id, ask.request.reason));
  return view(id);
}

Result<api::RunView> Handlers::resume(const Ask<api::kResume>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.resume(id));
  return view(id);
}

Result<api::RunView> Handlers::hold(const Ask<api::kHold>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.change(HoldRun{id, ask.request.by, ask.request.reason}));
  return view(id);
}

Result<api::RunView> Handlers::release(const Ask<api::kRelease>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.change(ReleaseRun{id, ask.request.by}));
  return view(id);
}

Result<api::RunView> Handlers::priority(const Ask<api::kPriority>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.change(SetPriority{id, ask.request.priority, ask.request.by}));
  return view(id);
}

Result<api::QueueView> Handlers::queue(const Ask<api::kQueue>& ask) {
  auto view = queue_view(state(), setup_.controller.queue(), ask.query.limit, setup_.clock.now());
  view.troubles = troubles();
  view.notices = setup_.controller.notices();
  return view;
}

Result<api::PlanView> Handlers::plan(const Ask<api::kPlan>& ask) {
  return plan_view(TRY(setup_.controller.plan(ask.request.spec, ask.request.origin)));
}

Result<api::HostList> Handlers::list_hosts(const Ask<api::kHosts>&) { return host_list(state()); }

Result<api::HostList> Handlers::set_host(const Ask<api::kSetHost>& ask) {
  const api::HostRequest& request = ask.request;
  TRY(setup_.controller.change(SetHost{request.host, request.state, request.by, request.reason}));
  return host_list(state());
}

Result<api::LimitList> Handlers::limits(const Ask<api::kLimits>&) { return limit_list(state()); }

Result<api::LimitList> Handlers::set_limit(const Ask<api::kSetLimit>& ask) {
  const api::LimitRequest& request = ask.request;
  if (request.weight && request.scope != LimitScope::project)
    return Error{Code::invalid, "weight: only projects have one"};
  if (request.devices || !request.weight)
    TRY(setup_.controller.change(SetLimit{{request.scope, request.name}, request.devices}));
  if (request.weight) TRY(setup_.controller.change(SetWeight{request.name, *request.weight}));
  return limit_list(state());
}

Result<api::OrphanList> Handlers::orphans(const Ask<api::kOrphans>&) {
  return orphan_list(state());
}

Result<api::OrphanList> Handlers::stop_orphan(const Ask<api::kStopOrphan>& ask) {
  TRY(setup_.controller.change(StopOrphan{TRY(run_of(ask.words)), ask.request.by}));
  return orphan_list(state());
}

Result<api::RunView> Handlers::adopt_orphan(const Ask<api::kAdoptOrphan>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(setup_.controller.change(AdoptOrphan{id, ask.request.by}));
  return view(id);
}

// Newest first.
std::vector<const Run*> Handlers::find_runs(const api::RunsQuery& query) const {
  std::vector<const Run*> found;
  for (const auto& [id, run] : state().runs)
    if (query.project.value_or(id.project) == id.project &&
        query.state.value_or(run.state) == run.state)
      found.push_back(&run);
  std::ranges::stable_sort(found, std::ranges::greater(), [](const Run* run) {
    return std::pair(run->submitted, run->id.number);
  });
  found.resize(std::min(static_cast<std::size_t>(query.limit), found.size()));
  return found;
}

Result<api::RunList> Handlers::runs(const Ask<api::kRuns>& ask) {
  const auto found = find_runs(ask.query);
  std::vector<RunId> ids;
  for (const Run* run : found) ids.push_back(run->id);
  auto said = TRY(setup_.insight.summaries(ids));
  api::RunList list{.runs = {}, .troubles = troubles()};
  for (const Run* run : found)
    list.runs.push_back(run_view(state(), *run, std::move(said.at(run->id)),
                                 setup_.controller.checkpoint_folder(*run), setup_.clock.now()));
  list.notices = setup_.controller.notices();
  return list;
}

Result<api::SeriesList> Handlers::metrics(const Ask<api::kMetrics>& ask) {
  const RunId id = TRY(run_of(ask.words));
  TRY(find_run(id));
  const insight::SeriesQuery query{.name = ask.query.name,
                                   .rank = ask.query.rank,
                                   .after_step = ask.query.after_step,
                                   .points = ask.query.points};
  return series_list(TRY(setup_.insight.series(id, query)));
}

// --- What may wait ---

Result<void> Handlers::run(const Ask<api::kRun>& ask, const Reply<api::RunView>& reply) {
  const RunId id = TRY(run_of(ask.words));
  TRY(find_run(id));
  const auto look = [this, id, reply, after = ask.query.after_version](Waiting::Turn turn) {
    const auto run = find_run(id);
    if (turn == Waiting::Turn::early && run && (*run)->version <= after) return reply.gone();
    reply.give(view(id));
    return true;
  };
  waiting_.wait(id, from_seconds(ask.query.wait_seconds), look);
  return {};
}

Result<void> Handlers::logs(const Ask<api::kLogs>& ask, const Reply<api::LogPage>& reply) {
  const RunId id = TRY(run_of(ask.words));
  TRY(find_run(id));
  const auto look = [this, id, reply, query = ask.query](Waiting::Turn turn) {
    const auto run = find_run(id);
    auto page = log_page(setup_.insight, id, query, run && is_final((*run)->state));
    const std::int64_t version = unfinished_.version(id);
    const bool nothing_new = page && page->lines.empty() && !page->ended &&
                             query.unfinished.value_or(version) == version;
    if (turn == Waiting::Turn::early && nothing_new) return reply.gone();
    if (page) {
      page->unfinished = unfinished_.of(state(), id, query.rank);
      page->unfinished_version = version;
    }
    reply.give(page);
    return true;
  };
  waiting_.wait(id, from_seconds(ask.query.tail ? 0 : ask.query.wait_seconds), look);
  return {};
}

Result<Node> Handlers::newest_node(const RunId& run, int index) const {
  const AttemptId attempt{run, TRY(find_run(run))->epoch};
  const auto found = state().nodes.find(NodeId{attempt, index});
  if (found != state().nodes.end()) return found->second;
  return Error{Code::not_found, format("{} has no node {}", text(attempt), index)};
}

// An agent that has ended its ranks and was heard delivers no more.
Result<void> Handlers::flight(const Ask<api::kFlight>& ask, const Reply<api::FlightView>& reply) {
  const RunId id = TRY(run_of(ask.words));
  const Node node = TRY(newest_node(id, ask.query.node));
  const Time asked = ask.query.after ? *ask.query.after : flight_.ask(node.id.attempt);
  const auto look = [this, node = node.id, asked, reply](Waiting::Turn turn) {
    const auto known = newest_node(node.attempt.run, node.index);
    const bool may_come = known && known->id == node && !has_left(*known);
    if (turn == Waiting::Turn::early && may_come && !flight_.has_since(node, asked))
      return reply.gone();
    reply.give(known ? flight_.view(*known, asked) : known.error());
    return true;
  };
  waiting_.wait(id, from_seconds(ask.query.wait_seconds), look);
  waiting_.wake(id);  // the agents' calls that wait for something to say
  return {};
}

bool Handlers::wants_flight(const NodeName& node) {
  return knows(state(), node) && flight_.wants(state().nodes.at(node.id));
}

// First its word is heard, so that nobody counts as silent whose lines cannot be stored; then what
// it brings is made durable; then the answer waits for a command that the agent does not act on
// yet.
Result<void> Handlers::heartbeat(const Ask<api::kHeartbeat>& ask,
                                 const Reply<api::HeartbeatAnswer>& reply) {
  const api::Heartbeat& heartbeat = ask.request;
  const NodeId node = TRY(node_of(ask.words));
  const NodeName name{ask.query.generation.value_or(""), node};
  if (heartbeat.node != text(node))
    return Error{Code::invalid,
                 format("node: '{}' is not the {} of the path", heartbeat.node, text(node))};
  TRY(setup_.controller.report(node_report(name, heartbeat)));
  const std::int64_t acknowledged = TRY(keep_items(name, heartbeat));
  if (heartbeat.flight && knows(state(), name)) {
    flight_.take(state().nodes.at(node), *heartbeat.flight);
    waiting_.wake(node.attempt.run);
  }
  if (knows(state(), name) && unfinished_.take(state(), node, heartbeat.unfinished))
    waiting_.wake(node.attempt.run);
  const auto look = [this, node, name, acknowledged, reply,
                     known = heartbeat.known_command](Waiting::Turn turn) {
    const Command command = command_for(state(), name);
    const bool flight_wanted = wants_flight(name);
    if (turn == Waiting::Turn::early && command.kind == known && !flight_wanted)
      return reply.gone();
    auto answer = heartbeat_answer(command, acknowledged);
    answer.flight_wanted = flight_wanted;
    reply.give(answer);
    return true;
  };
  waiting_.wait(node.attempt.run, from_seconds(heartbeat.wait_seconds), look);
  return {};
}

// Up to which sequence the node's items are durable. Those of an orphan belong to no run: its agent
// keeps them.
Result<std::int64_t> Handlers::keep_items(const NodeName& node, const api::Heartbeat& heartbeat) {
  const std::vector<Item>& items = heartbeat.items;
  if (!knows(state(), node)) return 0;
  const std::int64_t stored = TRY(setup_.insight.ingest(node.id, items));
  if (!items.empty()) waiting_.wake(node.id.attempt.run);
  return stored;
}

}  // namespace lockstep
