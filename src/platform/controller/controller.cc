#include "platform/controller/controller.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/files.h"
#include "base/log.h"
#include "comm/cost/costs.h"
#include "map/query.h"
#include "platform/core/step/ending.h"
#include "platform/core/step/words.h"
#include "platform/host/node_files.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

// How often the engine is asked what is gone: at every tick while something is about to end.
constexpr Duration kLookInterval = std::chrono::seconds(1);
// Between two ticks: longer, and the daemon itself stood still (it was stopped, a disk hung). Well
// below the silence after which a node counts as lost.
constexpr Duration kStandstill = std::chrono::seconds(10);
// The loop answers others in between.
constexpr Duration kActAtOnce = std::chrono::milliseconds(20);
// Before an engine that did not answer at the start is asked again; twice as long each time.
constexpr Duration kAskFirst = std::chrono::seconds(1);
constexpr Duration kAskMost = std::chrono::seconds(5);

// After the store took no change: when nobody wants one stored for so long, it is tried.
constexpr Duration kProbeInterval = std::chrono::seconds(5);

// What complaints are about.
constexpr auto kStore = "store", kHistory = "history", kEngine = "engine", kKill = "kill";

bool starts(const Attempt* attempt, const NodeId& node) {
  return attempt && attempt->id == node.attempt && attempt->state < AttemptState::draining;
}

// Whose watchers are to hear of the row.
std::optional<RunId> run_of(const Run& row) { return row.id; }
std::optional<RunId> run_of(const Attempt& row) { return row.id.run; }
std::optional<RunId> run_of(const Node& row) { return row.id.attempt.run; }
std::optional<RunId> run_of(const HostRow&) { return std::nullopt; }
std::optional<RunId> run_of(const LimitRow&) { return std::nullopt; }
std::optional<RunId> run_of(const StoreRow&) { return std::nullopt; }
std::optional<RunId> run_of(const Orphan&) { return std::nullopt; }
std::optional<RunId> run_of(const ClockRow&) { return std::nullopt; }

// Calls visit(node) for each node that still holds devices.
template <class Visit>
void for_each_live_node(const State& state, Visit&& visit) {
  for (const RunId& run : state.open)
    if (const Attempt* attempt = live_attempt(state, run))
      for (const Node* node : nodes_of(state, attempt->id))
        if (node->state != NodeState::released) visit(*attempt, *node);
}

// One goes on under the node's run's name, or on a device of the node's.
bool meets_orphan(const State& state, const Node& node) {
  return std::ranges::any_of(state.orphans, [&](const auto& entry) {
    const Slice& slice = entry.second.slice;
    return entry.first.id.attempt.run == node.id.attempt.run ||
           (slice.host == node.host &&
            std::ranges::find_first_of(slice.devices, node.devices) != slice.devices.end());
  });
}

std::string costs_words(const Map& map) {
  const Costs costs = costs_of(map);
  return costs == Costs{} ? "" : to_words(costs);
}

// Of each of these devices all of its island, by their numbers on the machine.
std::vector<std::vector<int>> islands_of(const Host& host, const std::vector<int>& indices) {
  std::vector<std::vector<int>> by_device;
  for (const Island& island : host.islands) {
    std::vector<int> numbers;
    for (const Device& device : island.devices) {
      if (device.shared) return {};
      numbers.push_back(device.number);
    }
    by_device.resize(by_device.size() + numbers.size(), numbers);
  }
  if (host.islands.size() < 2) return {};
  std::vector<std::vector<int>> found;
  for (const int index : indices)
    if (std::cmp_less(index, by_device.size()))
      found.push_back(by_device[static_cast<std::size_t>(index)]);
  return found;
}

}  // namespace

Controller::Controller(ControllerSetup setup, State state, History history)
    : setup_(std::move(setup)),
      state_(std::move(state)),
      history_(std::move(history)),
      queue_(setup_.policy),
      boot_(setup_.steady.boot()),
      costs_(costs_words(state_.map)),
      complaints_(setup_.clock) {}

