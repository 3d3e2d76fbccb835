#include "comm/fabric/endpoint/endpoint.h"

#include <algorithm>
#include <array>
#include <cerrno>

#include <poll.h>
#include <sys/epoll.h>

#include "base/format.h"

namespace lockstep::comm {
namespace {

// A failed connection is often the first sign of a loss. The control connection reports it a moment
// later, with more detail.
constexpr auto kLossConfirmTimeout = std::chrono::milliseconds(500);
constexpr auto kControlPollInterval = std::chrono::milliseconds(1);
// The interval at which a thread that does not wake for messages from other hosts checks for them.
constexpr auto kRemoteCheckInterval = std::chrono::milliseconds(20);
// Every wait has a bound, also the wait for work; the thread checks and continues.
constexpr auto kWaitLimit = std::chrono::seconds(60);

}  // namespace

Endpoint::Endpoint(Peer self, GroupRanks members, bool full_mesh, Doorbell doorbell,
                   Fd control_epoll)
    : self_(std::move(self)),
      members_(std::move(members)),
      full_mesh_(full_mesh),
      doorbell_(std::move(doorbell)),
      control_epoll_(std::move(control_epoll)) {
  const auto count = members_.ranks.size();
  links_.resize(count);
  peers_.resize(count);
  requested_.resize(count);
  control_connections_.resize(count);
  disconnected_.resize(count);
  leave_acknowledged_.resize(count);
  pending_leaves_.resize(count);
  shares_memory_.resize(count);
  failure_reports_.resize(count);
  notice_senders_.resize(count);
  reason_senders_.resize(count);
  if (!full_mesh_) neighbours_ = overlay_neighbours(self_.rank, static_cast<int>(count));
  peers_[static_cast<std::size_t>(self_.rank)] = self_;
}

Endpoint::~Endpoint() = default;

Result<void> Endpoint::watch(const Fd& epoll, int fd, int peer) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = peer;
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event) != 0)
    return os_error("watching a descriptor", errno);
  return {};
}

Result<void> Endpoint::poll() {
  return transport_ ? ignore_if_left(transport_->poll()) : Result<void>();
}

Result<void> Endpoint::poll_for(int peer) {
  return transport_ ? ignore_if_left(transport_->poll_for(peer)) : Result<void>();
}

Result<void> Endpoint::ignore_if_left(Result<void> polled) {
  if (polled || polled.error().code != Code::peer_lost) return polled;
  const auto disconnected_before = disconnected_;
  const auto deadline = Deadline::after(kLossConfirmTimeout);
  while (!deadline.passed()) {
    TRY(receive_control_messages());
    if (disconnected_ != disconnected_before) return {};  // it had left in order
    wait_for_events(WaitSources::control_only, kControlPollInterval);
  }
  const int peer = transport_->failed_peer();
  if (peer < 0) return polled;
  Error error{Code::peer_lost, format("lost the connection to {}: {}", text(this->peer(peer)),
                                      polled.error().message)};
  record_connection_loss({error, global_rank(peer), false});
  return error;
}

Result<void> Endpoint::poll_all() {
  TRY(receive_control_messages());
  TRY(poll());
  acknowledge_leaves();
  return {};
}

// One system call, for any number of peers without news. An error may have left messages behind
// that were read already.
Result<void> Endpoint::receive_notices() {
  for (const int peer : connected_)
    if (control_connections_[static_cast<std::size_t>(peer)]->has_unhandled())
      TRY(receive_notices_of(peer));
  std::array<epoll_event, 32> events;
  const int ready = ::epoll_wait(control_epoll_.get(), events.data(), events.size(), 0);
  for (int i = 0; i < ready; ++i)
    if (const int peer = events[static_cast<std::size_t>(i)].data.fd; peer >= 0)
      TRY(receive_notices_of(peer));
  return {};
}

Result<void> Endpoint::receive_notices_of(int peer) {
  while (auto message = control_connections_[static_cast<std::size_t>(peer)]->receive())
    TRY(handle_control_message(peer, *std::move(message)));
  return {};
}

