#include "platform/agent/agent_loop.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/environment.h"
#include "base/steady_clock.h"
#include "comm/flight/memory.h"
#include "net/crypto.h"
#include "platform/agent/link/flight_packing.h"
#include "platform/agent/link/profile_relay.h"
#include "platform/agent/ranks/rank_environment.h"
#include "platform/agent/ranks/rank_output.h"
#include "platform/agent/slurm_step.h"
#include "platform/agent/watch/network_errors.h"
#include "platform/host/log_rotation.h"
#include "platform/host/node_files.h"
#include "platform/host/rank_token.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Duration kAgentHeartbeatInterval = milliseconds(200);
constexpr int kNodesAtFullRate = 32;                         // more nodes send less often
constexpr Duration kAgentHeartbeatIntervalMax = seconds(2);  // far below the silence limit of nodes
constexpr Duration kPollTimeoutMax = seconds(1);
constexpr Duration kLogCheckInterval = seconds(1);
// Between the signal to a rank and that to its agent, if one system sends both.
constexpr Duration kOwnSignalMargin = seconds(1);
constexpr Duration kPollRetryDelay = milliseconds(10);  // if the kernel has no memory for poll()

Result<Fd> open_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, number);
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return os_error("making a signalfd", errno);
  return signals;
}

// On a clock that does not jump.
Duration moment() { return MonotonicClock().since_boot(); }

model::ClockRow read_clock() {
  const MonotonicClock steady;
  return {steady.boot_id(), wall_time_at_boot(SystemClock(), steady)};
}

// A daemon has checked it.
std::optional<model::LimitSignal> signal_of(const host::LaunchSpec& launch) {
  if (!launch.signal) return std::nullopt;
  const auto signal = model::parse_limit_signal(*launch.signal);
  return signal ? std::optional(*signal) : std::nullopt;
}

AgentSettings settings_of(const host::LaunchSpec& launch, const model::NodeId& node,
                          const model::ClockRow& clock) {
  return {.first_rank = launch.first_rank,
          .nodes = launch.nodes,
          .hang_after = launch.hang_after,
          .time_left = launch.time_left,
          .signal = signal_of(launch),
          .start_limit = launch.start_limit,
          .lease = launch.lease,
          .on_failure = launch.on_failure,
          .prepares_environment = launch.software || FileFetch::is_needed(launch, node),
          .clock_zero = clock.zero};
}

// The folders of all nodes, as far as this host sees them: the nodes of an attempt have sibling
// folders. Or the folder that the user has set.
std::vector<std::filesystem::path> flight_folders(const host::LaunchSpec& launch) {
  if (const auto named = launch.env.find(std::string(comm::kFlightFolderVariable));
      named != launch.env.end())
    return {named->second};
  const std::filesystem::path own = launch.node_folder;
  std::vector<std::filesystem::path> folders = {host::NodeFiles{own}.flight()};
  for (int node = 1; node < launch.nodes; ++node)
    folders.push_back(host::NodeFiles{own.parent_path() / host::node_folder_name(node)}.flight());
  return folders;
}

FlightSource flight_source_of(const host::LaunchSpec& launch) {
  return {.folder = flight_folders(launch).front(),
          .is_shared = launch.env.contains(std::string(comm::kFlightFolderVariable)),
          .first_rank = launch.first_rank,
          .ranks = static_cast<int>(launch.devices.size()),
          .since = SystemClock().now()};
}

// LOCKSTEP_TENSORBOARD=0 leaves them alone.
bool wants_event_files(const host::LaunchSpec& launch) {
  const auto set = launch.env.find("LOCKSTEP_TENSORBOARD");
  return set == launch.env.end() || set->second != "0";
}

Duration heartbeat_interval(int nodes) {
  return std::min(kAgentHeartbeatIntervalMax,
                  kAgentHeartbeatInterval * std::max(1, nodes / kNodesAtFullRate));
}

}  // namespace

