#include "platform/agent/external/external_agent.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/steady_clock.h"
#include "net/crypto.h"
#include "platform/agent/external/visible_gpus.h"
#include "platform/host/log_rotation.h"
#include "platform/host/machine.h"

namespace lockstep::agent {
namespace {

using std::chrono::milliseconds;

constexpr Duration kExternalInterval = milliseconds(200);
constexpr Duration kExternalPollMax = milliseconds(500);
constexpr int kRanksOnHostMax = 1024;
constexpr Duration kSignalMargin = milliseconds(200);

Duration steady_time() { return MonotonicClock().since_boot(); }

model::ClockRow clock_of_agent() {
  const MonotonicClock steady;
  return {steady.boot_id(), wall_time_at_boot(SystemClock(), steady)};
}

Result<Fd> open_end_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT}) sigaddset(&set, number);
  Fd signals(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals) return os_error("making a signalfd", errno);
  return signals;
}

}  // namespace

AgentStart this_start() {
  return {.incarnation = net::random_hex(8),
          .machine = host::this_machine().host,
          .at = SystemClock().now()};
}

Result<std::unique_ptr<ExternalAgent>> ExternalAgent::open(const JobFolder& folder,
                                                           AgentStart start, std::string url) {
  std::unique_ptr<ExternalAgent> agent(new ExternalAgent(folder, std::move(start), std::move(url)));
  agent->signals_ = TRY(open_end_signals());
  ExternalAgent* const raw = agent.get();
  agent->presence_ = TRY(PresenceSocket::open(
      folder.presence_socket(),
      {.joined = [raw](const RankHello& hello) { return raw->add_rank(hello); },
       .leaving = [raw](int rank, const std::string& error) { raw->handle_leaving(rank, error); },
       .ended = [raw](int rank, const RankFarewell& end) { raw->handle_end(rank, end); }}));
  return agent;
}

ExternalAgent::ExternalAgent(const JobFolder& folder, AgentStart start, std::string url)
    : folder_(folder),
      start_(std::move(start)),
      url_(std::move(url)),
      clock_(clock_of_agent()),
      ranks_(clock_.zero) {}

Result<void> ExternalAgent::run(DaemonLink& link, const Status& status,
                                const MediaSender::Find& media, const ExternalAgentTimes& times) {
  link_ = &link;
  media_ = media;
  status_ = status;
  times_ = times;
  begun_ = steady_time();
  await_first_rank();
  if (!sender_) return {};
  while (!is_over()) run_once();
  const bool delivered = sender_->all_delivered();
  LS_LOG(info, "leaving; the daemon has {}", delivered ? "everything" : "not everything");
  presence_.reset();
  reports_.clear();
  sender_.reset();
  media_sender_.reset();  // sends what is left
  if (delivered) folder_.remove();
  return {};
}

std::vector<model::Rank> ExternalAgent::known_ranks() const {
  const Lock lock(mutex_);
  return known_ranks_;
}

// A job without ranks makes no run.
void ExternalAgent::await_first_rank() {
  while (!sender_ && steady_time() - begun_ < times_.first_rank) {
    std::vector<pollfd> polled;
    for (const int fd : presence_->fds()) polled.push_back({fd, POLLIN, 0});
    ::poll(polled.data(), polled.size(), static_cast<int>(kExternalPollMax / milliseconds(1)));
    presence_->read();
  }
}

Result<void> ExternalAgent::start_sender() {
  auto spool = TRY(spool::Spool::open(folder_.spool(), {}));
  sender_ = TRY(HeartbeatSender::start(
      *link_, std::move(spool), heartbeat(),
      {.heartbeat_interval = kExternalInterval, .refusal_limit = times_.refusal_limit},
      [] { return api::FlightDelivery{}; }, ProfileRelay(folder_.path() / "profile"),
      [](const auto&) { return false; }));
  media_sender_.emplace(media_, folder_.media());
  return {};
}

// --- Telemetry ---

// Begins again with the GPUs of all ranks that are known now.
void ExternalAgent::watch_telemetry() {
  if (times_.telemetry_interval == Duration(0)) return;
  telemetry_.emplace(WatchedNode{
      .rank = ranks_.all().front().rank, .gpus = gpus_, .interval = times_.telemetry_interval});
}

void ExternalAgent::pass_on_telemetry() {
  if (!telemetry_) return;
  for (spool::TelemetryItem& item : telemetry_->take()) sender_->add(std::move(item));
  if (!ranks_.any_running()) telemetry_.reset();
}

// --- What ranks say ---

Result<RankPlaces> ExternalAgent::add_rank(const RankHello& hello) {
  if (hello.rank < 0) return Error{Code::invalid, "a rank counts from 0"};
  const auto path = folder_.report_socket(hello.rank);
  if (!reports_.contains(hello.rank)) {
    if (reports_.size() >= kRanksOnHostMax)
      return Error{Code::exhausted, format("{} ranks are here already", reports_.size())};
    reports_.emplace(
        hello.rank,
        TRY(ReportSocket::open(path, hello.rank, [this, rank = hello.rank](RankReport report) {
          handle_report(rank, std::move(report));
        })));
  }
  ranks_.join(hello.rank, hello.local_rank, hello.pid);
  {
    const Lock lock(mutex_);
    known_ranks_ = ranks_.all();
  }
  LS_LOG(info, "rank {} is process {}", hello.rank, hello.pid);
  // Before the rank hears of its socket: it may report, and end, at once.
  if (!sender_) TRY(start_sender());
  add_visible_gpus(static_cast<pid_t>(hello.pid), gpus_);
  watch_telemetry();
  send_status();
  return RankPlaces{.report = path, .media = folder_.media()};
}