Result<std::unique_ptr<Controller>> Controller::open(ControllerSetup setup) {
  TRY(check(setup.map));
  State state = TRY(setup.store.load());
  state.map = setup.map;
  state.engine_was_heard = false;
  History history = TRY(setup.history.load());
  auto controller = std::unique_ptr<Controller>(
      new Controller(std::move(setup), std::move(state), std::move(history)));
  TRY(controller->identify_store());
  TRY(controller->take_up());
  return controller;
}

// --- Which store this is ---

// A new store, or an older copy that was put back, gets a generation of its own.
Result<void> Controller::identify_store() {
  const std::int64_t missing = missing_in(state_.store, history_);
  if (missing > 0) {
    older_copy_ = format(
        "the store is an older copy: {} {} made since, of which it knows nothing; what is made "
        "from now on gets other names",
        missing, missing == 1 ? "run or attempt was" : "runs and attempts were");
    LS_LOG(warning, "{}", older_copy_);
  }
  if (setup_.home_is_copy)
    LS_LOG(info,
           "the daemon's folder was put back from a copy, or moved to another file system: what is "
           "made from now on gets other names");
  if (missing > 0 || setup_.home_is_copy || state_.store.generation.empty()) {
    const StoreRow named{setup_.history.new_generation(), 0};
    TRY(commit({named}));
    apply(state_, named);
  }
  remember(history_, state_);
  state_.numbers = history_.numbers;
  keep_history();
  return {};
}

// What could not be kept is tried again at the next tick.
void Controller::keep_history() {
  const auto kept = setup_.history.keep(history_);
  history_kept_ = kept.has_value();
  if (kept) {
    if (complaints_.over(kHistory)) LS_LOG(info, "the numbers of runs are kept again");
    return;
  }
  const auto words = format(
      "the numbers of runs are not kept beside the store, so that another store could give them "
      "again: {}",
      kept.error().message);
  if (complaints_.due(kHistory, words)) LS_LOG(warning, "{}", words);
}

// Before runs are stored. If the daemon died between the two, and the store was moved away then,
// another store would give their numbers again.
void Controller::keep_numbers(const std::vector<Change>& changes) {
  bool new_ones = false;
  for (const Change& change : changes) {
    const Run* run = std::get_if<Run>(&change);
    if (!run || run->id.number <= history_.numbers[run->id.project]) continue;
    remember(history_, {&change, 1});
    new_ones = true;
  }
  if (new_ones) keep_history();
}

// --- Until the engine has answered ---

bool Controller::time_to_ask() const {
  return !looked_ || setup_.steady.passed() - *looked_ >= pause_;
}

// An error only when the store takes no changes.
Result<void> Controller::take_up() {
  const auto there = ask_engine();
  pause_ = std::clamp(pause_ * 2, kAskFirst, kAskMost);
  if (!there) return {};
  TRY(see_orphans(*there));
  state_.engine_was_heard = true;
  launch_what_is_missing(*there);
  ready_ = true;
  return listen_again();
}

// Between the commit of a placement and the start of its agents the daemon may have died: what is
// allocated, not yet heard and not in the engine's list is launched now. But not what has begun and
// ended, as an older copy may not know; nor where another store's run goes on.
void Controller::launch_what_is_missing(const std::vector<Present>& there) {
  for_each_live_node(state_, [&](const Attempt& attempt, const Node& node) {
    if (node.state != NodeState::allocated || !starts(&attempt, node.id)) return;
    if (attempt.generation != state_.store.generation || meets_orphan(state_, node)) return;
    if (launching_.contains(node.id)) return;  // placed since, when an agent was heard
    const NodeName name = name_of(state_, node.id);
    if (std::ranges::find(there, name, &Present::node) != there.end()) return;
    if (setup_.engine.has_begun(name)) return;
    launching_.insert(node.id);
    effects_.push_back(LaunchNode{node.id});
  });
}

