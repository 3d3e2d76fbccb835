#include "platform/agent/messenger.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <memory>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/units.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr Bytes kBatch = 512_KiB;
constexpr Duration kCallMax = seconds(10);  // beyond the time that the answer may be held back
constexpr Duration kBackoffFirst = milliseconds(50);
constexpr Duration kBackoffMax = seconds(1);
constexpr Duration kObey = milliseconds(50);  // a new command makes news; they join the next call
constexpr Duration kOrphanPace = seconds(5);

// Bounded: the number comes from outside.
Duration grace_of(double value) {
  if (!std::isfinite(value)) return kGrace;
  return from_seconds(std::clamp(value, 0.0, 86'400.0));
}

Duration backoff(int failures) {
  return std::min(kBackoffMax, kBackoffFirst * (1 << std::min(failures - 1, 10)));
}

bool is_refusal(const Error& error) {
  return error.code == Code::denied || error.code == Code::not_found;
}

}  // namespace

Result<std::unique_ptr<Messenger>> Messenger::start(DaemonLink& link, Spool spool,
                                                    const api::Heartbeat& status, Times times,
                                                    PackFlight pack_flight) {
  Fd woken(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!woken) return os_error("making an eventfd", errno);
  std::unique_ptr<Messenger> messenger(new Messenger(link, std::move(spool), status, times,
                                                     std::move(pack_flight), std::move(woken)));
  messenger->thread_ = std::thread([raw = messenger.get()] { raw->talk(); });
  return messenger;
}

Messenger::Messenger(DaemonLink& link, Spool spool, const api::Heartbeat& status, Times times,
                     PackFlight pack_flight, Fd woken)
    : link_(link),
      times_(times),
      pack_flight_(std::move(pack_flight)),
      woken_(std::move(woken)),
      spool_(std::move(spool)),
      status_(status) {}

Messenger::~Messenger() {
  {
    Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

void Messenger::tell(const api::Heartbeat& status) {
  Lock lock(mutex_);
  if (status == status_) return;  // a rank that does not end is killed again and again
  status_ = status;
  ++version_;
  changed_.notify_all();
}

void Messenger::note_step(int rank, std::int64_t step) {
  const Lock lock(mutex_);
  for (Rank& each : status_.ranks)
    if (each.rank == rank) each.step = std::max(each.step, step);
}

void Messenger::add(Item item) {
  Lock lock(mutex_);
  auto added = spool_.add(std::move(item));
  if (added || std::exchange(disk_failed_, true)) return;
  LS_LOG(error, "{}: what does not fit is lost for the daemon", added.error().message);
}

Orders Messenger::orders() const {
  Lock lock(mutex_);
  return orders_;
}

bool Messenger::delivered() const {
  Lock lock(mutex_);
  return spool_.empty() && known_ == version_ && !flight_wanted_;
}

Duration Messenger::silence() const {
  Lock lock(mutex_);
  return std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - heard_);
}

void Messenger::clear_woken() {
  std::uint64_t count = 0;
  [[maybe_unused]] auto n = ::read(woken_.get(), &count, sizeof count);
}

void Messenger::wake() {
  std::uint64_t one = 1;
  [[maybe_unused]] auto n = ::write(woken_.get(), &one, sizeof one);
}

void Messenger::talk() {
  while (true) {
    const auto begun = Deadline::after(times_.pace);
    api::Heartbeat call;
    bool with_flight = false;
    {
      Lock lock(mutex_);
      if (ending_ || orders_.refused) return;
      call = next_call();
      with_flight = flight_wanted_ && suspects_ == 0;
    }
    if (with_flight) call.flight = pack_flight_();
    auto answer = link_.heartbeat(call, Deadline::after(times_.pace + kCallMax));
    if (answer)
      hear(*answer, with_flight);
    else
      hear_failure(answer.error());
    if (!pause(begun.left())) return;
  }
}

api::Heartbeat Messenger::next_call() {
  api::Heartbeat call = status_;
  call.items.clear();
  if (!orphaned_) call.items = spool_.batch(kBatch, items_most_);
  items_sent_ = call.items.size();
  if (items_sent_ > 0) oldest_ = call.items.front().sequence;
  more_ = !call.items.empty() && !spool_.ends_with(call.items.back().sequence);
  call.known_command = orders_.command.kind;
  const bool hurries = more_ || suspects_ > 0 || flight_wanted_ || orphaned_;
  call.wait_seconds = hurries ? 0 : in_seconds(times_.pace);
  sent_ = version_;
  return call;
}

void Messenger::hear(const api::HeartbeatAnswer& answer, bool brought_flight) {
  Lock lock(mutex_);
  if (failures_ > 0) LS_LOG(info, "the daemon answers again");
  failures_ = 0;
  refusal_end_.reset();
  known_ = sent_;
  if (answer.orphaned) return hear_as_orphan(answer);
  heard_ = std::chrono::steady_clock::now();
  more_ = more_ && answer.acknowledged > acknowledged_;  // else it would be the same call again
  if (std::exchange(orphaned_, false)) {
    LS_LOG(info, "the daemon's store knows this node again");
    more_ = true;
  }
  acknowledged_ = answer.acknowledged;
  spool_.acknowledge(answer.acknowledged);
  if (suspects_ > 0) narrow_down();
  flight_wanted_ = answer.flight_wanted;
  if (flight_wanted_ && !brought_flight) more_ = true;
  obey(answer);
}

void Messenger::obey(const api::HeartbeatAnswer& answer) {
  Command command{.kind = answer.command,
                  .master_address = answer.master_address,
                  .master_port = answer.master_port,
                  .rendezvous = answer.rendezvous,
                  .grace = grace_of(answer.grace_seconds)};
  obeying_ = command != orders_.command;
  if (obeying_) LS_LOG(info, "the daemon says {}", text(answer.command));
  orders_.command = std::move(command);
  wake();
}

// Nobody decides about it here: silence goes on for as long, and only an operator's `stop` is one
// of the orders.
void Messenger::hear_as_orphan(const api::HeartbeatAnswer& answer) {
  if (!std::exchange(orphaned_, true))
    LS_LOG(warning,
           "the daemon's store does not know this node: its ranks go on, and what they "
           "say is kept here, until the node is adopted or stopped");
  more_ = false;
  if (answer.command == CommandKind::stop) obey(answer);
}

void Messenger::hear_failure(const Error& error) {
  Lock lock(mutex_);
  if (suspect_items(error)) return;
  if (failures_++ == 0) LS_LOG(warning, "the daemon: {}", error.message);
  if (!is_refusal(error)) return refusal_end_.reset();
  if (!refusal_end_) refusal_end_ = Deadline::after(times_.refusal_limit);
  if (!refusal_end_->passed()) return;
  LS_LOG(warning, "the daemon refuses this node: {}", error.message);
  orders_.refused = true;
  wake();
}

// Whether it is the items' fault remains to be seen: the next call goes without.
bool Messenger::suspect_items(const Error& error) {
  if (error.code != Code::invalid || items_sent_ == 0) return false;
  suspects_ = items_sent_;
  items_most_ = 0;
  complaint_ = error.message;
  failures_ = 0;
  refusal_end_.reset();
  more_ = true;
  return true;
}

// The daemon took the call. Without items: the status is good. With some: it is none of these.
void Messenger::narrow_down() {
  if (items_sent_ == 0 && suspects_ == 1) {
    LS_LOG(warning, "the daemon refuses item {}, which is left out: {}", oldest_, complaint_);
    spool_.refuse(oldest_, complaint_);
    suspects_ = 0;
  }
  suspects_ -= std::min(suspects_, items_sent_);
  items_most_ = suspects_ == 0 ? kAll : std::max<std::size_t>(1, suspects_ / 2);
  more_ = true;
}

// Until the time is up or, while the daemon answers, there are news. False at the end.
bool Messenger::pause(Duration duration) {
  Lock lock(mutex_);
  if (failures_ > 0) duration = backoff(failures_);
  if (std::exchange(obeying_, false)) duration = std::max(duration, kObey);
  if (orphaned_ && failures_ == 0) duration = kOrphanPace;
  const auto until = Deadline::after(duration);
  while (!ending_ && !until.passed() && (failures_ > 0 || (sent_ == version_ && !more_)))
    changed_.wait_until(mutex_, until);
  return !ending_;
}

}  // namespace lockstep
