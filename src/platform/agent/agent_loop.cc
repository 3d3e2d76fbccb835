#include "platform/agent/agent_loop.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/files.h"
#include "base/steady_clock.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/address/port_range.h"
#include "comm/flight/memory.h"
#include "net/crypto.h"
#include "net/http/url.h"
#include "platform/agent/link/flight_packing.h"
#include "platform/agent/ranks/rank_binding.h"
#include "platform/agent/watch/network_errors.h"
#include "platform/host/log_rotation.h"

namespace lockstep::agent {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kAgentHeartbeatInterval = milliseconds(200);
constexpr int kNodesAtFullRate = 32;                         // more nodes send less often
constexpr Duration kAgentHeartbeatIntervalMax = seconds(2);  // far below the silence limit of nodes
constexpr Duration kFlush = milliseconds(100);
constexpr Duration kUnfinishedInterval = seconds(1);
constexpr Duration kUnattendedStopDelay = seconds(5);
constexpr int kRankRestartsMax = 3;  // of all ranks of a node; then they stay down
constexpr Duration kUnattendedHangLimit = minutes(1);
constexpr Duration kKillRetryInterval = milliseconds(100);
constexpr Duration kLeftoverCheckInterval = milliseconds(20);
constexpr Duration kLeftoverTimeMax = seconds(10);
constexpr Duration kExitWaitMax = hours(24);
constexpr Duration kLastItemsMax = minutes(5);
constexpr Duration kPollTimeoutMax = seconds(1);
constexpr Duration kLogCheckInterval = seconds(1);
constexpr Duration kActivityCheckInterval = seconds(2);
constexpr Duration kPollRetryDelay = milliseconds(10);  // if the kernel has no memory for poll()
constexpr int kReadsAtOnce = 4;                         // of 64 KiB; then the other ranks are read

Result<Fd> open_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, number);
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return os_error("making a signalfd", errno);
  return signals;
}

bool passed(const std::optional<Deadline>& deadline) { return deadline && deadline->passed(); }

// On a clock that does not jump.
Duration moment() { return MonotonicClock().since_boot(); }

model::ClockRow read_clock() {
  const MonotonicClock steady;
  return {steady.boot_id(), wall_time_at_boot(SystemClock(), steady)};
}

// The folders of all nodes, as far as this host sees them: the nodes of an attempt have sibling
// folders. Or the folder that the user has set.
std::vector<std::filesystem::path> flight_folders(const engine::LaunchSpec& launch) {
  if (const auto named = launch.env.find(std::string(comm::kFlightFolderVariable));
      named != launch.env.end())
    return {named->second};
  const std::filesystem::path own = launch.node_folder;
  std::vector<std::filesystem::path> folders = {host::NodeFiles{own}.flight()};
  for (int node = 1; node < launch.nodes; ++node)
    folders.push_back(host::NodeFiles{own.parent_path() / host::node_folder_name(node)}.flight());
  return folders;
}

FlightSource flight_source_of(const engine::LaunchSpec& launch) {
  return {.folder = flight_folders(launch).front(),
          .is_shared = launch.env.contains(std::string(comm::kFlightFolderVariable)),
          .first_rank = launch.first_rank,
          .ranks = static_cast<int>(launch.devices.size()),
          .since = SystemClock().now()};
}

Duration heartbeat_interval(int nodes) {
  return std::min(kAgentHeartbeatIntervalMax,
                  kAgentHeartbeatInterval * std::max(1, nodes / kNodesAtFullRate));
}

}  // namespace

// --- Getting ready ---

Result<std::unique_ptr<AgentLoop>> AgentLoop::open(const engine::LaunchSpec& launch,
                                                   const model::NodeId& node, std::string token,
                                                   DaemonLink& link) {
  auto port = TRY(net::ReservedPort::open());
  auto sockets = TRY(SocketFolder::create(token));
  auto signals = TRY(open_signals());
  std::unique_ptr<AgentLoop> loop(new AgentLoop(launch, node, std::move(token), std::move(port),
                                                std::move(sockets), std::move(signals)));
  TRY(loop->write_secret());
  TRY(loop->open_rendezvous());
  TRY(loop->open_rank_streams());
  auto spool = TRY(spool::Spool::open(loop->own_files().spool(), {}));
  loop->heartbeat_sender_ = TRY(HeartbeatSender::start(
      link, std::move(spool), loop->status(),
      {.heartbeat_interval = heartbeat_interval(launch.nodes),
       .refusal_limit = launch.refusal_limit},
      [source = flight_source_of(launch)] { return pack_flight_records(source); }));
  return loop;
}