Result<std::unique_ptr<AgentLoop>> AgentLoop::open(const host::LaunchSpec& launch,
                                                   const model::NodeId& node, std::string token,
                                                   DaemonLink& link) {
  auto launcher = TRY(RankLauncher::open(launch, node, token));
  auto signals = TRY(open_signals());
  std::unique_ptr<AgentLoop> loop(
      new AgentLoop(launch, node, std::move(launcher), std::move(token), std::move(signals)));
  TRY(loop->open_streams());
  auto spool = TRY(spool::Spool::open(loop->launcher_->own_files().spool(), {}));
  loop->stream_service_ = std::make_unique<StreamService>(
      [&link](const std::string& id) { return link.open_stream(id); },
      [raw = loop.get()] { return raw->shells_.start(); });
  loop->heartbeat_sender_ = TRY(HeartbeatSender::start(
      link, std::move(spool), loop->status(),
      {.heartbeat_interval = heartbeat_interval(launch.nodes),
       .refusal_limit = launch.refusal_limit},
      [source = flight_source_of(launch)] { return pack_flight_records(source); },
      ProfileRelay(loop->launcher_->own_files().profile()),
      [raw = loop.get()](const api::HeartbeatAnswer& answer) {
        raw->shells_.handle_order(answer.shell);
        return raw->stream_service_->open(answer.streams);
      }));
  TRY(loop->prepare_environment());
  return loop;
}

namespace {

std::vector<std::string> rank_tokens(const host::LaunchSpec& launch, const model::NodeId& node) {
  std::vector<std::string> tokens;
  for (int local = 0; local < static_cast<int>(launch.devices.size()); ++local)
    tokens.push_back(host::rank_token(
        {{launch.generation, node.attempt}, launch.first_rank + local}, launch.token));
  return tokens;
}

}  // namespace

AgentLoop::AgentLoop(const host::LaunchSpec& launch, const model::NodeId& node,
                     std::unique_ptr<RankLauncher> launcher, std::string token, Fd signals)
    : launch_(launch),
      node_(node),
      clock_(read_clock()),
      signals_(std::move(signals)),
      launcher_(std::move(launcher)),
      streams_({.lines = [this](int local_rank,
                                std::string lines) { handle_lines(local_rank, std::move(lines)); },
                .report =
                    [this](int local_rank, RankReport any) {
                      std::visit([&](auto& each) { handle_report(local_rank, std::move(each)); },
                                 any);
                    }},
               mask_of(launch.env, launch.secret_variables, rank_tokens(launch, node))),
      shells_(launch, node, std::move(token)),
      memory_kills_(MemoryKills::of_own_cgroup(launch.attempt ? launch.attempt->spec.needs.memory
                                                              : Bytes(0))),
      state_(settings_of(launch, node, clock_)),
      shares_signals_(is_slurm_step(own_environment())) {}

Result<void> AgentLoop::open_streams() {
  for (int local = 0; local < static_cast<int>(launch_.devices.size()); ++local) {
    const int rank = launch_.first_rank + local;
    TRY(streams_.add(rank, launcher_->own_files().rank_log(rank), launcher_->report_socket(local)));
  }
  return {};
}

void AgentLoop::run() {
  while (!exiting_) run_once();
  LS_LOG(info, "leaving");
  heartbeat_sender_.reset();
}

// --- Observation ---

