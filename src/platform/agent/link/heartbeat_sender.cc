#include "platform/agent/link/heartbeat_sender.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/steady_clock.h"
#include "base/units.h"

namespace lockstep::agent {
namespace {

using std::chrono::seconds;

constexpr Bytes kBatch = 64_KiB;            // the daemon stores it in a few milliseconds
constexpr Duration kCallMax = seconds(10);  // beyond the time for which the answer may be delayed

// Bounded: the number comes from outside.
Duration grace_of(double value) {
  if (!std::isfinite(value)) return model::kGracePeriod;
  return from_seconds(std::clamp(value, 0.0, 86'400.0));
}

// The same for the pace of calls.
Duration seconds_of(double value) {
  constexpr double kMax = 15;
  return from_seconds(std::isfinite(value) ? std::clamp(value, 0.0, kMax) : 0);
}

model::Command command_of(const api::HeartbeatAnswer& answer) {
  return {.kind = answer.command,
          .master_address = answer.master_address,
          .master_port = answer.master_port,
          .rendezvous = answer.rendezvous,
          .grace = grace_of(answer.grace_seconds),
          .time_left = answer.time_left,
          .orphaned = answer.orphaned};
}

// On a clock that does not jump.
Duration steady_now() { return MonotonicClock().since_boot(); }

}  // namespace

Result<std::unique_ptr<HeartbeatSender>> HeartbeatSender::start(
    DaemonLink& link, spool::Spool spool, const api::Heartbeat& status, Times times,
    PackFlight pack_flight, ProfileRelay profiles, FollowOrders follow_orders) {
  Fd woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken) return os_error("making an eventfd", errno);
  std::unique_ptr<HeartbeatSender> messenger(
      new HeartbeatSender(link, std::move(spool), status, times, std::move(pack_flight),
                          std::move(profiles), std::move(follow_orders), std::move(woken)));
  messenger->thread_ = std::thread([raw = messenger.get()] { raw->send_loop(); });
  return messenger;
}

HeartbeatSender::HeartbeatSender(DaemonLink& link, spool::Spool spool, const api::Heartbeat& status,
                                 Times times, PackFlight pack_flight, ProfileRelay profiles,
                                 FollowOrders follow_orders, Fd woken)
    : link_(link),
      pack_flight_(std::move(pack_flight)),
      follow_orders_(std::move(follow_orders)),
      wake_fd_(std::move(woken)),
      profiles_(std::move(profiles)),
      spool_(std::move(spool)),
      status_(status),
      schedule_(times, steady_now()) {}

HeartbeatSender::~HeartbeatSender() {
  {
    Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void HeartbeatSender::set_status(const api::Heartbeat& status) {
  Lock lock(mutex_);
  if (status == status_) return;  // a rank that does not end is killed repeatedly
  status_ = status;
  schedule_.record_status_change();
  changed_.notify_all();
}

void HeartbeatSender::set_step(int rank, std::int64_t step) {
  const Lock lock(mutex_);
  for (model::Rank& each : status_.ranks)
    if (each.rank == rank) each.step = std::max(each.step, step);
}

void HeartbeatSender::add(spool::TelemetryItem item) {
  Lock lock(mutex_);
  auto added = spool_.add(std::move(item));
  if (added || std::exchange(disk_failed_, true)) return;
  LS_LOG(error, "{}: what does not fit is lost for the daemon", added.error().message);
}

DaemonOrders HeartbeatSender::orders() const {
  Lock lock(mutex_);
  return {schedule_.command(), schedule_.is_refused()};
}

bool HeartbeatSender::all_delivered() const {
  Lock lock(mutex_);
  return spool_.empty() && schedule_.is_status_delivered() && !flight_wanted_;
}

bool HeartbeatSender::reports_delivered() const {
  Lock lock(mutex_);
  return spool_.has_only_telemetry() && schedule_.is_status_delivered();
}

Duration HeartbeatSender::time_since_answer() const {
  Lock lock(mutex_);
  return steady_now() - schedule_.last_answer();
}

Duration HeartbeatSender::time_since_contact() const {
  Lock lock(mutex_);
  return steady_now() - schedule_.last_contact();
}

void HeartbeatSender::clear_wake() {
  std::uint64_t count = 0;
  [[maybe_unused]] auto n = ::read(wake_fd_.get(), &count, sizeof count);
}

void HeartbeatSender::wake() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(wake_fd_.get(), &one, sizeof one);
}

void HeartbeatSender::send_loop() {
  while (true) {
    api::Heartbeat call;
    bool with_flight = false;
    {
      Lock lock(mutex_);
      if (ending_ || schedule_.is_refused()) return;
      call = next_heartbeat();
      with_flight = flight_wanted_ && suspect_item_count_ == 0;
    }
    if (with_flight) call.flight = pack_flight_();
    call.profile = profiles_.report();
    auto answer =
        link_.heartbeat(call, Deadline::after(from_seconds(call.wait_seconds) + kCallMax));
    if (answer) follow_orders(*answer);
    if (answer)
      handle_answer(*answer, with_flight, profiles_.pass_on(answer->profile));
    else
      handle_failure(answer.error());
    if (!wait_for_next_call()) return;
  }
}

void HeartbeatSender::follow_orders(const api::HeartbeatAnswer& answer) {
  const bool more = follow_orders_(answer);
  Lock lock(mutex_);
  orders_may_follow_ = more;
}

api::Heartbeat HeartbeatSender::next_heartbeat() {
  api::Heartbeat call = status_;
  call.items.clear();
  const bool returns = !schedule_.answers() && suspect_item_count_ == 0;
  if (!schedule_.is_orphaned() && !returns) call.items = spool_.batch(kBatch, items_max_);
  items_sent_ = call.items.size();
  if (items_sent_ > 0) oldest_ = call.items.front().sequence;
  send_again_ = returns ? !spool_.empty()
                        : !call.items.empty() && !spool_.ends_with(call.items.back().sequence);
  call.known_command = schedule_.command().kind;
  call.known_time_left = schedule_.command().time_left;
  const bool hurries = send_again_ || suspect_item_count_ > 0 || flight_wanted_ || trace_wanted_ ||
                       schedule_.is_orphaned();
  call.wait_seconds = hurries ? 0 : in_seconds(schedule_.interval());
  schedule_.begin_call(steady_now());
  return call;
}

void HeartbeatSender::handle_answer(const api::HeartbeatAnswer& answer, bool brought_flight,
                                    bool trace_wanted) {
  Lock lock(mutex_);
  trace_wanted_ = trace_wanted;
  if (!schedule_.answers()) LS_LOG(info, "the daemon answers again");
  handle_pace(answer);
  if (!answer.orphaned) handle_items_answer(answer, brought_flight);
  if (answer.orphaned && !schedule_.is_orphaned())
    LS_LOG(warning,
           "the daemon's store does not know this node: its ranks go on, and what they "
           "say is kept here, until the node is adopted or stopped");
  if (answer.orphaned) send_again_ = false;
  const model::CommandKind before = schedule_.command().kind;
  if (!schedule_.handle_answer(command_of(answer), steady_now())) return;
  if (answer.command != before) LS_LOG(info, "the daemon says {}", text(answer.command));
  wake();
}

void HeartbeatSender::handle_pace(const api::HeartbeatAnswer& answer) {
  if (answer.interval_seconds) schedule_.set_interval(seconds_of(*answer.interval_seconds));
  send_again_at_ = steady_now() + seconds_of(answer.batch_pause_seconds.value_or(0));
}

void HeartbeatSender::handle_items_answer(const api::HeartbeatAnswer& answer, bool brought_flight) {
  // Items that were not stored would be the same call again.
  send_again_ = send_again_ && (items_sent_ == 0 || answer.acknowledged > acknowledged_);
  if (schedule_.is_orphaned()) {
    LS_LOG(info, "the daemon's store knows this node again");
    send_again_ = true;
  }
  acknowledged_ = answer.acknowledged;
  spool_.acknowledge(answer.acknowledged);
  if (suspect_item_count_ > 0) narrow_item_search();
  flight_wanted_ = answer.flight_wanted;
  if (flight_wanted_ && !brought_flight) {
    send_again_ = true;
    send_again_at_ = {};
  }
}

void HeartbeatSender::handle_failure(const Error& error) {
  Lock lock(mutex_);
  if (begin_item_search(error)) return;
  if (schedule_.answers()) LS_LOG(warning, "the daemon: {}", error.message);
  if (!schedule_.handle_failure(error, steady_now())) return;
  LS_LOG(warning, "the daemon refuses this node: {}", error.message);
  wake();
}

// The next call goes without items: it shows whether the items are the cause.
bool HeartbeatSender::begin_item_search(const Error& error) {
  if (error.code != Code::invalid || items_sent_ == 0) return false;
  suspect_item_count_ = items_sent_;
  items_max_ = 0;
  refusal_message_ = error.message;
  schedule_.clear_failures();
  send_again_ = true;
  return true;
}

// The daemon accepted the call. Without items: the status is valid. With items: none of these is
// the cause.
void HeartbeatSender::narrow_item_search() {
  if (items_sent_ == 0 && suspect_item_count_ == 1) {
    LS_LOG(warning, "the daemon refuses item {}, which is left out: {}", oldest_, refusal_message_);
    spool_.reject(oldest_, refusal_message_);
    suspect_item_count_ = 0;
  }
  suspect_item_count_ -= std::min(suspect_item_count_, items_sent_);
  items_max_ = suspect_item_count_ == 0 ? kAll : std::max<std::size_t>(1, suspect_item_count_ / 2);
  send_again_ = true;
}

// Waits until the call is due or, while the daemon answers, for a change. False at the end.
bool HeartbeatSender::wait_for_next_call() {
  Lock lock(mutex_);
  Duration next = schedule_.next_call();
  if (schedule_.answers() && (trace_wanted_ || orders_may_follow_)) next = {};
  if (schedule_.answers() && send_again_) next = std::min(next, send_again_at_);
  const auto until = Deadline::after(next - steady_now());
  while (!ending_ && !until.passed() && !schedule_.has_news()) changed_.wait_until(mutex_, until);
  return !ending_;
}

}  // namespace lockstep::agent