AgentLoop::AgentLoop(const engine::LaunchSpec& launch, const model::NodeId& node, std::string token,
                     net::ReservedPort port, SocketFolder sockets, Fd signals)
    : launch_(launch),
      node_(node),
      files_{launch.node_folder},
      folder_(launch.node_folder),
      token_(std::move(token)),
      port_(std::move(port)),
      sockets_(std::move(sockets)),
      signals_(std::move(signals)),
      clock_(read_clock()),
      ranks_(launch.first_rank, launch.hang_after, clock_.zero) {}

AgentLoop::~AgentLoop() { ::unlink(own_files().secret().c_str()); }

std::filesystem::path AgentLoop::report_path(int local_rank) const {
  return host::report_socket(sockets_.path(), launch_.first_rank + local_rank);
}

Result<void> AgentLoop::write_secret() const {
  return write_file(own_files().secret(), launch_.secret);
}

Result<void> AgentLoop::open_rendezvous() {
  if (node_.index != 0) return {};
  const auto secret = TRY(net::Secret::from_hex(launch_.secret));
  const auto network = TRY(comm::network_options_from_environment(launch_.env));
  rendezvous_ = TRY(comm::on_free_port(launch_.address, network.ports, [&](std::uint16_t port) {
    return comm::RendezvousServer::start(launch_.address, port, secret,
                                         {.connection_timeout = network.connection_timeout},
                                         port_.number());
  }));
  return {};
}

// The port of torch's store on this host's loopback: rank 0's own, or that of the forwarder. 0 if
// MASTER_ADDR is loopback itself.
Result<int> AgentLoop::open_store() {
  if (net::is_loopback(start_command_.master_address)) return 0;
  if (node_.index == 0) return port_.number();
  forwarder_ = TRY(comm::PortForwarder::start(
      start_command_.rendezvous, TRY(net::Secret::from_hex(launch_.secret)),
      TRY(comm::network_options_from_environment(launch_.env)).connection_timeout));
  return forwarder_->port();
}

Result<void> AgentLoop::open_rank_streams() {
  for (int local = 0; local < static_cast<int>(launch_.devices.size()); ++local) {
    const int rank = launch_.first_rank + local;
    auto log = [this, rank, local](std::string lines) {
      scan_for_faults(local, lines);
      heartbeat_sender_->add({.kind = spool::TelemetryKind::log,
                              .rank = rank,
                              .time = SystemClock().now(),
                              .text = std::move(lines)});
    };
    auto report = [this, local](RankReport any) {
      std::visit([&](auto& each) { handle_report(local, std::move(each)); }, any);
    };
    rank_streams_.push_back(
        {.rank = rank,
         .pipe = Fd(),
         .output = TRY(RankOutput::open(own_files().rank_log(rank), std::move(log))),
         .reports = TRY(ReportSocket::open(report_path(local), rank, report))});
  }
  return {};
}

void AgentLoop::handle_report(int local_rank, spool::TelemetryItem item) {
  ranks_.record_progress(local_rank, item.step, moment());
  if (phase_ == Phase::running) start_running_time();
  heartbeat_sender_->set_step(item.rank, item.step);
  heartbeat_sender_->add(std::move(item));
}

void AgentLoop::handle_report(int local_rank, const FaultReport& report) {
  ranks_.record_fault(local_rank, report);
}

// --- The loop ---

void AgentLoop::run() {
  while (!may_exit()) run_once();
  LS_LOG(info, "leaving");
  heartbeat_sender_.reset();
}

void AgentLoop::run_once() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0},
                                {heartbeat_sender_->wake_fd(), POLLIN, 0}};
  std::vector<RankStreams*> owners = {nullptr, nullptr};
  for (RankStreams& source : rank_streams_) {
    std::vector<int> fds = source.reports.fds();
    if (source.pipe) fds.push_back(source.pipe.get());
    for (int fd : fds) {
      polled.push_back({fd, POLLIN, 0});
      owners.push_back(&source);
    }
  }
  const auto wait = std::chrono::ceil<milliseconds>(poll_timeout());
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
    ::usleep(kPollRetryDelay.count());

  if (polled[0].revents != 0) read_signals();
  RankStreams* last = nullptr;  // the fds of one rank are adjacent
  for (std::size_t i = 2; i < polled.size(); ++i) {
    if (polled[i].revents == 0 || owners[i] == last) continue;
    last = owners[i];
    read_streams(*last);
  }
  if (polled[1].revents != 0) apply_orders();
  check_deadlines();
}

