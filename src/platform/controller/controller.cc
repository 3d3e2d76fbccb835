#include "platform/controller/controller.h"

#include <algorithm>
#include <functional>
#include <map>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/log.h"
#include "comm/cost/costs.h"
#include "map/grown_map.h"
#include "map/query.h"
#include "platform/controller/engine_news.h"
#include "platform/controller/gang_of.h"
#include "platform/controller/listed_orphans.h"
#include "platform/core/model/map_of_hosts.h"
#include "platform/core/notice/causes.h"
#include "platform/core/step/ending/reason_text.h"
#include "platform/core/step/ending/removal.h"
#include "platform/core/step/ending/silence.h"
#include "platform/core/step/handlers/draft.h"
#include "platform/core/step/handlers/host_facts.h"
#include "platform/host/node_files.h"

namespace lockstep::controller {
namespace {

namespace fs = std::filesystem;

// How often the engine is polled; while an attempt drains it is polled at every tick.
constexpr Duration kEnginePollInterval = std::chrono::seconds(1);
// The same while it has no node to tell of, but maybe a host that cannot be used.
constexpr Duration kIdlePollInterval = std::chrono::seconds(10);
// Longest gap between two ticks: after a longer one, the daemon itself was suspended (stopped, or a
// disk hung). Well below the silence limit of a node.
constexpr Duration kStandstill = std::chrono::seconds(10);
// After a longer gap the loop is slow, and agents wait for their answers: a call may take three
// turns of the loop (connect, prove, report). Well below the time after which a node is
// unreachable.
constexpr Duration kSlowTick = std::chrono::seconds(3);
// The loop handles other calls in between.
constexpr Duration kExecuteSlice = std::chrono::milliseconds(20);
// A list of the engine is younger.
constexpr Duration kYoungNode = std::chrono::minutes(1);
// Pause before an engine that did not answer at the start is polled again; doubles each time.
constexpr Duration kEngineRetryFirst = std::chrono::seconds(1);
constexpr Duration kEngineRetryMax = std::chrono::seconds(5);

// After the store has refused a change, it is probed if nothing was stored for this time.
constexpr Duration kProbeInterval = std::chrono::seconds(5);

// Ended runs stay in the state for so long, for agents and users that still call about them.
constexpr Duration kKeptAfterEnd = std::chrono::minutes(1);
constexpr Duration kDropInterval = std::chrono::seconds(10);

// Subjects of failure messages.
constexpr auto kStore = "store", kHistory = "history", kEngine = "engine", kSilence = "silence";

bool is_to_start(const model::Attempt* attempt, const model::AttemptId& id) {
  return attempt && attempt->id == id && attempt->state < model::AttemptState::draining;
}

// The run whose watchers are notified of the row.
std::optional<model::RunId> run_of(const model::Run& row) { return row.id; }
std::optional<model::RunId> run_of(const model::Attempt& row) { return row.id.run; }
std::optional<model::RunId> run_of(const model::Node& row) { return row.id.attempt.run; }
std::optional<model::RunId> run_of(const model::HostRow&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::LimitRow&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::StoreRow&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::Orphan&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::ClockRow&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::GivenUpNode&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::MeasuredRow&) { return std::nullopt; }
std::optional<model::RunId> run_of(const budget::Budget&) { return std::nullopt; }
std::optional<model::RunId> run_of(const budget::Rate&) { return std::nullopt; }
std::optional<model::RunId> run_of(const budget::Posting&) { return std::nullopt; }
std::optional<model::RunId> run_of(const budget::UsagePart&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::AuditRecord&) { return std::nullopt; }
std::optional<model::RunId> run_of(const model::Notice&) { return std::nullopt; }
std::optional<model::RunId> run_of(const budget::Bucket&) { return std::nullopt; }

model::AuditRecord of_outcome(model::AuditRecord record, const step::Outcome& outcome) {
  if (outcome.submitted) record.target = text(*outcome.submitted);
  return record;
}

// The run that an event is about.
template <class Event>
std::optional<model::RunId> run_named_by(const Event& event) {
  if constexpr (requires { event.run; })
    return event.run;
  else if constexpr (std::is_same_v<Event, model::NodeReport>)
    return event.node.attempt.run;
  else
    return std::nullopt;
}

// Calls visit(node) for each node that still holds devices.
template <class Visit>
void for_each_live_node(const model::State& state, Visit&& visit) {
  for (const model::AttemptId& attempt : state.live)
    for (const model::Node* node : model::nodes_of(state, attempt))
      if (node->state != model::NodeState::released) visit(state.attempts.at(attempt), *node);
}

void log_dropped_hosts(const std::vector<std::string>& hosts) {
  for (const std::string& host : hosts)
    LS_LOG(warning, "the host {} of another engine is ignored: one of this name has joined", host);
}

// Rows of hosts that were damaged or changed by hand must not reach the scheduler.
Result<map::ClusterMap> map_at_start(const ControllerSetup& setup, const model::State& state) {
  if (!setup.hosts_make_map) {
    TRY(map::check(setup.map));
    return setup.map;
  }
  map::ClusterMap others = setup.map;
  log_dropped_hosts(model::drop_hosts_that_joined(others, state.hosts));
  map::ClusterMap map = model::map_of_hosts(state.hosts, others);
  if (state.measured) map.measured = state.measured->measured;
  if (map.pods.empty()) return map;
  if (auto checked = map::check(map); !checked)
    return Error{Code::corrupt,
                 format("the store has hosts that make no map: {}", checked.error().message)};
  return map;
}

void log_changed_hosts(const map::ClusterMap& before, const map::ClusterMap& now) {
  LS_LOG(info, "the map has {} hosts now, it had {}", map::hosts(now).size(),
         map::hosts(before).size());
  for (const map::Host* host : map::hosts(now))
    if (const map::Host* old = map::find_host(before, host->id);
        old && old->islands != host->islands)
      LS_LOG(info, "host {} has {} devices now, it had {}", host->id, map::device_count(*host),
             map::device_count(*old));
}

std::string costs_text(const map::ClusterMap& map) {
  const comm::Costs costs = comm::costs_of(map);
  return costs == comm::Costs{} ? "" : comm::encode_costs(costs);
}

}  // namespace

Controller::Controller(ControllerSetup setup, model::State state, model::StoreHistory history)
    : setup_(std::move(setup)),
      decider_(std::move(state), setup_.policy),
      history_(std::move(history)),
      boot_(setup_.steady.boot_id()),
      costs_(costs_text(decider_.state().map)),
      problem_log_(setup_.clock) {}

Result<std::unique_ptr<Controller>> Controller::open(ControllerSetup setup) {
  model::State state = TRY(setup.store.load());
  state.map = TRY(map_at_start(setup, state));
  state.hosts_make_map = setup.hosts_make_map;
  state.placing_engine = setup.placing_engine;
  state.settings = setup.settings;
  state.engine = std::string(setup.engine.name());
  state.engine_has_listed = false;
  model::StoreHistory history = TRY(setup.history.load());
  auto controller = std::unique_ptr<Controller>(
      new Controller(std::move(setup), std::move(state), std::move(history)));
  TRY(controller->identify_store());
  TRY(controller->connect_to_engine());
  return controller;
}

// --- Identity of the store ---

// A new store, or an older copy that was restored, gets a new generation.
Result<void> Controller::identify_store() {
  const std::int64_t missing = model::missing_from_store(state().store, history_);
  if (missing > 0) {
    older_copy_notice_ = format(
        "the store is an older copy: {} {} made since, of which it knows nothing; what is made "
        "from now on gets other names",
        missing, missing == 1 ? "run or attempt was" : "runs and attempts were");
    LS_LOG(warning, "{}", older_copy_notice_);
  }
  if (setup_.home_is_copy)
    LS_LOG(info,
           "the daemon's folder was put back from a copy, or moved to another file system: what is "
           "made from now on gets other names");
  if (missing > 0 || setup_.home_is_copy || state().store.generation.empty()) {
    const model::StoreRow named{setup_.history.new_generation(), 0};
    TRY(commit({named}));
    decider_.set_store(named);
  }
  model::record_issued(history_, state());
  decider_.set_run_numbers(history_.numbers);
  save_history();
  return {};
}

// After a failure the next tick tries again.
void Controller::save_history() {
  const auto kept = setup_.history.store(history_);
  history_saved_ = kept.has_value();
  if (kept) {
    if (problem_log_.clear(kHistory)) LS_LOG(info, "the numbers of runs are kept again");
    return;
  }
  const auto words = format(
      "the numbers of runs are not kept beside the store, so that another store could give them "
      "again: {}",
      kept.error().message);
  if (problem_log_.should_log(kHistory, words)) LS_LOG(warning, "{}", words);
}

// Called before runs are stored. Otherwise, if the daemon died between the two and the store was
// moved away, another store would reuse their numbers.
void Controller::save_run_numbers(const std::vector<model::Change>& changes) {
  bool new_ones = false;
  for (const model::Change& change : changes) {
    const model::Run* run = std::get_if<model::Run>(&change);
    if (!run || run->id.number <= history_.numbers[run->id.project]) continue;
    model::record_issued(history_, {&change, 1});
    new_ones = true;
  }
  if (new_ones) save_history();
}

// --- Until the first answer of the engine ---

bool Controller::engine_retry_is_due() const {
  return !last_engine_poll_ || setup_.steady.since_boot() - *last_engine_poll_ >= pause_;
}

// An error only if the store accepts no changes.
Result<void> Controller::connect_to_engine() {
  const auto listed = list_engine_nodes();
  pause_ = std::clamp(pause_ * 2, kEngineRetryFirst, kEngineRetryMax);
  if (!listed) return {};
  TRY(update_orphans(*listed));
  TRY(take_back_nodes(*listed));
  TRY(update_hosts(*listed));
  decider_.set_engine_has_listed();
  unchecked_.insert(state().live.begin(), state().live.end());
  submit_missing_gangs(*listed);
  ready_ = true;
  return resume_listening();
}

// The daemon may have died between the commit of a placement and the start of its agents. So gangs
// are submitted again that have a node without a sign of life: once all their hosts can be asked,
// since orphans may hold their devices.
void Controller::submit_missing_gangs(const engine::EngineList& listed) {
  std::erase_if(unchecked_, [&](const model::AttemptId& id) {
    const model::Attempt* attempt = model::live_attempt(state(), id.run);
    if (!is_to_start(attempt, id)) return true;
    const auto nodes = model::nodes_of(state(), id);
    const bool is_known = std::ranges::all_of(nodes, [&](const model::Node* node) {
      return listed.why_unknown(node->host, attempt->engine).empty();
    });
    if (!is_known || may_be_younger(*attempt, listed)) return false;
    if (!is_to_submit(*attempt, listed)) return true;
    unsubmitted_.insert(id);
    effects_.push_back(model::SubmitGang{id});
    return true;
  });
}

// A submission of the daemon before this one may have its effect after the list was made. A list of
// the next minute has its nodes, or their agents call no more.
bool Controller::may_be_younger(const model::Attempt& attempt,
                                const engine::EngineList& listed) const {
  return std::ranges::any_of(model::nodes_of(state(), attempt.id), [&](const model::Node* node) {
    return node->state != model::NodeState::allocated && node->last_heartbeat > listening_since_ &&
           setup_.clock.now() - node->last_heartbeat < kYoungNode &&
           !is_listed(listed, name_of(state(), node->id));
  });
}

// Not if it conflicts with an orphan. The engine does not start a node again that has ended, which
// an older copy of the store may not know.
bool Controller::is_to_submit(const model::Attempt& attempt,
                              const engine::EngineList& listed) const {
  if (attempt.generation != state().store.generation ||
      !model::has_engine(state(), attempt.engine) || unsubmitted_.contains(attempt.id))
    return false;
  const auto nodes = model::nodes_of(state(), attempt.id);
  const auto conflicts = [&](const model::Node* node) {
    return conflicts_with_orphan(state(), *node);
  };
  const auto is_missing = [&](const model::Node* node) {
    return node->state == model::NodeState::allocated &&
           !is_listed(listed, name_of(state(), node->id));
  };
  return std::ranges::none_of(nodes, conflicts) && std::ranges::any_of(nodes, is_missing);
}

// --- Hosts and orphans ---

Result<void> Controller::update_hosts(const engine::EngineList& listed) {
  const HostNews news = news_of_hosts(state(), listed);
  if (news.changes.empty()) return {};
  TRY(process_event(news.seen));
  for (const std::string& line : news.changes) LS_LOG(info, "{}", line);
  return {};
}

// Hosts that are new at the engine, and devices that have changed. Its map is the same object until
// it changes. A host whose devices are used takes its new ones later.
void Controller::update_map(const engine::EngineList& listed) {
  const step::Draft draft(state(), setup_.clock.now());
  const auto is_used = [&](const std::string& host) {
    return step::user_of_host(draft, host).has_value();
  };
  const bool is_free = std::ranges::any_of(awaited_hosts_, std::not_fn(is_used));
  if (!listed.map || (listed.map == seen_map_ && !is_free)) return;
  seen_map_ = listed.map;
  map::ClusterMap seen = *listed.map;
  if (state().hosts_make_map) log_dropped_hosts(model::drop_hosts_that_joined(seen, state().hosts));
  awaited_hosts_.clear();
  map::ClusterMap grown = map::grown_map(state().map, seen, [&](const std::string& host) {
    if (!is_used(host)) return false;
    awaited_hosts_.push_back(host);
    return true;
  });
  if (grown == state().map) return;
  log_changed_hosts(state().map, grown);
  decider_.set_map(std::move(grown));
  costs_ = costs_text(state().map);
}

Result<void> Controller::update_orphans(const engine::EngineList& listed) {
  unlisted_orphan_called_ = false;
  for (const engine::ListedNode& node : listed.nodes)
    if (node.seen.phase != model::NodePhase::gone) TRY(fetch(node.node.id.attempt.run));
  const auto seen = listed_orphans(state(), listed, setup_.clock.now());
  if (!seen) return {};
  const std::size_t before = state().orphans.size();
  TRY(process_event(*seen));
  if (state().orphans.size() != before) log_orphans();
  return {};
}

Result<void> Controller::take_back_nodes(const engine::EngineList& listed) {
  std::vector<model::Event> events;
  for (const model::NodeSeen& node : returned_nodes(state(), listed)) {
    LS_LOG(warning, "{} on host {} counted as gone, and has processes: it is killed",
           text(name_of(state(), node.node)), state().nodes.at(node.node).host);
    events.emplace_back(node);
  }
  if (!events.empty()) TRY(process_events(events));
  return {};
}

std::vector<std::string> Controller::notices() const {
  auto lines = step::describe_orphans(state());
  if (!older_copy_notice_.empty()) lines.insert(lines.begin(), older_copy_notice_);
  return lines;
}

void Controller::log_orphans() const {
  const auto words = step::describe_orphans(state());
  for (const std::string& line : words) LS_LOG(warning, "{}", line);
  if (words.empty()) LS_LOG(info, "no run of another store is active here any more");
}

Result<void> Controller::check_ready() const {
  if (ready_) return {};
  return Error{Code::unavailable,
               format("{}; until it can, nothing is started, stopped or resumed, and it is asked "
                      "again every {}",
                      joined(problem_log_.active_failures(), "; "), text(pause_))};
}

// Agents could not reach the daemon, and can from now on.
Result<void> Controller::resume_listening() {
  TRY(process_event(model::DaemonStarted{}));
  ticked_ = setup_.steady.since_boot();  // it may be suspended before its first tick
  listening_since_ = setup_.clock.now();
  return {};
}

// When the silence of many nodes ends, all limits count as after a restart.
Result<void> Controller::check_widespread_silence() {
  if (step::is_silence_widespread(step::Draft(state(), setup_.clock.now()))) {
    const auto words = format(
        "many nodes on several hosts are unreachable at once, so the daemon or the network is at "
        "fault; none of them is lost before {}",
        step::short_text(state().settings.widespread_lost_after));
    if (problem_log_.should_log(kSilence, words)) LS_LOG(warning, "{}", words);
    return {};
  }
  if (!problem_log_.clear(kSilence)) return {};
  LS_LOG(info, "most nodes are reachable again");
  return resume_listening();
}

// --- The clock ---

// Called before each decision: if the clock was set, all stored times shift with it.
Result<void> Controller::sync_clock() {
  const model::ClockRow clock{boot_, wall_time_at_boot(setup_.clock, setup_.steady)};
  const auto by = model::clock_shift(state().clock, clock);
  if (by == Duration(0)) return {};
  const step::Outcome outcome = TRY(commit_event(model::ClockChanged{clock}));
  if (by) {
    listening_since_ += *by;
    on_time_since_ += *by;
    LS_LOG(warning, "the clock was set {} by {}; no time limit is shortened or lengthened by that",
           *by > Duration(0) ? "forward" : "back", text(*by > Duration(0) ? *by : -*by));
  }
  notify_watchers(outcome.changes);
  return {};
}

// --- Events ---

Result<model::RunId> Controller::submit(model::RunSpec spec, model::Origin origin,
                                        const std::string& request_id, const Record& record,
                                        model::ProjectKind kind) {
  TRY(check_ready());
  TRY(fetch_named(spec));
  if (!request_id.empty() && !state().requests.contains(request_id))
    if (const auto known = TRY(setup_.store.find_request(request_id))) TRY(fetch(*known));
  auto shared = runs_in_same_folder(spec.checkpoint_folder);
  const step::Outcome outcome = TRY(process_event(
      model::SubmitRun{std::move(spec), std::move(origin), request_id, std::move(shared), kind},
      record));
  LS_CHECK(outcome.submitted.has_value());
  return *outcome.submitted;
}

Result<model::NodeId> Controller::attach(model::AttachNode agent, const Record& record) {
  TRY(check_ready());
  const step::Outcome outcome = TRY(process_event(std::move(agent), record));
  LS_CHECK(outcome.attached.has_value());
  return *outcome.attached;
}

Result<void> Controller::stop(const model::RunId& run, const std::string& reason,
                              const Record& record) {
  TRY(check_ready());
  TRY(process_event(model::StopRun{run, reason}, record));
  return {};
}

Result<void> Controller::resume(const model::RunId& run, const Record& record) {
  TRY(check_ready());
  TRY(fetch(run));
  const auto found = state().runs.find(run);
  if (found != state().runs.end()) TRY(fetch_named(found->second.spec));
  TRY(process_event(
      model::ResumeRun{run, found == state().runs.end()
                                ? std::vector<model::RunId>()
                                : runs_in_same_folder(checkpoint_folder(found->second))},
      record));
  return {};
}

Result<void> Controller::remove(const model::RunId& run, const Record& record) {
  TRY(check_ready());
  TRY(fetch(run));
  const auto found = state().runs.find(run);
  const bool known = found != state().runs.end();
  TRY(step::check_removable(state(), run,
                            known && found->second.spec.checkpoint_folder.empty()
                                ? runs_in_same_folder(checkpoint_folder(found->second))
                                : std::vector<model::RunId>()));
  if (execute_effects())
    return Error{Code::unavailable, "the daemon is starting other runs; try again in a moment"};
  const std::int64_t version = found->second.version + 1;
  const std::vector<model::Change> also(record ? 1 : 0, record.value_or(model::AuditRecord()));
  const auto removed = setup_.store.remove_run(model::rows_of(state(), run), also);
  record_store_result(removed);
  TRY(removed);
  decider_.drop_ended_run(run);
  for (const Watcher& watcher : watchers_) watcher(run, version);
  return {};
}

Result<void> Controller::apply_operator_event(const model::Event& event, const Record& record) {
  TRY(check_ready());
  TRY(process_event(event, record));
  if (const auto* stop = std::get_if<model::StopOrphan>(&event))
    LS_LOG(info, "{} has {} end, a run of another store", stop->by.empty() ? "a user" : stop->by,
           text(stop->run));
  return {};
}

Result<step::DryRunResult> Controller::plan(const model::RunSpec& spec, const model::Origin& origin,
                                            model::ProjectKind kind) {
  TRY(fetch_named(spec));
  return step::dry_run(state(),
                       {.spec = spec,
                        .origin = origin,
                        .runs_in_same_folder = runs_in_same_folder(spec.checkpoint_folder),
                        .project_kind = kind},
                       setup_.clock.now());
}

Result<model::Command> Controller::report(const model::NodeReport& report) {
  return std::move(this->report(std::span(&report, 1)).front());
}

// A report that is refused must not take the others with it: then each is an event of its own.
std::vector<Result<model::Command>> Controller::report(std::span<const model::NodeReport> reports) {
  std::vector<Result<model::Command>> commands;
  const auto synced = sync_clock();
  std::vector<model::Event> heard;
  for (model::NodeReport report : reports) {
    report.listening_since = listening_since_;
    heard.emplace_back(std::move(report));
  }
  auto outcome = synced ? process_events(heard) : Result<step::Outcome>(synced.error());
  const bool each = !outcome && outcome.error().code == Code::invalid && reports.size() > 1;
  for (std::size_t i = 0; i < reports.size(); ++i) {
    if (each) outcome = process_event(heard[i]);
    commands.push_back(outcome ? command_of(reports[i]) : outcome.error());
  }
  return commands;
}

Result<model::Command> Controller::command_of(const model::NodeReport& report) {
  const model::NodeName name{report.generation, report.node};
  const model::Command command = model::command_for(state(), name, report.agent.id);
  if (command.orphaned && !state().orphans.contains(name)) unlisted_orphan_called_ = true;
  return command;
}

void Controller::tick() {
  probe_store();
  if (!history_saved_) save_history();
  if (!ready_ && engine_retry_is_due()) (void)connect_to_engine();  // it logs its own errors
  if (!ready_ || !sync_clock()) return;
  const Duration now = setup_.steady.since_boot();
  const bool stood_still = ticked_ && now - *ticked_ >= kStandstill;
  if ((stood_still || commit_failed_) && !resume_listening()) return;
  if (stood_still) last_engine_poll_.reset();
  if (ticked_ && now - *ticked_ >= kSlowTick) on_time_since_ = setup_.clock.now();
  commit_failed_ = false;
  ticked_ = now;
  // An event whose commit fails comes again at the next tick.
  stop_unstartable();
  poll_engine();
  if (!sync_clock() || !check_widespread_silence()) return;
  (void)process_event(model::Tick{listening_since_, on_time_since_, silent_hosts_});
  drop_old_runs();
}

Result<void> Controller::report_finding(const std::string& project,
                                        const std::optional<model::RunId>& run, std::string text) {
  TRY(check_ready());
  if (run) TRY(fetch(*run));
  const auto found = run ? state().runs.find(*run) : state().runs.end();
  const model::Run* about = found == state().runs.end() ? nullptr : &found->second;
  return commit({notice::finding_of(state(), project, about, std::move(text), setup_.clock.now())});
}

// --- Ended runs ---

Result<void> Controller::fetch(const model::RunId& run) {
  if (state().runs.contains(run)) return {};
  const auto rows = TRY(setup_.store.find_run(run));
  if (rows && model::is_final(rows->run.state)) decider_.add_ended_run(*rows);
  return {};
}

// Names that are none are refused by the step.
Result<void> Controller::fetch_named(const model::RunSpec& spec) {
  for (const std::string& name : spec.after)
    if (const auto id = model::parse_run_id(name)) TRY(fetch(*id));
  return {};
}

// Effects that are still to run name their rows.
void Controller::drop_old_runs() {
  const Duration now = setup_.steady.since_boot();
  if (now < next_drop_ || !effects_.empty()) return;
  next_drop_ = now + kDropInterval;
  decider_.drop_ended_runs(setup_.clock.now() - kKeptAfterEnd);
}

fs::path Controller::checkpoint_folder(const model::Run& run) const {
  if (!run.spec.checkpoint_folder.empty()) return run.spec.checkpoint_folder;
  const bool below_home = setup_.shared.empty() && !setup_.hosts_make_map;
  return host::default_checkpoint_folder(below_home ? setup_.home : setup_.shared, run.generation,
                                         run.id);
}

// The runs that have not ended and write there, by the paths alone: a lookup in a user's file
// system may hang. `lockstep run` resolves symbolic links before it submits.
std::vector<model::RunId> Controller::runs_in_same_folder(const fs::path& folder) const {
  if (folder.empty()) return {};
  const fs::path home = setup_.home.lexically_normal();
  std::error_code failed;
  const fs::path resolved = fs::weakly_canonical(setup_.home, failed);
  const auto plain = [&](const fs::path& path) {
    const fs::path normal = (path / "").lexically_normal();
    const fs::path below = normal.lexically_relative(home);
    return failed || below.empty() || *below.begin() == ".." ? normal : resolved / below;
  };
  std::vector<model::RunId> found;
  for (const model::RunId& id : state().open)
    if (plain(checkpoint_folder(state().runs.at(id))) == plain(folder)) found.push_back(id);
  return found;
}

Result<step::Outcome> Controller::process_event(const model::Event& event, const Record& record) {
  return process_events(std::span(&event, 1), record);
}

Result<step::Outcome> Controller::process_events(std::span<const model::Event> events,
                                                 const Record& record) {
  TRY(sync_clock());
  auto outcome = TRY(commit_events(events, record));
  execute_effects();
  notify_watchers(outcome.changes);
  return outcome;
}

Result<step::Outcome> Controller::commit_event(const model::Event& event) {
  return commit_events(std::span(&event, 1));
}

// Persists and applies the changes, and queues the effects.
Result<step::Outcome> Controller::commit_events(std::span<const model::Event> events,
                                                const Record& record) {
  for (const model::Event& event : events)
    if (const auto run = std::visit([](const auto& one) { return run_named_by(one); }, event))
      TRY(fetch(*run));
  step::Outcome outcome = TRY(decider_.propose(events, setup_.clock.now()));
  if (record && !outcome.changes.empty())
    outcome.changes.emplace_back(of_outcome(*record, outcome));
  for (model::Notice& one : notice::notices_of(state(), outcome.changes, setup_.clock.now()))
    outcome.changes.emplace_back(std::move(one));
  save_run_numbers(outcome.changes);
  if (auto committed = commit(outcome.changes); !committed) {
    decider_.discard();
    return committed.error();
  }
  decider_.accept(outcome.changes);
  update_costs(outcome.changes);
  const auto names_are_new = [](const model::Change& change) {
    return std::holds_alternative<model::StoreRow>(change);
  };
  if (std::ranges::any_of(outcome.changes, names_are_new)) {
    model::record_issued(history_, outcome.changes);
    decider_.set_run_numbers(history_.numbers);
    save_history();
  }
  for (const model::Effect& effect : outcome.effects)
    if (const auto* submit = std::get_if<model::SubmitGang>(&effect))
      unsubmitted_.insert(submit->attempt);
  effects_.insert(effects_.end(), outcome.effects.begin(), outcome.effects.end());
  return outcome;
}

void Controller::update_costs(const std::vector<model::Change>& changes) {
  const auto changes_map = [](const model::Change& change) {
    return std::holds_alternative<model::HostRow>(change) ||
           std::holds_alternative<model::MeasuredRow>(change);
  };
  if (state().hosts_make_map && std::ranges::any_of(changes, changes_map))
    costs_ = costs_text(state().map);
}

Result<void> Controller::commit(const std::vector<model::Change>& changes) {
  if (changes.empty()) return {};
  const Duration begin = setup_.steady.since_boot();
  auto committed = setup_.store.commit(changes);
  commits_.time += setup_.steady.since_boot() - begin;
  ++(committed ? commits_.stored : commits_.refused);
  if (!committed) commit_failed_ = true;
  record_store_result(committed);
  return committed;
}

void Controller::record_store_result(const Result<void>& stored) {
  if (stored) {
    store_refused_at_.reset();
    if (problem_log_.clear(kStore)) LS_LOG(info, "the store takes changes again");
    return;
  }
  store_refused_at_ = setup_.steady.since_boot();
  const auto words = format("nothing starts, ends or is resumed until it can be stored: {}",
                            stored.error().message);
  if (problem_log_.should_log(kStore, words)) LS_LOG(error, "{}", words);
}

// Without events nothing is committed, so only a probe finds that the store has space again.
void Controller::probe_store() {
  if (!store_refused_at_ || setup_.steady.since_boot() - *store_refused_at_ < kProbeInterval)
    return;
  record_store_result(setup_.store.check_writable());
}

bool Controller::execute_effects() {
  if (!ready_) return false;
  const Duration begun = setup_.steady.since_boot();
  while (!effects_.empty()) {
    const model::Effect effect = std::move(effects_.front());
    effects_.pop_front();
    std::visit([&](const auto& what) { execute(what); }, effect);
    if (setup_.steady.since_boot() - begun >= kExecuteSlice) break;
  }
  return !effects_.empty();
}

// Nothing is submitted that was stopped meanwhile: its nodes are not listed, and so they are gone.
void Controller::execute(const model::SubmitGang& effect) {
  unsubmitted_.erase(effect.attempt);
  const model::Attempt* attempt = model::live_attempt(state(), effect.attempt.run);
  if (!is_to_start(attempt, effect.attempt)) return;
  auto secrets = secrets_of(state().runs.at(effect.attempt.run));
  if (!secrets) {
    unstartable_.emplace(effect.attempt.run, secrets.error().message);
    unsubmitted_.insert(effect.attempt);
    return;
  }
  setup_.engine.submit(
      gang_of(state(), *attempt, {setup_.keys, costs_, setup_.shared, *std::move(secrets)}));
}

Result<std::map<std::string, std::string>> Controller::secrets_of(const model::Run& run) const {
  std::map<std::string, std::string> values;
  if (!run.spec.secrets) return values;
  if (!setup_.secret_value) return Error{Code::unavailable, "this daemon has no secrets"};
  for (const auto& [variable, secret] : *run.spec.secrets)
    values[variable] = TRY(setup_.secret_value(run.id.project, secret));
  return values;
}

// Their nodes were never submitted, and so they are gone.
void Controller::stop_unstartable() {
  std::erase_if(unstartable_, [&](const auto& entry) {
    const auto& [run, reason] = entry;
    if (!process_event(model::StopRun{run, reason})) return false;
    std::erase_if(unsubmitted_, [&](const model::AttemptId& id) { return id.run == run; });
    return true;
  });
}

// A given-up node may be gone by now, and its run may have been dropped from the state.
void Controller::execute(const model::KillNode& effect) {
  const auto given_up = state().given_up.find(effect.node);
  if (given_up != state().given_up.end())
    setup_.engine.kill({given_up->second.generation, effect.node});
  else if (state().nodes.contains(effect.node))
    setup_.engine.kill(name_of(state(), effect.node));
}
void Controller::execute(const model::KillOrphan& effect) { setup_.engine.kill(effect.node); }

// While an attempt drains, the engine is polled at every tick; else once a second.
bool Controller::engine_poll_is_due(Duration interval) const {
  if (!last_engine_poll_ || setup_.steady.since_boot() - *last_engine_poll_ >= interval)
    return true;
  return std::ranges::any_of(state().live, [&](const model::AttemptId& attempt) {
    return state().attempts.at(attempt).state == model::AttemptState::draining;
  });
}

Result<engine::EngineList> Controller::list_engine_nodes() {
  last_engine_poll_ = setup_.steady.since_boot();
  auto listed = setup_.engine.list();
  if (listed && problem_log_.clear(kEngine)) LS_LOG(info, "the engine says again what runs");
  if (listed) return listed;
  const auto words = format("the engine cannot say what runs: {}", listed.error().message);
  if (problem_log_.should_log(kEngine, words)) LS_LOG(warning, "{}", words);
  return listed;
}

// The nodes that the next list has until they are gone.
std::vector<model::NodeId> Controller::awaited_nodes() const {
  std::vector<model::NodeId> awaited;
  for_each_live_node(state(), [&](const model::Attempt& attempt, const model::Node& node) {
    const bool is_submitted =
        !unsubmitted_.contains(attempt.id) && !unchecked_.contains(attempt.id);
    if (model::has_engine(state(), attempt.engine) && is_submitted) awaited.push_back(node.id);
  });
  return awaited;
}

// Nodes that are submitted after the list was made are not in it.
void Controller::poll_engine() {
  // The list of hosts that join costs nothing, and they come and go.
  const bool is_idle = state().live.empty() && state().orphans.empty() &&
                       state().given_up.empty() && !unlisted_orphan_called_ &&
                       !setup_.hosts_make_map;
  if (!engine_poll_is_due(is_idle ? kIdlePollInterval : kEnginePollInterval)) return;
  const std::vector<model::NodeId> awaited = awaited_nodes();
  const auto listed = list_engine_nodes();
  const bool has_listened =
      setup_.clock.now() - listening_since_ >= state().settings.host_silent_after;
  silent_hosts_ = listed && has_listened ? silent_hosts(state(), *listed) : std::set<std::string>();
  if (!listed) return;
  update_map(*listed);
  auto news = news_of_nodes(state(), awaited, *listed);
  for (const model::NodeId& node : ended_given_up_nodes(state(), *listed))
    news.emplace_back(model::NodeSeen{node, {.phase = model::NodePhase::gone}});
  // After a failed commit all come again. The hosts are last: one that is available from now on may
  // have orphans and nodes that counted as gone, and runs start there at once.
  if (update_orphans(*listed)) {
    submit_missing_gangs(*listed);
    if (take_back_nodes(*listed)) (void)update_hosts(*listed);
  }
  if (!news.empty()) (void)process_events(news);
}

void Controller::notify_watchers(const std::vector<model::Change>& changes) const {
  std::set<model::RunId> touched;
  for (const model::Change& change : changes)
    if (auto run = std::visit([](const auto& row) { return run_of(row); }, change))
      touched.insert(std::move(*run));
  for (const model::RunId& run : touched)
    for (const Watcher& watcher : watchers_) watcher(run, state().runs.at(run).version);
  for (const ChangeWatcher& watcher : change_watchers_) watcher(changes);
}

}  // namespace lockstep::controller
