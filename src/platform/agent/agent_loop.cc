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

#include "base/files.h"
#include "base/log.h"
#include "base/steady_clock.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/address/port_range.h"
#include "comm/flight/memory.h"
#include "net/crypto.h"
#include "net/url.h"
#include "platform/agent/flight_parcel.h"
#include "platform/agent/network_words.h"
#include "platform/agent/rank_binding.h"
#include "platform/host/own_log.h"

namespace lockstep {
namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr Duration kPace = milliseconds(200);
constexpr int kNodesAtPace = 32;  // more nodes call less often, to spare the daemon
constexpr Duration kPaceMost =
    seconds(2);  // far below the silence after which a node counts as lost
constexpr Duration kFlush = milliseconds(100);
constexpr Duration kUnfinishedLook = seconds(1);
constexpr Duration kStopAlone = seconds(5);
constexpr int kReplacementsMax = 3;  // of a node's ranks; a rank that is killed for ever is no loss
constexpr Duration kHungAlone = minutes(1);
constexpr Duration kForceAgain = milliseconds(100);
constexpr Duration kClearLook = milliseconds(20);
constexpr Duration kClearMax = seconds(10);
constexpr Duration kLeaveMax = hours(24);
constexpr Duration kLastItemsMax = minutes(5);
constexpr Duration kPatienceMax = seconds(1);
constexpr Duration kLogLook = seconds(1);
constexpr Duration kActivityLook = seconds(2);
constexpr Duration kPollAgain = milliseconds(10);  // when the kernel has no memory for it
constexpr int kReadsAtOnce = 4;  // of 64 KiB; then the other ranks have their turn

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
Duration moment() { return MachineClock().passed(); }

ClockRow read_clock() {
  const MachineClock steady;
  return {steady.boot(), zero_of(SystemClock(), steady)};
}

// Of all nodes, as far as they are seen from here: those of an attempt stand side by side. Or the
// user has named another.
std::vector<std::filesystem::path> flight_folders(const Launch& launch) {
  if (const auto named = launch.env.find(std::string(kFlightFolder)); named != launch.env.end())
    return {named->second};
  const std::filesystem::path own = launch.node_folder;
  std::vector<std::filesystem::path> folders = {NodeFiles{own}.flight()};
  for (int node = 1; node < launch.nodes; ++node)
    folders.push_back(NodeFiles{own.parent_path() / node_folder_name(node)}.flight());
  return folders;
}

FlightPlace flight_place(const Launch& launch) {
  return {.folder = flight_folders(launch).front(),
          .is_shared = launch.env.contains(std::string(kFlightFolder)),
          .first_rank = launch.first_rank,
          .ranks = static_cast<int>(launch.devices.size()),
          .since = SystemClock().now()};
}

Duration pace(int nodes) { return std::min(kPaceMost, kPace * std::max(1, nodes / kNodesAtPace)); }

}  // namespace

// --- Getting ready ---

Result<std::unique_ptr<AgentLoop>> AgentLoop::open(const Launch& launch, const NodeId& node,
                                                   std::string token, DaemonLink& link) {
  auto port = TRY(ReservedPort::open());
  auto sockets = TRY(SocketFolder::create(token));
  auto signals = TRY(open_signals());
  std::unique_ptr<AgentLoop> loop(new AgentLoop(launch, node, std::move(token), std::move(port),
                                                std::move(sockets), std::move(signals)));
  TRY(loop->write_secret());
  TRY(loop->open_rendezvous());
  TRY(loop->open_sources());
  auto spool = TRY(Spool::open(loop->own_files().spool(), {}));
  loop->messenger_ =
      TRY(Messenger::start(link, std::move(spool), loop->status(),
                           {.pace = pace(launch.nodes), .refusal_limit = launch.refusal_limit},
                           [place = flight_place(launch)] { return pack_flight(place); }));
  return loop;
}

AgentLoop::AgentLoop(const Launch& launch, const NodeId& node, std::string token, ReservedPort port,
                     SocketFolder sockets, Fd signals)
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
  return report_socket(sockets_.path(), launch_.first_rank + local_rank);
}

Result<void> AgentLoop::write_secret() const {
  return write_file(own_files().secret(), launch_.secret);
}

Result<void> AgentLoop::open_rendezvous() {
  if (node_.index != 0) return {};
  const auto secret = TRY(Secret::from_hex(launch_.secret));
  const auto network = TRY(network_options_of(launch_.env));
  rendezvous_ = TRY(on_free_port(launch_.address, network.ports, [&](std::uint16_t port) {
    return RendezvousServer::start(launch_.address, port, secret, {.silence = network.silence},
                                   port_.number());
  }));
  return {};
}