// --- What the store does not know ---

Result<void> Controller::see_orphans(const std::vector<Present>& there) {
  stranger_called_ = false;
  OrphansSeen seen;
  bool changed = false;
  for (const Present& present : there) {
    if (knows(state_, present.node)) continue;
    const auto known = state_.orphans.find(present.node);
    const bool is_new = known == state_.orphans.end() || !state_.engine_was_heard;
    seen.orphans.push_back(is_new ? orphan_of(present) : known->second);
    changed = changed || is_new || known->second.has_agent != present.has_agent;
    seen.orphans.back().has_agent = present.has_agent;
  }
  if (!changed && seen.orphans.size() == state_.orphans.size()) return {};
  const std::size_t before = state_.orphans.size();
  TRY(handle(seen));
  if (state_.orphans.size() != before) log_orphans();
  return {};
}

// By what it was launched with. What was launched before there were records takes its whole host.
Orphan Controller::orphan_of(const Present& present) const {
  Orphan orphan{.id = present.node, .has_agent = present.has_agent, .made = {}, .slice = {}};
  const auto launch = setup_.engine.launch_of(present.node);
  if (!launch) {
    LS_LOG(warning, "what {} is, which another store has started here, is not known: {}",
           text(present.node), launch.error().message);
    return orphan;
  }
  orphan.made = launch->attempt;
  const auto index = static_cast<std::size_t>(present.node.id.index);
  if (launch->attempt && index < launch->attempt->slices.size()) {
    orphan.slice = launch->attempt->slices[index];
    orphan.ends = launch->attempt->created + launch->time_left;
    return orphan;
  }
  orphan.slice.host = launch->host;
  if (const Host* host = find_host(state_.map, launch->host))
    for (int device = 0; std::cmp_less(device, device_count(*host)); ++device)
      orphan.slice.devices.push_back(device);
  orphan.ends = setup_.clock.now() + launch->time_left;
  return orphan;
}

std::vector<std::string> Controller::notices() const {
  auto lines = words_on_orphans(state_);
  if (!older_copy_.empty()) lines.insert(lines.begin(), older_copy_);
  return lines;
}

void Controller::log_orphans() const {
  const auto words = words_on_orphans(state_);
  for (const std::string& line : words) LS_LOG(warning, "{}", line);
  if (words.empty()) LS_LOG(info, "no run of another store goes on here any more");
}

Result<void> Controller::check_ready() const {
  if (ready_) return {};
  return Error{Code::unavailable,
               format("{}; until it can, nothing is started, stopped or resumed, and it is asked "
                      "again every {}",
                      joined(complaints_.current(), "; "), text(pause_))};
}

// Agents could not be heard, and can be from now on.
Result<void> Controller::listen_again() {
  TRY(handle(DaemonStarted{}));
  ticked_ = setup_.steady.passed();  // it may stand still before its first tick
  listening_since_ = setup_.clock.now();
  return {};
}

// --- The clock ---

// Comes before each decision: if the clock was set, all moments that are stored move with it.
Result<void> Controller::follow_clock() {
  const ClockRow clock{boot_, zero_of(setup_.clock, setup_.steady)};
  const auto by = set_by(state_.clock, clock);
  if (by == Duration(0)) return {};
  const auto changes = TRY(take(ClockRead{clock}));
  if (by) {
    listening_since_ += *by;
    LS_LOG(warning, "the clock was set {} by {}; no time limit is shortened or lengthened by that",
           *by > Duration(0) ? "forward" : "back", text(*by > Duration(0) ? *by : -*by));
  }
  notify(changes);
  return {};
}

// --- What happens ---