void AgentLoop::run_once() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0},
                                {heartbeat_sender_->wake_fd(), POLLIN, 0}};
  polled.push_back({preparation_ ? preparation_->fd() : -1, POLLIN, 0});
  polled.push_back({files_ ? files_->fd() : -1, POLLIN, 0});
  const std::size_t first_rank_fd = polled.size();
  const std::vector<std::pair<int, int>> rank_fds = streams_.fds();
  for (const auto& [fd, local_rank] : rank_fds) polled.push_back({fd, POLLIN, 0});
  const auto wait = std::chrono::ceil<milliseconds>(poll_timeout());
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
    ::usleep(kPollRetryDelay.count());

  if (polled[0].revents != 0) read_signals();
  int last = -1;
  for (std::size_t i = 0; i < rank_fds.size(); ++i) {
    if (polled[first_rank_fd + i].revents == 0 || rank_fds[i].second == last) continue;
    last = rank_fds[i].second;
    streams_.read(last);
  }
  if (polled[1].revents != 0) {
    heartbeat_sender_->clear_wake();
    const DaemonOrders orders = heartbeat_sender_->orders();
    handle(CommandReceived{orders.command, orders.refused});
  }
  if (files_) check_files();
  if (preparation_) check_preparation();
  if (next_log_check_.passed()) limit_log_size();
  if (streams_.pass_on_due_lines()) carry_out(ReportStatus{});
  handle(TimePassed{heartbeat_sender_->time_since_answer(), heartbeat_sender_->all_delivered(),
                    heartbeat_sender_->time_since_contact()});
  check_stragglers();
  pass_on_telemetry();
  watch_event_files();
}

Duration AgentLoop::poll_timeout() const {
  Duration least = kPollTimeoutMax;
  const Duration now = moment();
  if (const auto next = next_deadline(state_, now)) least = std::min(least, *next - now);
  if (const auto due = streams_.time_until_due()) least = std::min(least, *due);
  if (stragglers_) least = std::min(least, stragglers_->due().remaining());
  if (event_files_) least = std::min(least, event_files_->due().remaining());
  return std::max(least, Duration(0));
}

// The files come first: a check of the environment may need them.
Result<void> AgentLoop::prepare_environment() {
  if (FileFetch::is_needed(launch_, node_))
    files_ = TRY(FileFetch::start(launch_, node_));
  else if (launch_.software)
    start_preparation();
  return {};
}

void AgentLoop::check_files() {
  if (state_.phase != Phase::preparing) files_->stop();
  const auto fetched = files_->take_result();
  if (!fetched || state_.phase != Phase::preparing) return;
  if (!fetched->error.empty())
    return handle(EnvironmentPrepared{fetched->error, fetched->is_missing});
  if (!fetched->note.empty() && node_.index == 0) {
    add_item(spool::TelemetryKind::event, launch_.first_rank, fetched->note);
    add_item(spool::TelemetryKind::log, launch_.first_rank, "lockstep: " + fetched->note);
  }
  if (launch_.software) return start_preparation();
  handle(EnvironmentPrepared{});
}

void AgentLoop::start_preparation() {
  preparation_ = SoftwarePreparation::start(launch_, launcher_->preparation_setting(),
                                            user_environment(launch_, base_environment()));
}

void AgentLoop::check_preparation() {
  auto result = preparation_->take_result();
  if (!result || state_.phase != Phase::preparing) return;
  if (!*result)
    return handle(
        EnvironmentPrepared{result->error().message, result->error().code == Code::not_found});
  if ((*result)->container != 0) processes_.set_apart_running();
  if (!(*result)->wrapper.empty()) processes_.expect_wrappers();
  launcher_->set_software(**std::move(result));
  handle(EnvironmentPrepared{});
}

void AgentLoop::read_signals() {
  take_signals();
  collect_ended_ranks();
}

// True if one of them asks the agent to end.
bool AgentLoop::take_signals() {
  bool is_to_end = false;
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    is_to_end = true;
    handle(AgentSignalled{static_cast<int>(info.ssi_signo)});
  }
  return is_to_end;
}

// A rank that saves and ends by the signal has not ended by itself.
void AgentLoop::await_own_signal() {
  if (!shares_signals_ || state_.stop_reason != model::StopReason::none) return;
  for (const auto end = Deadline::after(kOwnSignalMargin); !end.passed();) {
    pollfd polled{signals_.get(), POLLIN, 0};
    const auto wait = std::chrono::ceil<milliseconds>(end.remaining());
    if (::poll(&polled, 1, static_cast<int>(wait.count())) > 0 && take_signals()) return;
  }
}