Duration AgentLoop::poll_timeout() const {
  Duration least = kPollTimeoutMax;
  for (const auto& deadline : {time_out_, unattended_stop_, next_kill_, flush_,
                               next_unfinished_report_, next_leftover_check_, leftover_deadline_})
    if (deadline) least = std::min(least, deadline->remaining());
  // Before that phase it may have passed while a rank is stuck in the kernel: the loop would spin.
  if (exit_deadline_ && phase_ == Phase::ended)
    least = std::min(least, exit_deadline_->remaining());
  if (const auto next = ranks_.next_stall(moment())) least = std::min(least, *next);
  if (stragglers_) least = std::min(least, stragglers_->due().remaining());
  return least;
}

void AgentLoop::read_streams(RankStreams& source) {
  source.reports.read();
  char buffer[1 << 16];
  for (int i = 0; source.pipe && i < kReadsAtOnce; ++i) {
    ssize_t n = ::read(source.pipe.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0)
      source.pipe.reset();
    else
      source.output.add_bytes({buffer, static_cast<std::size_t>(n)});
  }
  if (!flush_ && source.output.has_lines()) flush_ = Deadline::after(kFlush);
  if (!next_unfinished_report_ && !source.output.unfinished_line().empty())
    next_unfinished_report_ = Deadline::after(kUnfinishedInterval);
}

void AgentLoop::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    LS_LOG(warning, "the agent got signal {}", info.ssi_signo);
    begin_stop(model::StopReason::signal,
               format("the agent was asked to end by signal {}", info.ssi_signo));
  }
  read_all_streams();
  if (ranks_.reap(moment())) handle_ended_ranks();
}

// Output of a rank about its end must be reported before the end.
void AgentLoop::read_all_streams() {
  for (RankStreams& source : rank_streams_) {
    read_streams(source);
    source.output.flush();
  }
}

void AgentLoop::scan_for_faults(int local_rank, std::string_view lines) {
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const auto line = lines.substr(0, end);
    if (const report::Fault fault = network_fault_in(line); fault != report::Fault::none)
      ranks_.record_printed_fault(local_rank, fault, line, moment());
    lines.remove_prefix(std::min(lines.size(), end + 1));
  }
}

void AgentLoop::apply_orders() {
  heartbeat_sender_->clear_wake();
  orders_ = heartbeat_sender_->orders();
  const model::Command& command = orders_.command;
  const bool leave = orders_.refused || command.kind == model::CommandKind::leave;
  if (leave && !std::exchange(exit_ordered_, true)) exit_deadline_ = Deadline::after(kLastItemsMax);
  if (leave && phase_ < Phase::cleaning_up) return kill_ranks();
  if (command.kind == model::CommandKind::start || command.kind == model::CommandKind::stop)
    grace_ = command.grace;
  if (command.kind == model::CommandKind::start && phase_ == Phase::running) await_other_nodes();
  if (command.kind == model::CommandKind::start && phase_ == Phase::waiting) start_ranks(command);
  if (command.kind == model::CommandKind::none && phase_ == Phase::running) grant_full_time_limit();
  if (command.kind == model::CommandKind::stop) begin_stop(model::StopReason::none, "");
}

void AgentLoop::check_deadlines() {
  if (next_log_check_.passed()) limit_log_size();
  if (passed(flush_)) flush_output();
  if (passed(next_unfinished_report_)) report_unfinished();
  if (passed(time_out_)) begin_stop(model::StopReason::timeout, "time-out");
  if (passed(unattended_stop_)) begin_stop(model::StopReason::none, "");
  if (phase_ == Phase::stopping && passed(next_kill_)) kill_ranks();
  if (phase_ == Phase::cleaning_up && passed(next_leftover_check_)) kill_leftovers();
  if (phase_ == Phase::running) check_progress();
  if (phase_ == Phase::running && next_activity_check_.passed()) check_activities();
  if (phase_ == Phase::running) check_stragglers();
}