Result<RunId> Controller::submit(RunSpec spec, Origin origin, const std::string& request_id) {
  TRY(check_ready());
  auto shared = same_folder(spec.checkpoint_folder);
  const auto changes =
      TRY(handle(SubmitRun{std::move(spec), std::move(origin), request_id, std::move(shared)}));
  if (const auto made = state_.requests.find(request_id); made != state_.requests.end())
    return made->second;
  // The new run is the one row whose version is its first.
  for (const Change& change : changes)
    if (const Run* run = std::get_if<Run>(&change); run && run->version == 1) return run->id;
  return Error{Code::internal, "the run was not made"};
}

Result<void> Controller::stop(const RunId& run, const std::string& reason) {
  TRY(check_ready());
  TRY(handle(StopRun{run, reason}));
  return {};
}

Result<void> Controller::resume(const RunId& run) {
  TRY(check_ready());
  const auto found = state_.runs.find(run);
  TRY(handle(ResumeRun{run, found == state_.runs.end()
                                ? std::vector<RunId>()
                                : same_folder(checkpoint_folder(found->second))}));
  return {};
}

Result<void> Controller::change(const Event& event) {
  TRY(check_ready());
  TRY(handle(event));
  if (const auto* stop = std::get_if<StopOrphan>(&event))
    LS_LOG(info, "{} has {} end, a run of another store", stop->by.empty() ? "a user" : stop->by,
           text(stop->run));
  return {};
}

Result<Prospect> Controller::plan(const RunSpec& spec, const Origin& origin) const {
  return prospect_of(state_, {spec, origin, {}, same_folder(spec.checkpoint_folder)},
                     setup_.clock.now());
}

Result<Command> Controller::report(const NodeReport& report) {
  TRY(follow_clock());
  NodeReport heard = report;
  heard.listening_since = listening_since_;
  TRY(handle(heard));
  const NodeName name{report.generation, report.node};
  const Command command = command_for(state_, name);
  if (command.orphaned && !state_.orphans.contains(name)) stranger_called_ = true;
  return command;
}

void Controller::tick() {
  probe_store();
  if (!history_kept_) keep_history();
  if (!ready_ && time_to_ask()) (void)take_up();  // what it could not store, it says itself
  if (!ready_ || !follow_clock()) return;
  const Duration now = setup_.steady.passed();
  const bool stood_still = ticked_ && now - *ticked_ >= kStandstill;
  if ((stood_still || unheard_) && !listen_again()) return;
  if (stood_still) looked_.reset();
  unheard_ = false;
  ticked_ = now;
  // An event whose commit fails comes again at the next tick.
  look();
  // While the engine took its time nobody could be heard.
  if (setup_.steady.passed() - now >= kStandstill && !listen_again()) return;
  if (!follow_clock()) return;
  (void)handle(Tick{listening_since_});
}

fs::path Controller::checkpoint_folder(const Run& run) const {
  if (!run.spec.checkpoint_folder.empty()) return run.spec.checkpoint_folder;
  return run_folder(setup_.home, run.generation, run.id) / "checkpoints";
}

// The runs that have not ended and write there, by the paths alone: a look at a user's file system
// may hang. `lockstep run` resolves symbolic links before it submits.
std::vector<RunId> Controller::same_folder(const fs::path& folder) const {
  if (folder.empty()) return {};
  const fs::path home = setup_.home.lexically_normal();
  std::error_code failed;
  const fs::path resolved = fs::weakly_canonical(setup_.home, failed);
  const auto plain = [&](const fs::path& path) {
    const fs::path normal = (path / "").lexically_normal();
    const fs::path below = normal.lexically_relative(home);
    return failed || below.empty() || *below.begin() == ".." ? normal : resolved / below;
  };
  std::vector<RunId> found;
  for (const RunId& id : state_.open)
    if (plain(checkpoint_folder(state_.runs.at(id))) == plain(folder)) found.push_back(id);
  return found;
}

Result<std::vector<Change>> Controller::handle(const Event& event) {
  auto changes = TRY(decide(event));
  act();
  notify(changes);
  return changes;
}

Result<std::vector<Change>> Controller::decide(const Event& event) {
  TRY(follow_clock());
  return take(event);
}