// The port of this host's loopback where torch's store is: rank 0's own, or the way to it. 0 where
// MASTER_ADDR is loopback itself.
Result<int> AgentLoop::open_store() {
  if (is_loopback(start_.master_address)) return 0;
  if (node_.index == 0) return port_.number();
  forwarder_ = TRY(Forwarder::start(start_.rendezvous, TRY(Secret::from_hex(launch_.secret)),
                                    TRY(network_options_of(launch_.env)).silence));
  return forwarder_->port();
}

Result<void> AgentLoop::open_sources() {
  for (int local = 0; local < static_cast<int>(launch_.devices.size()); ++local) {
    const int rank = launch_.first_rank + local;
    auto log = [this, rank, local](std::string lines) {
      note_lines(local, lines);
      messenger_->add({.kind = ItemKind::log,
                       .rank = rank,
                       .time = SystemClock().now(),
                       .text = std::move(lines)});
    };
    auto report = [this, local](Report said) {
      std::visit([&](auto& each) { take_report(local, std::move(each)); }, said);
    };
    sources_.push_back({.rank = rank,
                        .pipe = Fd(),
                        .output = TRY(Output::open(own_files().rank_log(rank), std::move(log))),
                        .reports = TRY(ReportSocket::open(report_path(local), rank, report))});
  }
  return {};
}

void AgentLoop::take_report(int local_rank, Item item) {
  ranks_.note_progress(local_rank, item.step, moment());
  if (phase_ == Phase::running) count_running_time();
  messenger_->note_step(item.rank, item.step);
  messenger_->add(std::move(item));
}

void AgentLoop::take_report(int local_rank, const FaultReport& said) {
  ranks_.note_fault(local_rank, said);
}

// --- The loop ---

void AgentLoop::run() {
  while (!may_leave()) turn();
  LS_LOG(info, "leaving");
  messenger_.reset();
}

void AgentLoop::turn() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {messenger_->woken(), POLLIN, 0}};
  std::vector<Source*> owners = {nullptr, nullptr};
  for (Source& source : sources_) {
    std::vector<int> fds = source.reports.fds();
    if (source.pipe) fds.push_back(source.pipe.get());
    for (int fd : fds) {
      polled.push_back({fd, POLLIN, 0});
      owners.push_back(&source);
    }
  }
  const auto wait = std::chrono::ceil<milliseconds>(patience());
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait.count())) < 0 && errno != EINTR)
    ::usleep(kPollAgain.count());

  if (polled[0].revents != 0) read_signals();
  Source* last = nullptr;  // one source's stand together
  for (std::size_t i = 2; i < polled.size(); ++i) {
    if (polled[i].revents == 0 || owners[i] == last) continue;
    last = owners[i];
    read_source(*last);
  }
  if (polled[1].revents != 0) follow_orders();
  mind_time();
}

Duration AgentLoop::patience() const {
  Duration least = kPatienceMax;
  for (const auto& deadline :
       {time_out_, stop_alone_, force_, flush_, unfinished_look_, clear_look_, clear_end_})
    if (deadline) least = std::min(least, deadline->left());
  // Passed without effect while a rank is stuck in the kernel: not to be waited for in a circle.
  if (leave_ && phase_ == Phase::ended) least = std::min(least, leave_->left());
  if (const auto next = ranks_.next_stall(moment())) least = std::min(least, *next);
  if (stragglers_) least = std::min(least, stragglers_->due().left());
  return least;
}

void AgentLoop::read_source(Source& source) {
  source.reports.read();
  char buffer[1 << 16];
  for (int i = 0; source.pipe && i < kReadsAtOnce; ++i) {
    ssize_t n = ::read(source.pipe.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) break;
    if (n <= 0)
      source.pipe.reset();
    else
      source.output.take({buffer, static_cast<std::size_t>(n)});
  }
  if (!flush_ && source.output.has_lines()) flush_ = Deadline::after(kFlush);
  if (!unfinished_look_ && !source.output.unfinished().empty())
    unfinished_look_ = Deadline::after(kUnfinishedLook);
}

void AgentLoop::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    if (info.ssi_signo == SIGCHLD) continue;
    LS_LOG(warning, "the agent got signal {}", info.ssi_signo);
    begin_stop(StopReason::signal,
               format("the agent was asked to end by signal {}", info.ssi_signo));
  }
  hear_last_words();
  if (ranks_.reap(moment())) reaped();
}