Result<void> Endpoint::wait_for_reason_of_loss() {
  for (const auto bound = Deadline::after(kLossConfirmTimeout); !bound.passed();) {
    TRY(receive_notices());
    wait_for_events(WaitSources::control_only, kControlPollInterval);
  }
  return {};
}

Result<void> Endpoint::receive_control_messages() {
  TRY(receive_notices());
  if (!connector_ || failing_) return {};
  TRY(connector_->accept_waiting());
  return connect_to_callers();
}

Result<void> Endpoint::request_link(int peer) {
  const auto index = static_cast<std::size_t>(peer);
  if (is_connected(peer) || requested_[index]) return {};
  requested_[index] = true;
  if (peer < rank()) return connector_->connect(peer);
  send_to(peer, {ControlMessage::Kind::call});
  return {};
}

Result<void> Endpoint::connect_to_callers() {
  while (!callers_.empty()) {
    const int peer = callers_.back();
    callers_.pop_back();
    TRY(request_link(peer));
  }
  return {};
}

// Another thread may sleep, without a flag in the new link that it does.
void Endpoint::add_link(int peer, Link* link) {
  links_[static_cast<std::size_t>(peer)] = link;
  wake();
}

Result<void> Endpoint::add_connection(net::Socket socket, const Peer& peer) {
  const auto index = static_cast<std::size_t>(peer.rank);
  fork_guard_.add(socket.fd());
  TRY(watch(control_epoll_, socket.fd(), peer.rank));
  peers_[index] = peer;
  control_connections_[index] = std::make_unique<ControlConnection>(std::move(socket), peer);
  connected_.push_back(peer.rank);
  return {};
}

Result<void> Endpoint::unless_failing(Error error) const {
  if (failing_) return {};
  return error;
}

Result<void> Endpoint::handle_control_message(int peer, ControlMessage message) {
  auto& control = *control_connections_[static_cast<std::size_t>(peer)];
  if (control.is_closed()) ::epoll_ctl(control_epoll_.get(), EPOLL_CTL_DEL, control.fd(), nullptr);
  if (message.route) {
    const auto [from, to] = *message.route;
    if (from < 0 || from >= size() || to < 0 || to >= size() || from == rank())
      return Error{Code::corrupt,
                   format("{} passed on a notice of no rank", text(this->peer(peer)))};
    if (to != rank()) {
      pass_on(message);
      return {};
    }
    peer = from;
  }
  const auto index = static_cast<std::size_t>(peer);
  switch (message.kind) {
    case ControlMessage::Kind::leaving:
      pending_leaves_[index] = PendingLeave{{message.sent[0], message.sent[1]}};
      return {};
    case ControlMessage::Kind::leave_acknowledged:
      leave_acknowledged_[index] = true;
      return {};
    case ControlMessage::Kind::closed:
      disconnected_[index] = true;
      if (transport_) transport_->set_peer_left(peer);
      return {};
    case ControlMessage::Kind::shares_memory:
    case ControlMessage::Kind::shares_no_memory:
      shares_memory_[index] = message.kind == ControlMessage::Kind::shares_memory;
      return {};
    case ControlMessage::Kind::call:
      callers_.push_back(peer);
      return {};
    case ControlMessage::Kind::failing:
      is_failure_announced_ = true;
      if (!message.route) notice_senders_[index] = true;
      // In a large group only reports that were passed on are reports.
      if (is_full_mesh() || message.route)
        failure_reports_[index] = std::move(message.failure_report);
      if (!full_mesh_ && message.failure_reason.process_died)
        mark_dead(message.failure_reason.rank_at_fault);
      if (message.failure_reason.error.code == Code::peer_lost &&
          message.failure_reason.rank_at_fault >= 0)
        record_connection_loss(message.failure_reason);
      return unless_failing(std::move(message.failure_reason.error));
    case ControlMessage::Kind::failure_reason:
      reason_senders_[index] = true;
      if (!failure_reason_) failure_reason_ = std::move(message.failure_reason);
      return unless_failing(failure_reason_->error);
    case ControlMessage::Kind::aborted:
      if (!failure_reason_) {
        failure_reason_ = std::move(message.failure_reason);
        failure_reason_->error.message =
            format("rank {} gave up: {}", global_rank(peer), failure_reason_->error.message);
      }
      return unless_failing(failure_reason_->error);
    case ControlMessage::Kind::lost:
      disconnected_[index] = true;
      return unless_failing(on_connection_lost(peer));
  }
  return {};
}