// Output of a rank about its end must be reported before the end.
void AgentLoop::collect_ended_ranks() {
  streams_.read_all();
  auto ends = processes_.reap();
  if (ends.empty()) return;
  await_own_signal();
  // Signals of these may have been read meanwhile.
  std::ranges::move(processes_.reap(), std::back_inserter(ends));
  const bool out_of_memory = memory_kills_.increased();
  for (RankEnd& end : ends) {
    end.out_of_memory =
        out_of_memory && end.state == model::RankState::killed && end.code == SIGKILL;
    if (end.out_of_memory) end.memory_limit = memory_kills_.node_limit();
  }
  handle(RanksEnded{std::move(ends)});
}

void AgentLoop::handle_lines(int local_rank, std::string lines) {
  for (std::string_view rest = lines; !rest.empty();) {
    const auto end = std::min(rest.find('\n'), rest.size());
    const auto line = rest.substr(0, end);
    if (const report::Fault fault = network_fault_in(line); fault != report::Fault::none)
      handle(FaultPrinted{local_rank, fault, std::string(line)});
    rest.remove_prefix(std::min(rest.size(), end + 1));
  }
  add_item(spool::TelemetryKind::log, launch_.first_rank + local_rank, std::move(lines));
}

void AgentLoop::handle_report(int local_rank, spool::TelemetryItem item) {
  handle(ProgressReported{local_rank, item.step});
  heartbeat_sender_->set_step(item.rank, item.step);
  heartbeat_sender_->add(std::move(item));
}

void AgentLoop::handle_report(int local_rank, const FaultReport& report) {
  handle(FaultReported{local_rank, report.fault, report.rank, report.text});
}

// One record per call, so that the loop is not delayed.
void AgentLoop::check_stragglers() {
  if (state_.phase != Phase::running) return stragglers_.reset();
  if (!stragglers_ || !stragglers_->due().passed()) return;
  for (const auto& [rank, description] : stragglers_->poll()) {
    LS_LOG(warning, "{}", description);
    add_item(spool::TelemetryKind::event, rank, description);
  }
}

void AgentLoop::pass_on_telemetry() {
  if (telemetry_) add_items(telemetry_->take());
}

void AgentLoop::watch_event_files() {
  if (event_files_ && event_files_->due().passed()) add_items(event_files_->poll());
}

void AgentLoop::add_items(std::vector<spool::TelemetryItem> items) {
  for (spool::TelemetryItem& item : items) heartbeat_sender_->add(std::move(item));
}