// What a rank said of its end comes before the end.
void AgentLoop::hear_last_words() {
  for (Source& source : sources_) {
    read_source(source);
    source.output.flush();
  }
}

void AgentLoop::note_lines(int local_rank, std::string_view lines) {
  while (!lines.empty()) {
    const auto end = std::min(lines.find('\n'), lines.size());
    const auto line = lines.substr(0, end);
    if (const Fault fault = fault_in(line); fault != Fault::none)
      ranks_.note_printed_fault(local_rank, fault, line, moment());
    lines.remove_prefix(std::min(lines.size(), end + 1));
  }
}

void AgentLoop::follow_orders() {
  messenger_->clear_woken();
  orders_ = messenger_->orders();
  const Command& command = orders_.command;
  const bool leave = orders_.refused || command.kind == CommandKind::leave;
  if (leave && !std::exchange(told_to_leave_, true)) leave_ = Deadline::after(kLastItemsMax);
  if (leave && phase_ < Phase::clearing) return make_end();
  if (command.kind == CommandKind::start || command.kind == CommandKind::stop)
    grace_ = command.grace;
  if (command.kind == CommandKind::start && phase_ == Phase::running) await_other_nodes();
  if (command.kind == CommandKind::start && phase_ == Phase::waiting) start_ranks(command);
  if (command.kind == CommandKind::none && phase_ == Phase::running) grant_running_time();
  if (command.kind == CommandKind::stop) begin_stop(StopReason::none, "");
}

void AgentLoop::mind_time() {
  if (log_look_.passed()) bound_log();
  if (passed(flush_)) flush();
  if (passed(unfinished_look_)) tell_unfinished();
  if (passed(time_out_)) begin_stop(StopReason::timeout, "time-out");
  if (passed(stop_alone_)) begin_stop(StopReason::none, "");
  if (phase_ == Phase::stopping && passed(force_)) make_end();
  if (phase_ == Phase::clearing && passed(clear_look_)) clear();
  if (phase_ == Phase::running) mind_progress();
  if (phase_ == Phase::running && activity_look_.passed()) mind_activities();
  if (phase_ == Phase::running) mind_stragglers();
}

void AgentLoop::bound_log() {
  log_look_ = Deadline::after(kLogLook);
  if (auto bounded = bound_own_log(own_files().agent_log(), kAgentLogMax); !bounded)
    LS_LOG(warning, "beginning a new log: {}", bounded.error().message);
}

// What to do about a rank that hangs is the daemon's to decide. While that is away, devices are not
// held for nothing.
void AgentLoop::mind_progress() {
  if (ranks_.find_stalled(moment())) tell();
  const Rank* rank = ranks_.stalled();
  if (rank == nullptr || messenger_->silence() < std::min(launch_.hang_after, kHungAlone)) return;
  begin_stop(StopReason::no_progress,
             format("rank {} has made no progress since step {}, and the daemon does not answer",
                    rank->rank, rank->step));
}

// One that is stopped or blocked is told before its peers give up on it.
void AgentLoop::mind_activities() {
  activity_look_ = Deadline::after(kActivityLook);
  if (ranks_.look()) tell();
}

// One record a turn: the loop has others to hear.
void AgentLoop::mind_stragglers() {
  if (!stragglers_ || !stragglers_->due().passed()) return;
  for (const auto& [rank, words] : stragglers_->turn()) {
    LS_LOG(warning, "{}", words);
    add_event(rank, words);
  }
}

bool AgentLoop::may_leave() const {
  if (phase_ != Phase::ended) return false;
  if (orders_.refused || passed(leave_)) return true;
  return orders_.command.kind == CommandKind::leave && messenger_->delivered();
}

// --- The ranks' life ---

void AgentLoop::start_ranks(const Command& command) {
  start_ = command;
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    auto started = start_rank(sources_[i], static_cast<int>(i));
    if (started) continue;
    LS_LOG(error, "rank {}: {}", sources_[i].rank, started.error().message);
    phase_ = Phase::running;  // as far as it came
    message_ = format("rank {}: {}", sources_[i].rank, started.error().message);
    state_ = NodeState::stopping;
    return make_end();
  }
  phase_ = Phase::running;
  state_ = NodeState::running;
  if (node_.index == 0 && launch_.world_size > 1)
    stragglers_.emplace(flight_folders(launch_), launch_.flight_look);
  await_other_nodes();
  if (launch_.nodes == 1) count_running_time();
  LS_LOG(info, "started {} ranks", sources_.size());
  tell();
}