void AgentLoop::limit_log_size() {
  next_log_check_ = Deadline::after(kLogCheckInterval);
  if (auto bounded = host::rotate_own_log(own_files().agent_log(), host::kAgentLogMax); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

// The daemon decides about a rank that hangs. While it is away, the agent stops the ranks, so that
// they do not hold devices for nothing.
void AgentLoop::check_progress() {
  if (ranks_.update_stalled(moment())) report_status();
  const model::Rank* rank = ranks_.first_stalled();
  if (rank == nullptr ||
      heartbeat_sender_->time_since_answer() < std::min(launch_.hang_after, kUnattendedHangLimit))
    return;
  begin_stop(model::StopReason::no_progress,
             format("rank {} has made no progress since step {}, and the daemon does not answer",
                    rank->rank, rank->step));
}

// A stopped or blocked rank is reported before its peers give up on it.
void AgentLoop::check_activities() {
  next_activity_check_ = Deadline::after(kActivityCheckInterval);
  if (ranks_.update_activities()) report_status();
}

// One record per call, so that the loop is not delayed.
void AgentLoop::check_stragglers() {
  if (!stragglers_ || !stragglers_->due().passed()) return;
  for (const auto& [rank, description] : stragglers_->poll()) {
    LS_LOG(warning, "{}", description);
    add_event(rank, description);
  }
}

bool AgentLoop::may_exit() const {
  if (phase_ != Phase::ended) return false;
  if (orders_.refused || passed(exit_deadline_)) return true;
  return orders_.command.kind == model::CommandKind::leave && heartbeat_sender_->all_delivered();
}

// --- Ranks ---

void AgentLoop::start_ranks(const model::Command& command) {
  start_command_ = command;
  for (std::size_t i = 0; i < rank_streams_.size(); ++i) {
    auto started = start_rank(rank_streams_[i], static_cast<int>(i));
    if (started) continue;
    LS_LOG(error, "rank {}: {}", rank_streams_[i].rank, started.error().message);
    phase_ = Phase::running;  // as far as possible
    message_ = format("rank {}: {}", rank_streams_[i].rank, started.error().message);
    state_ = model::NodeState::stopping;
    return kill_ranks();
  }
  phase_ = Phase::running;
  state_ = model::NodeState::running;
  if (node_.index == 0 && launch_.world_size > 1)
    stragglers_.emplace(flight_folders(launch_), launch_.straggler_check_interval);
  await_other_nodes();
  if (launch_.nodes == 1) start_running_time();
  LS_LOG(info, "started {} ranks", rank_streams_.size());
  report_status();
}

// While the daemon sends `start`, some ranks of other nodes do not run yet. If it goes away, its
// last `start` is the last that any node received, and ranks start within the start limit. After
// that either all run, or some never will. Nodes then must not wait forever only because the daemon
// does not count their time.
void AgentLoop::await_other_nodes() {
  if (running_end_ || launch_.time_left <= Duration(0)) return;
  time_out_ = Deadline::after(launch_.start_limit + launch_.time_left);
}

// Starts the running time when all nodes' ranks run, as the daemon counts it. If the daemon goes
// away after only some nodes got `start`, the run loses no time. If it goes away before it could
// send `none`, the first report of a rank starts the time: a rank that makes steps has its peers.
// Peers that come after their start limit do not extend the wait limit while no daemon could end
// them. Repeated calls have no effect.
void AgentLoop::start_running_time() {
  if (launch_.time_left <= Duration(0)) return;
  if (!running_end_) running_end_ = Deadline::after(launch_.time_left);
  if (!time_out_ || running_end_->at() < time_out_->at()) time_out_ = running_end_;
}

// The daemon is there and all nodes' ranks run: they have their whole time limit, however late they
// started.
void AgentLoop::grant_full_time_limit() {
  start_running_time();
  time_out_ = running_end_;
}

ProcessSpec AgentLoop::program_of(int local_rank, bool is_restart) const {
  const RankLaunchInfo launch_info{.master_address = start_command_.master_address,
                                   .master_port = start_command_.master_port,
                                   .store_port = store_port_,
                                   .rendezvous = start_command_.rendezvous,
                                   .secret_file = files_.secret(),
                                   .report_socket = report_path(local_rank),
                                   .token = token_,
                                   .flight_folder = files_.flight(),
                                   .is_restart = is_restart};
  return {
      .command = launch_.command,
      .environment = rank_environment(launch_, node_, local_rank, launch_info, base_environment()),
      .folder = launch_.working_folder.empty() ? "/" : launch_.working_folder,
      .processors = processors_->at(static_cast<std::size_t>(local_rank))};
}

Result<void> AgentLoop::start_rank(RankStreams& source, int local_rank) {
  TRY(make_folders(files_.flight()));
  if (!processors_) processors_ = TRY(rank_processors(launch_));
  if (local_rank == 0) store_port_ = TRY(open_store());
  source.pipe = TRY(ranks_.start(program_of(local_rank, /*is_restart=*/false)));
  return {};
}

// The other ranks wait for it, so the rank stays `running` for the daemon.
void AgentLoop::restart_killed() {
  while (const model::Rank* killed = ranks_.first_killed()) {
    if (restarts_ >= kRankRestartsMax) return;
    ++restarts_;
    auto& source = rank_streams_[static_cast<std::size_t>(killed->local_rank)];
    read_streams(source);  // its last output
    const auto description = format(
        "rank {} was killed by signal {} and is started again (restart {} of "
        "at most {} on its host)",
        killed->rank, killed->code, restarts_, kRankRestartsMax);
    LS_LOG(warning, "{}", description);
    add_event(killed->rank, description);
    heartbeat_sender_->add({.kind = spool::TelemetryKind::log,
                            .rank = killed->rank,
                            .time = SystemClock().now(),
                            .text = "lockstep: " + description});
    auto started =
        ranks_.restart(killed->local_rank, program_of(killed->local_rank, /*is_restart=*/true));
    if (!started) {
      LS_LOG(error, "rank {}: {}", killed->rank, started.error().message);
      return;
    }
    source.pipe = *std::move(started);
  }
}

void AgentLoop::add_event(int rank, std::string description) {
  heartbeat_sender_->add({.kind = spool::TelemetryKind::event,
                          .rank = rank,
                          .time = SystemClock().now(),
                          .text = std::move(description)});
}

// If the run ends with the rank, the cause of its attempt reports it instead.
void AgentLoop::report_killed() {
  for (const model::Rank& rank : ranks_.ranks()) {
    if (!model::ended_badly(rank) || rank.state != model::RankState::killed) continue;
    RankStreams& source = rank_streams_[static_cast<std::size_t>(rank.local_rank)];
    if (std::exchange(source.kill_reported, true)) continue;
    add_event(rank.rank, format("rank {} was killed by signal {}", rank.rank, rank.code));
    if (auto secret = net::Secret::from_hex(launch_.secret);
        secret && !start_command_.rendezvous.empty())
      failure_notifier_.send(start_command_.rendezvous, *secret, rank.rank);
  }
}

// True if the failure of a rank ends all ranks. With OnFailure::shrink the others continue without
// a killed one while any of them runs.
bool AgentLoop::failure_ends_all() const {
  if (launch_.on_failure == model::OnFailure::shrink) return ranks_.any_failed();
  return ranks_.any_ended_badly();
}

// Repeated calls have no effect.
void AgentLoop::begin_stop(model::StopReason reason, std::string message) {
  if (phase_ >= Phase::stopping && state_ == model::NodeState::stopping) return;
  state_ = model::NodeState::stopping;
  stop_reason_ = reason;
  if (!message.empty()) message_ = std::move(message);
  time_out_.reset();
  unattended_stop_.reset();
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    LS_LOG(info, "stopping the ranks{}{}", message_.empty() ? "" : ": ", message_);
    next_kill_ = Deadline::after(grace_);
    read_all_streams();
    ranks_.signal(SIGTERM);
    handle_ended_ranks();
  } else if (phase_ == Phase::waiting) {
    phase_ = Phase::cleaning_up;
    next_leftover_check_ = Deadline::after(Duration(0));
  }
  report_status();
}

// Kills at once, and repeats for processes that were forked meanwhile.
void AgentLoop::kill_ranks() {
  time_out_.reset();
  unattended_stop_.reset();
  phase_ = Phase::stopping;
  next_kill_ = Deadline::after(kKillRetryInterval);
  ranks_.signal(SIGKILL);
  handle_ended_ranks();
}

// Some ranks have ended, or there are none.
void AgentLoop::handle_ended_ranks() {
  if (phase_ == Phase::running && launch_.on_failure == model::OnFailure::wait) restart_killed();
  if (phase_ == Phase::running && launch_.on_failure != model::OnFailure::restart) report_killed();
  if (phase_ == Phase::running && !unattended_stop_ && failure_ends_all())
    unattended_stop_ = Deadline::after(kUnattendedStopDelay);
  if (phase_ == Phase::running && ranks_.any_ended_badly()) ranks_.update_activities();
  if (phase_ != Phase::running) stragglers_.reset();
  if (phase_ < Phase::cleaning_up && !ranks_.any_running()) {
    phase_ = Phase::cleaning_up;
    stragglers_.reset();
    time_out_.reset();
    unattended_stop_.reset();
    next_kill_.reset();
    next_leftover_check_ = Deadline::after(Duration(0));
  }
  report_status();
}

// --- The end ---

// Kills the processes that the ranks left; then their pipes and sockets close too.
void AgentLoop::kill_leftovers() {
  if (!leftover_deadline_) leftover_deadline_ = Deadline::after(kLeftoverTimeMax);
  const std::vector<pid_t> left = ranks_.processes();
  for (pid_t pid : left) ::kill(pid, SIGKILL);
  const bool nothing_before = std::exchange(no_leftovers_, left.empty() && streams_closed());
  if (!leftover_deadline_->passed() && !(no_leftovers_ && nothing_before)) {
    next_leftover_check_ = Deadline::after(kLeftoverCheckInterval);
    return;
  }
  if (!left.empty()) {
    const std::string description = "processes do not end: " + joined(left, " ");
    LS_LOG(error, "{}", description);
    message_ += (message_.empty() ? "" : "; ") + description;
  }
  finish_streams();
}

bool AgentLoop::streams_closed() const {
  return std::ranges::none_of(rank_streams_, [](const RankStreams& source) {
    return source.pipe || !source.reports.has_no_connections();
  });
}

void AgentLoop::finish_streams() {
  next_leftover_check_.reset();
  leftover_deadline_.reset();
  for (RankStreams& source : rank_streams_) {
    source.reports.read();  // connections that closed at once
    source.pipe.reset();
    source.output.finish();
    if (source.reports.broken_lines() > 0)
      LS_LOG(warning, "rank {} reported {} lines that could not be read", source.rank,
             source.reports.broken_lines());
  }
  unfinished_.clear();
  next_unfinished_report_.reset();
  phase_ = Phase::ended;
  if (!exit_deadline_) exit_deadline_ = Deadline::after(kExitWaitMax);
  report_status();
}

// Complete lines replace the incomplete ones that were reported before, so that no line is shown
// twice. New incomplete lines are reported at the next interval.
void AgentLoop::flush_output() {
  flush_.reset();
  bool ended = false;
  for (RankStreams& source : rank_streams_) {
    if (!source.output.has_lines()) continue;
    source.output.flush();
    ended |=
        std::erase_if(unfinished_, [&](const auto& line) { return line.rank == source.rank; }) > 0;
  }
  if (ended) report_status();
}

std::vector<api::UnfinishedLine> AgentLoop::unfinished_lines() const {
  std::vector<api::UnfinishedLine> lines;
  for (const RankStreams& source : rank_streams_)
    if (const auto line = source.output.unfinished_line(); !line.empty())
      lines.push_back({.rank = source.rank, .text = std::string(line)});
  return lines;
}

void AgentLoop::report_unfinished() {
  next_unfinished_report_.reset();
  unfinished_ = unfinished_lines();
  report_status();  // does nothing if they have not changed
}

api::Heartbeat AgentLoop::status() const {
  api::Heartbeat status;
  status.node = text(node_);
  status.state = state_;
  status.address = launch_.address;
  status.master_port = port_.number();
  status.rendezvous_port = rendezvous_ ? rendezvous_->port() : 0;
  status.agent_pid = ::getpid();
  status.stop_reason = stop_reason_;
  status.message = message_;
  status.ranks = ranks_.ranks();
  status.boot = clock_.boot;
  status.clock_zero = clock_.zero;
  status.unfinished = unfinished_;
  return status;
}

}  // namespace lockstep::agent