Error Endpoint::on_connection_lost(int peer) {
  const auto& control = *control_connections_[static_cast<std::size_t>(peer)];
  const bool died = control.peer_has_died();
  const auto loss_text = died ? format("{} died", text(control.peer()))
                              : format("lost the connection to {}", text(control.peer()));
  const FailureReason loss{{Code::peer_lost, loss_text}, global_rank(peer), died};
  record_connection_loss(loss);
  // Ranks of other hosts cannot know it.
  if (died && !full_mesh_) send_to_deciding_ranks({ControlMessage::Kind::failing, {}, loss});
  return loss.error;
}

void Endpoint::mark_dead(int global_rank) {
  const auto found = std::ranges::find(members_.ranks, global_rank);
  if (found != members_.ranks.end())
    disconnected_[static_cast<std::size_t>(found - members_.ranks.begin())] = true;
}

void Endpoint::record_connection_loss(const FailureReason& end) {
  if (!connection_loss_ || (end.process_died && !connection_loss_->process_died))
    connection_loss_ = end;
}

void Endpoint::acknowledge_leaves() {
  for (const int rank : connected_) {
    const auto peer = static_cast<std::size_t>(rank);
    if (!pending_leaves_[peer]) continue;
    const bool all =
        std::all_of(std::begin(kLinkChannels), std::end(kLinkChannels), [&](LinkChannel channel) {
          return links_[peer]->arrived(channel) >=
                 pending_leaves_[peer]->sent[static_cast<std::size_t>(channel)];
        });
    if (!all) continue;
    control_connections_[peer]->send({ControlMessage::Kind::leave_acknowledged});
    pending_leaves_[peer].reset();
  }
}

void Endpoint::set_sleeping(LinkChannel channel, bool sleeping) {
  for (const int peer : connected_)
    links_[static_cast<std::size_t>(peer)]->set_sleeping(channel, sleeping);
}

// Does not use one epoll for both: the transport's would then signal each message, even while no
// thread sleeps.
bool Endpoint::wait_for_events(WaitSources sources, Duration bound) const {
  auto left = std::chrono::ceil<std::chrono::milliseconds>(bound);
  if (transport_)
    left = std::min(left, std::chrono::ceil<std::chrono::milliseconds>(transport_->max_sleep()));
  const bool transport_too = transport_ && sources == WaitSources::all;
  std::array<pollfd, 2> waited{
      {{control_epoll_.get(), POLLIN, 0}, {transport_too ? transport_->wait_fd() : -1, POLLIN, 0}}};
  ::poll(waited.data(), waited.size(), static_cast<int>(left.count()));
  return waited[0].revents != 0;
}

// Only the notifying peer resets the flag of the point-to-point channel. A thread that waits may
// still need it when a sleeping one is awake again.
Result<void> Endpoint::wait_until(Deadline deadline, const std::function<bool()>& ready) {
  ++waiting_threads_;
  for (const auto channel : kLinkChannels) set_sleeping(channel, true);
  bool people_stir = false;
  if (!ready() && (!transport_ || transport_->may_sleep()))
    people_stir =
        wait_for_events(WaitSources::all, std::min<Duration>(deadline.remaining(), kWaitLimit));
  set_sleeping(LinkChannel::collective, false);
  --waiting_threads_;
  if (people_stir) {
    doorbell_.clear();
    TRY(receive_control_messages());
  }
  TRY(poll());
  acknowledge_leaves();
  return {};
}

bool Endpoint::prepare_wait(WaitMode how, const std::function<bool()>& ready) {
  ++waiting_threads_;
  set_sleeping(LinkChannel::point_to_point, true);
  if (!ready() && (!transport_ || how == WaitMode::ignore_remote || transport_->may_sleep()))
    return true;
  --waiting_threads_;
  return false;
}