void ExternalAgent::handle_report(int rank, RankReport report) {
  if (const auto* fault = std::get_if<FaultReport>(&report)) {
    ranks_.record_fault(rank, fault->fault, fault->rank, fault->text);
    return;
  }
  auto& item = std::get<spool::TelemetryItem>(report);
  ranks_.record_step(rank, item.step);
  sender_->set_step(rank, item.step);
  sender_->add(std::move(item));
}

void ExternalAgent::handle_leaving(int rank, const std::string& error) {
  ranks_.record_leaving(rank, error);
  read_reports();  // what the rank has sent before
}

void ExternalAgent::handle_end(int rank, const RankFarewell& farewell) {
  read_reports();
  if (!farewell.code) await_own_signal();
  ranks_.record_end(rank, farewell, steady_time());
  send_status();
}

// A launcher that ends the job may signal a rank first, and this agent a moment later.
void ExternalAgent::await_own_signal() {
  if (is_signalled_ || std::exchange(has_awaited_signal_, true)) return;
  pollfd polled{signals_.get(), POLLIN, 0};
  if (::poll(&polled, 1, static_cast<int>(kSignalMargin / milliseconds(1))) > 0) read_signals();
}

// --- The loop ---

void ExternalAgent::run_once() {
  std::vector<pollfd> polled = {{signals_.get(), POLLIN, 0}, {sender_->wake_fd(), POLLIN, 0}};
  for (const int fd : presence_->fds()) polled.push_back({fd, POLLIN, 0});
  for (const auto& [rank, socket] : reports_)
    for (const int fd : socket.fds()) polled.push_back({fd, POLLIN, 0});
  const bool waits = presence_->has_leaving();
  const Duration wait = waits ? milliseconds(20) : kExternalPollMax;
  if (::poll(polled.data(), polled.size(), static_cast<int>(wait / milliseconds(1))) < 0 &&
      errno != EINTR)
    ::usleep(10'000);
  if (polled[0].revents != 0) read_signals();
  if (polled[1].revents != 0) sender_->clear_wake();
  read_reports();
  pass_on_telemetry();
  presence_->read();
  tell_of_attachment();
  send_notes();
  answer_leaving();
  (void)host::rotate_own_log(folder_.log(), host::kAgentLogMax);
}

void ExternalAgent::read_reports() {
  for (auto& [rank, socket] : reports_) socket.read();
}

void ExternalAgent::read_signals() {
  signalfd_siginfo info{};
  while (::read(signals_.get(), &info, sizeof info) == sizeof info) {
    LS_LOG(warning, "the agent got signal {}", info.ssi_signo);
    if (!ranks_.any_running() || std::exchange(is_signalled_, true)) continue;
    send_status();
  }
}

// While the daemon is away, the reports are in the spool, and the rank need not wait for them.
void ExternalAgent::answer_leaving() {
  if (!presence_->has_leaving()) return;
  if (sender_->reports_delivered() || status_().error) presence_->send_delivered();
}

void ExternalAgent::tell_of_attachment() {
  const AttachStatus now = status_();
  if (!now.run.empty() && !std::exchange(has_told_of_run_, true))
    tell(format("this run is {} on {}", now.run, url_));
  if (!now.error || !now.run.empty() || has_told_of_error_) return;
  const bool refused = now.error->code == Code::denied || now.error->code == Code::invalid ||
                       now.error->code == Code::not_found;
  const bool may_wait = !refused && !presence_->has_leaving();
  if (may_wait && steady_time() - begun_ < times_.silence_told) return;
  has_told_of_error_ = true;
  tell(format("{}; training goes on, and its reports wait in {}", now.error->message,
              folder_.path().string()));
}

void ExternalAgent::tell(std::string note) {
  LS_LOG(info, "for rank 0: {}", note);
  notes_.push_back(std::move(note));
  send_notes();
}

void ExternalAgent::send_notes() {
  std::erase_if(notes_, [this](const std::string& note) { return presence_->send_note(0, note); });
}

bool ExternalAgent::is_over() {
  const Duration now = steady_time();
  const DaemonOrders orders = sender_->orders();
  if (orders.refused) return true;
  if (ranks_.any_running())
    all_ended_since_.reset();
  else if (!all_ended_since_)
    all_ended_since_ = now;
  const bool leaves = orders.command.kind == model::CommandKind::leave;
  if (leaves && !leaves_since_) leaves_since_ = now;
  if (leaves && ranks_.any_running() && !std::exchange(has_told_of_end_, true))
    tell("the daemon has ended this run, and takes no more reports; training goes on");
  if (leaves && sender_->all_delivered()) return true;
  if (leaves && now - *leaves_since_ >= times_.last_items) return true;
  return all_ended_since_ && now - *all_ended_since_ >= times_.exit_without_leave;
}

void ExternalAgent::send_status() { sender_->set_status(heartbeat()); }

api::Heartbeat ExternalAgent::heartbeat() const {
  api::Heartbeat status;
  status.state = model::NodeState::running;
  status.agent_pid = ::getpid();
  status.incarnation = start_.incarnation;
  status.machine = start_.machine;
  status.agent_started = start_.at;
  if (is_signalled_) status.stop_reason = model::StopReason::signal;
  status.message = ranks_.message();
  status.ranks = ranks_.all();
  status.boot = clock_.boot;
  status.clock_zero = clock_.zero;
  return status;
}

}  // namespace lockstep::agent