// As long as the daemon says `start`, some ranks of other nodes do not run yet. If it goes away,
// its last `start` is also the last that anybody heard: whoever begins does so within the limit. So
// from then on either all run, or some never will; that nobody counts their time is no reason to go
// on for ever.
void AgentLoop::await_other_nodes() {
  if (running_end_ || launch_.time_left <= Duration(0)) return;
  time_out_ = Deadline::after(launch_.start_limit + launch_.time_left);
}

// From the moment at which all nodes' ranks run, as the daemon counts it too: a daemon that goes
// away when it has told half of a gang to start costs the run no time. Should it go before it could
// say that they run, the first thing that a rank reports shows it: who takes steps has its peers.
// Peers that come after all their time to start do not move the end that the wait for them had,
// while there is nobody who could end them otherwise. Repeats change nothing.
void AgentLoop::count_running_time() {
  if (launch_.time_left <= Duration(0)) return;
  if (!running_end_) running_end_ = Deadline::after(launch_.time_left);
  if (!time_out_ || running_end_->at() < time_out_->at()) time_out_ = running_end_;
}

// The daemon is there and knows that all run: however late they came, they have their time.
void AgentLoop::grant_running_time() {
  count_running_time();
  time_out_ = running_end_;
}

Program AgentLoop::program_of(int local_rank, bool replaces) const {
  const Meeting meeting{.master_address = start_.master_address,
                        .master_port = start_.master_port,
                        .store_port = store_port_,
                        .rendezvous = start_.rendezvous,
                        .secret_file = files_.secret(),
                        .report_socket = report_path(local_rank),
                        .token = token_,
                        .flight_folder = files_.flight(),
                        .replaces = replaces};
  return {.command = launch_.command,
          .environment = rank_environment(launch_, node_, local_rank, meeting, base_environment()),
          .folder = launch_.working_folder.empty() ? "/" : launch_.working_folder,
          .processors = processors_->at(static_cast<std::size_t>(local_rank))};
}

Result<void> AgentLoop::start_rank(Source& source, int local_rank) {
  TRY(make_folders(files_.flight()));
  if (!processors_) processors_ = TRY(rank_processors(launch_));
  if (local_rank == 0) store_port_ = TRY(open_store());
  source.pipe = TRY(ranks_.start(program_of(local_rank, /*replaces=*/false)));
  return {};
}

// The others wait for it, so that to the daemon it runs on.
void AgentLoop::replace_killed() {
  while (const Rank* killed = ranks_.killed()) {
    if (replacements_ >= kReplacementsMax) return;
    ++replacements_;
    auto& source = sources_[static_cast<std::size_t>(killed->local_rank)];
    read_source(source);  // its last words
    const auto words = format(
        "rank {} was killed by signal {} and is started again (restart {} of "
        "at most {} on its host)",
        killed->rank, killed->code, replacements_, kReplacementsMax);
    LS_LOG(warning, "{}", words);
    add_event(killed->rank, words);
    messenger_->add({.kind = ItemKind::log,
                     .rank = killed->rank,
                     .time = SystemClock().now(),
                     .text = "lockstep: " + words});
    auto started =
        ranks_.replace(killed->local_rank, program_of(killed->local_rank, /*replaces=*/true));
    if (!started) {
      LS_LOG(error, "rank {}: {}", killed->rank, started.error().message);
      return;
    }
    source.pipe = *std::move(started);
  }
}

void AgentLoop::add_event(int rank, std::string words) {
  messenger_->add({.kind = ItemKind::event,
                   .rank = rank,
                   .time = SystemClock().now(),
                   .text = std::move(words)});
}

// Where the run ends with a rank, its attempt's cause tells of it.
void AgentLoop::tell_deaths() {
  for (const Rank& rank : ranks_.reports()) {
    if (!ended_badly(rank) || rank.state != RankState::killed) continue;
    Source& source = sources_[static_cast<std::size_t>(rank.local_rank)];
    if (std::exchange(source.death_told, true)) continue;
    add_event(rank.rank, format("rank {} was killed by signal {}", rank.rank, rank.code));
    if (auto secret = Secret::from_hex(launch_.secret); secret && !start_.rendezvous.empty())
      death_notices_.send(start_.rendezvous, *secret, rank.rank);
  }
}

// Whether what befell a rank is the end of all. Others that can go on without one that was killed
// do so as long as any of them runs.
bool AgentLoop::ends_the_others() const {
  if (launch_.on_failure == OnFailure::shrink) return ranks_.any_failed();
  return ranks_.any_ended_badly();
}