void AgentLoop::limit_log_size() {
  next_log_check_ = Deadline::after(kLogCheckInterval);
  if (auto bounded = host::rotate_own_log(launcher_->own_files().agent_log(), host::kAgentLogMax);
      !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

// --- The core ---

void AgentLoop::handle(const Event& event) {
  for (const Effect& effect : step(state_, event, moment()))
    std::visit([&](const auto& each) { carry_out(each); }, effect);
}

void AgentLoop::carry_out(const StartRanks& effect) {
  RanksStarted started;
  auto done = launcher_->check_working_folder();
  started.is_missing = !done;
  if (done) done = launcher_->prepare(effect.command);
  for (int local = 0; done && local < static_cast<int>(launch_.devices.size()); ++local) {
    done = start_rank(local);
    if (done) started.pids.push_back(processes_.pid(local));
  }
  if (!done) started.error = done.error().message;
  if (done) shells_.set_session(launcher_->shell_session());
  if (done && node_.index == 0 && launch_.world_size > 1)
    stragglers_.emplace(flight_folders(launch_), launch_.straggler_check_interval);
  if (done && launch_.telemetry_interval > Duration(0)) telemetry_.emplace(watched_node(launch_));
  if (done && wants_event_files(launch_))
    event_files_.emplace(launch_.first_rank,
                         std::vector<pid_t>(started.pids.begin(), started.pids.end()),
                         launcher_->own_files().media());
  handle(started);
}

Result<void> AgentLoop::start_rank(int local_rank) {
  streams_.set_pipe(local_rank,
                    TRY(processes_.start(launcher_->program_of(local_rank, /*is_restart=*/false))));
  return {};
}

void AgentLoop::carry_out(const RestartRank& effect) {
  streams_.read(effect.local_rank);  // its last output
  auto output = processes_.restart(effect.local_rank,
                                   launcher_->program_of(effect.local_rank, /*is_restart=*/true));
  if (!output) return handle(RestartFailed{effect.local_rank, output.error().message});
  streams_.set_pipe(effect.local_rank, *std::move(output));
  if (event_files_) event_files_->set_pid(effect.local_rank, processes_.pid(effect.local_rank));
  handle(RankRestarted{effect.local_rank, processes_.pid(effect.local_rank)});
}

void AgentLoop::carry_out(const CheckRanks&) {
  collect_ended_ranks();
  handle(processes_.check(moment()));
}

void AgentLoop::carry_out(const SignalRanks& effect) { processes_.signal(effect.signal); }

void AgentLoop::carry_out(const KillLeftovers&) {
  const std::vector<pid_t> left = processes_.processes();
  for (pid_t pid : left) ::kill(pid, SIGKILL);
  handle(LeftoversChecked{{left.begin(), left.end()}, streams_.all_closed()});
}

void AgentLoop::carry_out(const FinishStreams&) {
  streams_.finish();
  pass_on_telemetry();
  telemetry_.reset();
  if (event_files_) add_items(event_files_->finish());
  event_files_.reset();
}

void AgentLoop::carry_out(const ReportStatus&) { heartbeat_sender_->set_status(status()); }

void AgentLoop::carry_out(const AddEvent& effect) {
  add_item(spool::TelemetryKind::event, effect.rank, effect.text);
}

void AgentLoop::carry_out(const AddLogLine& effect) {
  add_item(spool::TelemetryKind::log, effect.rank, effect.text);
}

void AgentLoop::carry_out(const NotifyPeers& effect) {
  if (const auto secret = net::Secret::from_hex(launch_.secret);
      secret && !launcher_->rendezvous().empty())
    failure_notifier_.send(launcher_->rendezvous(), *secret, effect.rank);
}

void AgentLoop::carry_out(const LogLastLines& effect) {
  const int rank = launch_.first_rank + effect.local_rank;
  const std::string lines = last_lines(launcher_->own_files().rank_log(rank));
  if (!lines.empty()) LS_LOG(error, "the last lines of rank {}:\n{}", rank, lines);
}

void AgentLoop::carry_out(const WriteLog& effect) {
  if (log_enabled(effect.level)) log_line(effect.level, effect.text);
}

void AgentLoop::carry_out(const Exit&) { exiting_ = true; }

void AgentLoop::add_item(spool::TelemetryKind kind, int rank, std::string text) {
  heartbeat_sender_->add(
      {.kind = kind, .rank = rank, .time = SystemClock().now(), .text = std::move(text)});
}

api::Heartbeat AgentLoop::status() const {
  api::Heartbeat status;
  status.node = text(node_);
  status.state = state_.node_state;
  status.address = launcher_->address();
  status.master_port = launcher_->master_port();
  status.rendezvous_port = launcher_->rendezvous_port();
  status.agent_pid = ::getpid();
  status.incarnation = incarnation_;
  status.machine = machine_;
  status.agent_started = started_;
  status.stop_reason = state_.stop_reason;
  status.message = state_.message;
  status.nccl_network = launcher_->nccl_network().reason;
  status.ranks = state_.ranks.all();
  status.boot = clock_.boot;
  status.clock_zero = clock_.zero;
  if (const auto since = state_.idle_watch.idle_since())
    status.idle_since = state_.settings.clock_zero + *since;
  status.unfinished = streams_.unfinished();
  return status;
}

}  // namespace lockstep::agent