void Endpoint::wait(WaitMode how) const {
  if (how == WaitMode::any_event)
    wait_for_events(WaitSources::all, kWaitLimit);
  else
    wait_for_events(WaitSources::control_only,
                    transport_ ? Duration(kRemoteCheckInterval) : Duration(kWaitLimit));
}

Result<void> Endpoint::finish_wait() {
  --waiting_threads_;
  doorbell_.clear();
  return poll_all();
}

void Endpoint::wake() {
  if (waiting_threads_.load() > 0) doorbell_.ring();
}

void Endpoint::send_to_all(const ControlMessage& message) {
  for (const int peer : connected_)
    control_connections_[static_cast<std::size_t>(peer)]->send(message);
}

void Endpoint::send_to(int to, ControlMessage message) {
  message.route = {rank(), to};
  pass_on(message);
}

void Endpoint::send_to_neighbours(const ControlMessage& message, const std::vector<bool>& senders) {
  for (const int peer : neighbours_) {
    const auto index = static_cast<std::size_t>(peer);
    if (control_connections_[index] && !senders[index]) control_connections_[index]->send(message);
  }
}

void Endpoint::send_to_deciding_ranks(const ControlMessage& message) {
  for (const int decider : deciding_ranks(size()))
    if (decider != rank() && !is_disconnected(decider)) send_to(decider, message);
}

// A message that no connected rank is nearer to is lost: the ranks on its way have left.
void Endpoint::pass_on(const ControlMessage& message) {
  std::vector<int> reachable;
  for (const int peer : connected_)
    if (!is_disconnected(peer)) reachable.push_back(peer);
  const int next = next_hop(rank(), message.route->to, size(), reachable);
  if (next >= 0) control_connections_[static_cast<std::size_t>(next)]->send(message);
}

void Endpoint::send_abort(const FailureReason& end) {
  send_to_all({ControlMessage::Kind::aborted, {}, end});
}

void Endpoint::send_failure_notice(const FailureReason& cause) {
  failing_ = true;
  (void)receive_notices();      // which neighbours know already
  if (failure_reason_) return;  // which goes to all instead
  send_to_neighbours({ControlMessage::Kind::failing, {}, cause}, notice_senders_);
}

void Endpoint::send_failure_report(const FailureReason& cause, const std::string& report) {
  failing_ = true;
  if (is_full_mesh()) return send_to_all({ControlMessage::Kind::failing, {}, cause, report});
  send_failure_notice(cause);
  send_to_deciding_ranks({ControlMessage::Kind::failing, {}, cause, report});
}

void Endpoint::send_failure_reason(const FailureReason& reason) {
  if (is_full_mesh()) return send_to_all({ControlMessage::Kind::failure_reason, {}, reason});
  send_to_neighbours({ControlMessage::Kind::failure_reason, {}, reason}, reason_senders_);
}

bool Endpoint::receives_reports() const {
  return is_full_mesh() || std::ranges::count(deciding_ranks(size()), rank()) > 0;
}

void Endpoint::pass_on_failure_reason() {
  if (!full_mesh_ && failure_reason_) send_failure_reason(*failure_reason_);
}

void Endpoint::collect_failure_reports(Deadline deadline, const std::function<bool()>& ready) {
  for (;;) {
    (void)receive_control_messages();  // nothing is an error now
    if (ready() || deadline.passed()) return;
    wait_for_events(WaitSources::control_only, deadline.remaining());
    doorbell_.clear();
  }
}

void Endpoint::start_leaving() {
  for (const int peer : connected_)
    control_connections_[static_cast<std::size_t>(peer)]->send(
        {ControlMessage::Kind::leaving,
         {link(peer).sent(kLinkChannels[0]), link(peer).sent(kLinkChannels[1])}});
}

bool Endpoint::leave_acknowledged() const {
  return std::ranges::all_of(connected_, [this](int peer) {
    return leave_acknowledged_[static_cast<std::size_t>(peer)] || is_disconnected(peer);
  });
}

}  // namespace lockstep::comm