// Repeats change nothing.
void AgentLoop::begin_stop(StopReason reason, std::string message) {
  if (phase_ >= Phase::stopping && state_ == NodeState::stopping) return;
  state_ = NodeState::stopping;
  stop_reason_ = reason;
  if (!message.empty()) message_ = std::move(message);
  time_out_.reset();
  stop_alone_.reset();
  if (phase_ == Phase::running) {
    phase_ = Phase::stopping;
    LS_LOG(info, "stopping the ranks{}{}", message_.empty() ? "" : ": ", message_);
    force_ = Deadline::after(grace_);
    hear_last_words();
    ranks_.signal(SIGTERM);
    reaped();
  } else if (phase_ == Phase::waiting) {
    phase_ = Phase::clearing;
    clear_look_ = Deadline::after(Duration(0));
  }
  tell();
}

// At once, and again until nothing is left that may have been forked meanwhile.
void AgentLoop::make_end() {
  time_out_.reset();
  stop_alone_.reset();
  phase_ = Phase::stopping;
  force_ = Deadline::after(kForceAgain);
  ranks_.signal(SIGKILL);
  reaped();
}

// Some ranks have ended, or there are none.
void AgentLoop::reaped() {
  if (phase_ == Phase::running && launch_.on_failure == OnFailure::wait) replace_killed();
  if (phase_ == Phase::running && launch_.on_failure != OnFailure::restart) tell_deaths();
  if (phase_ == Phase::running && !stop_alone_ && ends_the_others())
    stop_alone_ = Deadline::after(kStopAlone);
  if (phase_ == Phase::running && ranks_.any_ended_badly()) ranks_.look();
  if (phase_ != Phase::running) stragglers_.reset();
  if (phase_ < Phase::clearing && !ranks_.any_running()) {
    phase_ = Phase::clearing;
    stragglers_.reset();
    time_out_.reset();
    stop_alone_.reset();
    force_.reset();
    clear_look_ = Deadline::after(Duration(0));
  }
  tell();
}

// --- The end ---

// What the ranks left behind is killed; then their pipes and sockets come to an end too.
void AgentLoop::clear() {
  if (!clear_end_) clear_end_ = Deadline::after(kClearMax);
  const std::vector<pid_t> left = ranks_.processes();
  for (pid_t pid : left) ::kill(pid, SIGKILL);
  const bool nothing_before = std::exchange(nothing_left_, left.empty() && sources_silent());
  if (!clear_end_->passed() && !(nothing_left_ && nothing_before)) {
    clear_look_ = Deadline::after(kClearLook);
    return;
  }
  if (!left.empty()) {
    const std::string words = "processes do not end: " + joined(left, " ");
    LS_LOG(error, "{}", words);
    message_ += (message_.empty() ? "" : "; ") + words;
  }
  finish();
}

bool AgentLoop::sources_silent() const {
  return std::ranges::none_of(
      sources_, [](const Source& source) { return source.pipe || !source.reports.idle(); });
}

void AgentLoop::finish() {
  clear_look_.reset();
  clear_end_.reset();
  for (Source& source : sources_) {
    source.reports.read();  // who connected and died at once
    source.pipe.reset();
    source.output.finish();
    if (source.reports.broken_lines() > 0)
      LS_LOG(warning, "rank {} reported {} lines that could not be read", source.rank,
             source.reports.broken_lines());
  }
  unfinished_.clear();
  unfinished_look_.reset();
  phase_ = Phase::ended;
  if (!leave_) leave_ = Deadline::after(kLeaveMax);
  tell();
}

// With the whole lines goes what the daemon was told of them while they had no end, so that no line
// is shown beside itself. What has begun since is told at the next look.
void AgentLoop::flush() {
  flush_.reset();
  bool ended = false;
  for (Source& source : sources_) {
    if (!source.output.has_lines()) continue;
    source.output.flush();
    ended |=
        std::erase_if(unfinished_, [&](const auto& line) { return line.rank == source.rank; }) > 0;
  }
  if (ended) tell();
}

std::vector<api::UnfinishedLine> AgentLoop::unfinished_now() const {
  std::vector<api::UnfinishedLine> lines;
  for (const Source& source : sources_)
    if (const auto line = source.output.unfinished(); !line.empty())
      lines.push_back({.rank = source.rank, .text = std::string(line)});
  return lines;
}

void AgentLoop::tell_unfinished() {
  unfinished_look_.reset();
  unfinished_ = unfinished_now();
  tell();  // which does nothing where they are as before
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
  status.ranks = ranks_.reports();
  status.boot = clock_.boot;
  status.clock_zero = clock_.zero;
  status.unfinished = unfinished_;
  return status;
}

}  // namespace lockstep