// Persist, then apply; what is to be done is queued.
Result<std::vector<Change>> Controller::take(const Event& event) {
  Outcome outcome = TRY(step(queue_, state_, event, setup_.clock.now()));
  keep_numbers(outcome.changes);
  TRY(commit(outcome.changes));
  for (const Change& change : outcome.changes) apply(state_, change);
  const auto names_are_new = [](const Change& change) {
    return std::holds_alternative<StoreRow>(change);
  };
  if (std::ranges::any_of(outcome.changes, names_are_new)) {
    remember(history_, outcome.changes);
    state_.numbers = history_.numbers;
    keep_history();
  }
  for (const Effect& effect : outcome.effects)
    if (const auto* launch = std::get_if<LaunchNode>(&effect)) launching_.insert(launch->node);
  effects_.insert(effects_.end(), outcome.effects.begin(), outcome.effects.end());
  return std::move(outcome.changes);
}

Result<void> Controller::commit(const std::vector<Change>& changes) {
  if (changes.empty()) return {};
  auto committed = setup_.store.commit(changes);
  if (!committed) {
    unheard_ = true;
    queue_.forget();
  }
  note(committed);
  return committed;
}

void Controller::note(const Result<void>& stored) {
  if (stored) {
    refused_.reset();
    if (complaints_.over(kStore)) LS_LOG(info, "the store takes changes again");
    return;
  }
  refused_ = setup_.steady.passed();
  const auto words = format("nothing starts, ends or is resumed until it can be stored: {}",
                            stored.error().message);
  if (complaints_.due(kStore, words)) LS_LOG(error, "{}", words);
}

// While nothing happens nothing is committed, and nobody would learn that there is room again.
void Controller::probe_store() {
  if (!refused_ || setup_.steady.passed() - *refused_ < kProbeInterval) return;
  note(setup_.store.probe());
}

// A launch that fails is an event of its own, whose effects join the queue.
bool Controller::act() {
  if (!ready_) return false;
  const Duration begun = setup_.steady.passed();
  while (!effects_.empty()) {
    const Effect effect = std::move(effects_.front());
    effects_.pop_front();
    std::visit([&](const auto& what) { carry_out(what); }, effect);
    if (setup_.steady.passed() - begun >= kActAtOnce) break;
  }
  return !effects_.empty();
}

void Controller::carry_out(const LaunchNode& effect) {
  const auto node = state_.nodes.find(effect.node);
  LS_CHECK(node != state_.nodes.end(), "{}", text(effect.node));
  // Stopped meanwhile: then it is gone without ever having been there.
  if (!starts(live_attempt(state_, effect.node.attempt.run), effect.node)) {
    launching_.erase(effect.node);
    return;
  }
  auto launched = launch(node->second);
  launching_.erase(effect.node);
  if (launched) return;
  LS_LOG(warning, "launching {} failed: {}", text(effect.node), launched.error().message);
  // If that cannot be stored, a later tick finds the node gone: it is not in the engine's list.
  const bool ours = launched.error().code == Code::exhausted;
  if (auto changes = decide(LaunchFailed{effect.node, launched.error().message, ours}))
    notify(*changes);
}

Result<void> Controller::launch(const Node& node) {
  const Run& run = state_.runs.at(node.id.attempt.run);
  // A folder of the user's own choice may be one that only the nodes can see.
  if (run.spec.checkpoint_folder.empty()) TRY(make_folders(checkpoint_folder(run)));
  return setup_.engine.launch(launch_of(node));
}

void Controller::carry_out(const KillNode& effect) { kill(name_of(state_, effect.node)); }
void Controller::carry_out(const KillOrphan& effect) { kill(effect.node); }

void Controller::kill(const NodeName& node) {
  const auto killed = setup_.engine.kill(node);
  if (killed) {
    complaints_.over(kKill);
    return;
  }
  // Not repeated here: step() asks again every few seconds for as long as the node is there.
  const auto words = format("ending {} by force failed: {}", text(node.id), killed.error().message);
  if (complaints_.due(kKill, words)) LS_LOG(warning, "{}", words);
}

// While an attempt drains its end is awaited, so look at every tick; else once a second.
bool Controller::time_to_look() const {
  if (!looked_ || setup_.steady.passed() - *looked_ >= kLookInterval) return true;
  return std::ranges::any_of(state_.open, [&](const RunId& run) {
    const Attempt* attempt = live_attempt(state_, run);
    return attempt && attempt->state == AttemptState::draining;
  });
}

Result<std::vector<Present>> Controller::ask_engine() {
  looked_ = setup_.steady.passed();
  auto there = setup_.engine.list();
  if (there && complaints_.over(kEngine)) LS_LOG(info, "the engine says again what runs");
  if (there) return there;
  const auto words = format("the engine cannot say what runs: {}", there.error().message);
  if (complaints_.due(kEngine, words)) LS_LOG(warning, "{}", words);
  return there;
}

// What is gone, and whose agent is.
void Controller::look() {
  if (!time_to_look()) return;
  std::vector<NodeId> awaited;
  for_each_live_node(state_, [&](const Attempt&, const Node& node) {
    if (!launching_.contains(node.id)) awaited.push_back(node.id);
  });
  if (awaited.empty() && state_.orphans.empty() && !stranger_called_) return;
  const auto there = ask_engine();
  if (!there) return;
  (void)see_orphans(*there);  // what could not be stored comes again
  for (const NodeId& node : awaited) {
    const auto found = std::ranges::find(*there, name_of(state_, node), &Present::node);
    if (found == there->end())
      (void)handle(NodeGone{node});
    else if (!found->has_agent)
      (void)handle(AgentGone{node});
  }
}

Launch Controller::launch_of(const Node& node) const {
  const NodeName name = name_of(state_, node.id);
  const Run& run = state_.runs.at(node.id.attempt.run);
  const Host* host = find_host(state_.map, node.host);
  Launch launch;
  launch.node = text(node.id);
  launch.generation = name.generation;
  launch.attempt = record_of(state_, node.id.attempt);
  launch.host = node.host;
  launch.address = host ? address_of(*host) : node.host;
  const auto all = host ? devices(*host) : std::vector<const Device*>{};
  for (int index : node.devices) {
    const auto i = static_cast<std::size_t>(index);
    launch.devices.push_back(i < all.size() ? all[i]->number : index);
    launch.gpus = i < all.size() && all[i]->kind == DeviceKind::gpu;
  }
  if (host) launch.islands = islands_of(*host, node.devices);
  launch.first_rank = node.id.index * run.spec.devices;
  launch.world_size = rank_count(run.spec);
  launch.nodes = node_count(run.spec);
  launch.command = run.spec.command;
  launch.env = run.spec.env;
  if (!costs_.empty()) launch.env.emplace(kCostsVariable, costs_);  // unless the user has his own
  launch.working_folder = run.spec.working_folder;
  launch.checkpoint_folder = checkpoint_folder(run).string();
  launch.node_folder = node_folder(setup_.home, name).string();
  launch.daemon_file = (setup_.home / "daemon.json").string();
  launch.token = setup_.keys.agent_token(name.attempt());
  launch.secret = setup_.keys.attempt_secret(name.attempt());
  launch.hang_after = run.spec.hang_after;
  launch.on_failure = run.spec.on_failure;
  launch.time_left = run.spec.timeout - run.charged;
  launch.start_limit = kReadyLimit;
  return launch;
}

void Controller::notify(const std::vector<Change>& changes) const {
  std::set<RunId> touched;
  for (const Change& change : changes)
    if (auto run = std::visit([](const auto& row) { return run_of(row); }, change))
      touched.insert(std::move(*run));
  for (const RunId& run : touched)
    for (const Watcher& watcher : watchers_) watcher(run, state_.runs.at(run).version);
}

}  // namespace lockstep
