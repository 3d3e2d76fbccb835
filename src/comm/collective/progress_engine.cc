#include "comm/collective/progress_engine.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/format.h"
#include "comm/choice/pieces.h"
#include "comm/collective/execute.h"
#include "comm/collective/flight_call.h"
#include "comm/collective/wait_time.h"
#include "comm/group/fault.h"

namespace lockstep::comm {
namespace {

constexpr int kSpins = 100;
// Used where the core is shared with the thread that must run before the awaited event can happen.
constexpr int kSpinsOnSharedCore = 8;
// A thread that spins for one peer's message polls that peer. Every n-th poll covers all sources.
constexpr unsigned kPeerPollsPerFullPoll = 8;
// About 20 us.
constexpr int kProgressLockTries = 1000;
constexpr auto kYieldBound = std::chrono::microseconds(100);
// The interval for checks of control connections and time-outs while the thread does not sleep.
constexpr auto kPeriodicCheckInterval = std::chrono::milliseconds(1);
constexpr auto kLeaveBound = std::chrono::seconds(2);
// While leaving, free slots for grants are found only by polling.
constexpr auto kDrainPollInterval = std::chrono::milliseconds(5);
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr std::size_t kQueueLimit = 1 << 20;

std::vector<int> ring_of(const Endpoint& endpoint) {
  std::vector<int> ring;
  for (const auto& ranks : endpoint.hosts()) ring.insert(ring.end(), ranks.begin(), ranks.end());
  return ring;
}

std::vector<bool> ranks_on_other_hosts(const Endpoint& endpoint) {
  std::vector<bool> elsewhere(static_cast<std::size_t>(endpoint.size()), true);
  for (const auto& ranks : endpoint.hosts())
    if (std::find(ranks.begin(), ranks.end(), endpoint.rank()) != ranks.end())
      for (const int rank : ranks) elsewhere[static_cast<std::size_t>(rank)] = false;
  return elsewhere;
}

// Equal on all ranks, as are all its inputs.
std::size_t piece_bytes_in(const Endpoint& endpoint, const Costs& costs) {
  if (endpoint.hosts().size() == 1) return kLocalPieceBytes;
  return piece_bytes_between_hosts(costs, endpoint.piece_bytes());
}

std::vector<Link*> links_in_host(Endpoint& endpoint, const HostSharedMemory& share) {
  std::vector<Link*> links;
  for (const int rank : share.ranks)
    if (rank != endpoint.rank()) links.push_back(&endpoint.link(rank));
  return links;
}

// " of shard 1: ranks 2, 3"; empty for the world.
std::string in_group(const GroupRanks& members) {
  return members.is_world ? "" : " of " + text(members);
}

// For a collective; the root is also given by its global rank.
std::string describe_call(MessageHeader call, const GroupRanks& members) {
  if (call.root >= 0 && call.root < std::ssize(members.ranks))
    call.root = members.global_rank(call.root);
  return call_text(call);
}

// For a group that this rank leaves because another group failed.
FailureReason failure_from_fault(const GroupFault& fault) {
  const bool lost = fault.kind == GroupFault::Kind::connection_lost;
  return {{lost ? Code::peer_lost : Code::timeout, fault.text}, fault.rank};
}

Deadline earlier(const Deadline& a, const Deadline& b) { return a.at() < b.at() ? a : b; }

// The thread that makes progress must run as soon as a message arrives, even if threads compute on
// every core. Otherwise the wire is idle until they have used up their time slices. A scheduler
// with custom slices (Linux 6.12) runs a thread with a short slice at once, and gives it no larger
// share. Other schedulers ignore the request. It needs no privilege.
void request_short_time_slices() {
  struct {  // sched_attr, which none of our headers defines
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = 100'000;  // ns: the minimum
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void become_progress_thread() {
  // The program's own threads handle signals.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "lockstep-comm");
  if (sched_getscheduler(0) == SCHED_OTHER) request_short_time_slices();
}

}  // namespace

ProgressEngine::ProgressEngine(std::unique_ptr<Endpoint> endpoint, const std::string& group,
                               Duration timeout, const std::optional<CallPlan>& forced,
                               const Costs& costs)
    : endpoint_(std::move(endpoint)),
      timeout_(timeout),
      ring_(ring_of(*endpoint_)),
      on_other_host_(ranks_on_other_hosts(*endpoint_)),
      piece_bytes_(piece_bytes_in(*endpoint_, costs)),
      costs_(costs),
      recorder_({endpoint_->rank(), endpoint_->members(), group,
                 endpoint_->peer(endpoint_->rank()).host_id},
                flight_names()),
      chooser_(shape_of(endpoint_->hosts()), forced, costs, piece_bytes_),
      point_to_point_(*endpoint_, recorder_),
      spin_(kSpins, kSpinsOnSharedCore) {
  if (const auto* share = endpoint_->shared_memory())
    host_.emplace(static_cast<MessageExchange&>(*this), *share, links_in_host(*endpoint_, *share));
  thread_ = std::thread([this] { run_progress_thread(); });
}

ProgressEngine::~ProgressEngine() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    has_submissions_ = true;
  }
  endpoint_->wake();
  thread_.join();
}

OperationFuture ProgressEngine::submit(CollectiveCall call, CallMode mode) {
  if (mode == CallMode::nonblocking) return enqueue_collective(call);
  const WaitScope waits;
  if (auto done = try_execute_inline(call)) return OperationFuture::completed(std::move(*done));
  auto pending = enqueue_collective(call);
  (void)pending.wait();
  return pending;
}

OperationFuture ProgressEngine::enqueue_collective(CollectiveCall call) {
  const OperationPromise promise;
  {
    Lock lock(mutex_);
    if (failure_) return OperationFuture::completed(*failure_);
    if (collectives_.size() >= kQueueLimit)
      return OperationFuture::completed(Error{Code::exhausted,
                                              "too many collectives are queued; wait for "
                                              "some of them first"});
    call.header.sequence = ++sequence_;
    collectives_.push_back({call, promise, recorder_.record_queued(flight_call(call.header))});
    ++queued_;
  }
  endpoint_->wake();
  return promise.future();
}

std::optional<Result<void>> ProgressEngine::try_execute_inline(CollectiveCall& call) {
  // After the progress thread has completed a call of this thread, it releases the progress mutex
  // in a moment.
  int tries = 0;
  const TryLock progress_lock(progress_mutex_, [&] {
    if (tries++ == 0) ++callers_waiting_;
    return idle_.load() && tries < kProgressLockTries;
  });
  if (tries > 0) --callers_waiting_;
  if (!progress_lock) return std::nullopt;
  FlightTicket ticket;
  {
    Lock lock(mutex_);
    if (failure_) return Result<void>(*failure_);
    if (!collectives_.empty()) return std::nullopt;
    call.header.sequence = ++sequence_;
    ticket = recorder_.record_started(flight_call(call.header));
  }
  if (!callers_made_progress_.load(std::memory_order_relaxed)) callers_made_progress_ = true;
  if (host_) host_->set_background(false);
  auto done = execute_call(call, ticket);
  if (!done) fail_all_calls(done.error());
  return result_of(call.header, done);
}

template <class Call>
OperationFuture ProgressEngine::enqueue_point_to_point(Call call, const FlightCall& record) {
  auto future = call.promise.future();
  {
    Lock lock(mutex_);
    if (failure_) return OperationFuture::completed(*failure_);
    if (!point_to_point_.reserve_call())
      return OperationFuture::completed(
          Error{Code::exhausted,
                format("{} sends and receives are under way; wait for some of them first",
                       PointToPoint::kMostCalls)});
    call.ticket = recorder_.record_started(record);
    submissions_.push_back(std::move(call));
    has_submissions_ = true;
  }
  endpoint_->wake();
  return future;
}

OperationFuture ProgressEngine::send(std::span<const std::byte> buffer, int peer, int tag) {
  return enqueue_point_to_point(
      SendCall{buffer, peer, tag, {}, Deadline::after(timeout_.load()), {}},
      flight_send(buffer.size(), peer, tag));
}

OperationFuture ProgressEngine::recv(std::span<std::byte> buffer, int peer, int tag, int* source) {
  return enqueue_point_to_point(
      RecvCall{buffer, peer, tag, {}, Deadline::after(timeout_.load()), {}, source},
      flight_recv(buffer.size(), peer, tag));
}

void ProgressEngine::abort(Error error) {
  {
    Lock lock(mutex_);
    if (!abort_) abort_ = std::move(error);
    has_submissions_ = true;
  }
  endpoint_->wake();
}

void ProgressEngine::run_progress_thread() {
  become_progress_thread();
  progress_mutex_.lock();
  Result<void> served;
  while (served) served = execute_next();
  fail_all_calls(agree_on_failure(served.error()));
  if (stop_seen_) leave();
  progress_mutex_.unlock();
}

Result<void> ProgressEngine::execute_next() {
  TRY(wait_for_work());
  auto queued = take_queued();
  if (!queued) return {};
  recorder_.mark_started(queued->ticket);
  if (host_) host_->set_background(true);
  auto done = execute_call(queued->call, queued->ticket);
  if (!done) fail_all_calls(done.error());  // sets the cause before the caller can continue
  idle_ = queued_.load() == 0 && !point_to_point_.has_calls();
  queued->promise.complete(result_of(queued->call.header, done));
  return done;
}

// A caller may have met an error in the meantime.
Result<void> ProgressEngine::wait_for_work() {
  const auto has_work = [this] { return queued_.load() > 0 || has_submissions_.load(); };
  while (queued_.load() == 0) {
    if (TRY(progress())) continue;
    if (point_to_point_.has_calls()) {
      idle_ = false;
      TRY(wait([&] { return has_work() || !point_to_point_.has_calls(); },
               Deadline::after(kForever)));
      continue;
    }
    idle_ = true;
    const auto stirs = [&] { return has_work() || point_to_point_.has_arrivals(); };
    const bool callers_drive =
        callers_made_progress_.exchange(false) || callers_waiting_.load() > 0;
    const auto how =
        callers_drive ? Endpoint::WaitMode::ignore_remote : Endpoint::WaitMode::any_event;
    if (!endpoint_->prepare_wait(how, stirs)) continue;
    progress_mutex_.unlock();
    endpoint_->wait(how);
    progress_mutex_.lock();
    TRY(endpoint_->finish_wait());
    Lock lock(mutex_);
    if (failure_) return *failure_;
  }
  idle_ = false;
  return {};
}

std::optional<ProgressEngine::QueuedCall> ProgressEngine::take_queued() {
  Lock lock(mutex_);
  if (collectives_.empty()) return std::nullopt;
  auto call = std::move(collectives_.front());
  collectives_.pop_front();
  --queued_;
  return call;
}

Result<void> ProgressEngine::execute_call(const CollectiveCall& call, FlightTicket ticket) {
  current_ = call.header;
  ticket_ = ticket;
  peer_wait_.reset();
  received_bytes_ = 0;
  peer_deadline_.reset();
  Result<void> done;
  // an abort that arrived before the call
  if (has_submissions_.load()) done = handle_submissions();
  if (done) done = execute(*this, call, chooser_);
  if (!done) done = agree_on_failure(done.error());  // while the record shows the call as running
  recorder_.mark_ended(ticket, done.has_value(), received_bytes_);
  peer_wait_.reset();
  return done;
}

Result<void> ProgressEngine::result_of(const MessageHeader& call, const Result<void>& done) const {
  if (done || stop_seen_) return done;
  return Error{done.error().code,
               format("{}; rank {} was in {}{}, {} bytes had come", done.error().message,
                      global_rank(), describe_call(call, endpoint_->members()),
                      in_group(endpoint_->members()), received_bytes_)};
}

// Reads the clock only when a wait turns out to be slow, so short calls do not pay for it.
Deadline ProgressEngine::peer_deadline() {
  if (!peer_deadline_) peer_deadline_ = Deadline::after(timeout_.load());
  return *peer_deadline_;
}

template <class Ready>
Result<bool> ProgressEngine::wait(Ready ready, const Deadline& deadline) {
  auto yield_end = Deadline::after(kYieldBound);
  bool yields = false;
  for (int idle = 0;;) {
    const bool moved = TRY(idle < spin_.spins() ? poll_peer() : progress());
    if (ready()) return true;
    if (moved) {
      idle = 0;
      yields = false;
    }
    if (++idle < spin_.spins()) continue;
    if (!std::exchange(yields, true)) yield_end = Deadline::after(kYieldBound);
    if (yield_end.passed())
      TRY(block_until(ready, deadline));
    else
      spin_.yield();
    TRY(periodic_checks());
    if (deadline.passed()) return ready();
  }
}

Result<bool> ProgressEngine::progress() {
  if (has_submissions_.load()) TRY(handle_submissions());
  TRY(endpoint_->poll());
  return point_to_point_.progress();
}

Result<bool> ProgressEngine::poll_peer() {
  if (!peer_wait_ || ++wait_polls_ % kPeerPollsPerFullPoll == 0 || has_submissions_.load())
    return progress();
  TRY(endpoint_->poll_for(peer_wait_->peer));
  return false;
}

Result<void> ProgressEngine::handle_submissions() {
  std::deque<Submission> submissions;
  {
    Lock lock(mutex_);
    has_submissions_ = false;
    if (stopping_) {
      stop_seen_ = true;
      return Error{Code::cancelled, "the communicator was destroyed"};
    }
    abort_seen_ = abort_.has_value();
    if (abort_) return *abort_;
    submissions.swap(submissions_);
  }
  for (auto& submission : submissions) {
    if (auto* send = std::get_if<SendCall>(&submission))
      TRY(point_to_point_.submit(std::move(*send)));
    else
      TRY(point_to_point_.submit(std::move(std::get<RecvCall>(submission))));
  }
  return {};
}

Result<void> ProgressEngine::periodic_checks() {
  if (next_periodic_checks_ && !next_periodic_checks_->passed()) return {};
  next_periodic_checks_ = Deadline::after(kPeriodicCheckInterval);
  TRY(endpoint_->poll_all());
  TRY(check_arrivals());
  return point_to_point_.check();
}

Result<void> ProgressEngine::check_arrivals() const {
  if (!peer_wait_) return {};  // no collective runs
  for (const int peer : endpoint_->connected()) {
    const auto message = endpoint_->link(peer).front(LinkChannel::collective);
    if (message && message->header.sequence <= current_.sequence)
      TRY(check_call(peer, message->header));
  }
  return {};
}

template <class Ready>
Result<bool> ProgressEngine::wait_for_peer(int peer, WaitReason what, Ready ready) {
  if (ready()) return true;
  peer_wait_ = SlowWait{peer, what};
  const bool in_time = TRY(wait(ready, peer_deadline()));
  if (!in_time) return false;  // the record continues to show the wait
  if (peer_wait_->recorded) {
    const bool held_up =
        sent_to_ >= 0 && endpoint_->link(sent_to_).has_unsent(LinkChannel::collective);
    recorder_.mark_resumed(ticket_, held_up ? sent_to_ : -1);
  }
  peer_wait_.reset();
  return true;
}

void ProgressEngine::record_wait() {
  if (peer_wait_ && !std::exchange(peer_wait_->recorded, true))
    recorder_.mark_waiting(ticket_, peer_wait_->peer, peer_wait_->reason, received_bytes_);
}

template <class Ready>
Result<void> ProgressEngine::block_until(Ready ready, Deadline deadline) {
  record_wait();
  if (const auto other = point_to_point_.next_deadline(); other && other->at() < deadline.at())
    deadline = *other;
  TRY(point_to_point_.check());
  // Messages that arrived before, or arrive now, may show a failure, and no other event wakes this
  // thread.
  TRY(endpoint_->wait_until(deadline, [&] {
    return ready() || has_submissions_.load() || point_to_point_.has_arrivals() ||
           !check_arrivals();
  }));
  TRY(check_arrivals());
  return point_to_point_.check();
}

Result<Link*> ProgressEngine::link_to(int peer, WaitReason what) {
  if (endpoint_->is_connected(peer)) return &endpoint_->link(peer);
  TRY(endpoint_->request_link(peer));
  const bool in_time = TRY(wait_for_peer(peer, what, [&] {
    return endpoint_->is_connected(peer) || endpoint_->is_disconnected(peer);
  }));
  if (!endpoint_->is_connected(peer)) return wait_error(peer, in_time, what);
  return &endpoint_->link(peer);
}

Result<std::byte*> ProgressEngine::claim(int peer) {
  auto& link = *TRY(link_to(peer, WaitReason::receive_data));
  std::byte* slot = nullptr;
  const auto ready = [&] {
    slot = link.claim(LinkChannel::collective);
    return slot != nullptr || endpoint_->is_drained(peer);
  };
  const bool in_time = TRY(wait_for_peer(peer, WaitReason::receive_data, ready));
  if (slot == nullptr) return wait_error(peer, in_time, WaitReason::receive_data);
  return slot;
}

void ProgressEngine::publish(int peer, std::size_t piece, std::size_t bytes) {
  auto header = current_;
  header.piece = static_cast<std::uint32_t>(piece);
  header.payload = static_cast<std::uint32_t>(bytes);
  if (on_other_host_[static_cast<std::size_t>(peer)])
    wire_bytes_.store(wire_bytes() + bytes, std::memory_order_relaxed);
  sent_to_ = peer;
  endpoint_->link(peer).publish(LinkChannel::collective, header);
}

Result<const std::byte*> ProgressEngine::receive(int peer, std::size_t piece, std::size_t bytes) {
  auto& link = *TRY(link_to(peer, WaitReason::send_data));
  const auto ready = [&] {
    return link.front(LinkChannel::collective) || endpoint_->is_drained(peer);
  };
  const bool in_time = TRY(wait_for_peer(peer, WaitReason::send_data, ready));
  const auto message = link.front(LinkChannel::collective);
  if (!message) return wait_error(peer, in_time, WaitReason::send_data);
  TRY(check_message(peer, message->header, piece, bytes));
  received_bytes_ += bytes;
  peer_deadline_.reset();
  return message->payload;
}

Result<void> ProgressEngine::wait_for(int peer, WaitReason what,
                                      const std::function<bool()>& ready) {
  const auto over = [&] { return ready() || endpoint_->is_drained(peer); };
  const bool in_time = TRY(wait_for_peer(peer, what, over));
  if (!ready()) return wait_error(peer, in_time, what);
  peer_deadline_.reset();
  return {};
}

void ProgressEngine::release(int peer) { endpoint_->link(peer).release(LinkChannel::collective); }

Result<void> ProgressEngine::check_call(int peer, const MessageHeader& header) const {
  if (same_call(header, current_)) return {};
  return Error{Code::invalid,
               format("the ranks' calls do not match: rank {} called {}, {} called {}",
                      global_rank(), describe_call(current_, endpoint_->members()),
                      text(endpoint_->peer(peer)), describe_call(header, endpoint_->members()))};
}

Result<void> ProgressEngine::check_message(int peer, const MessageHeader& header, std::size_t piece,
                                           std::size_t bytes) const {
  TRY(check_call(peer, header));
  if (header.piece != piece || header.payload != bytes)
    return Error{Code::corrupt,
                 format("{} sent piece {} of {} bytes where piece {} of {} was expected",
                        text(endpoint_->peer(peer)), header.piece, header.payload, piece, bytes)};
  return {};
}

Error ProgressEngine::wait_error(int peer, bool in_time, WaitReason what) const {
  const auto name = text(endpoint_->peer(peer));
  if (in_time)
    return {Code::peer_lost, format("{} left the group while others were in a call", name)};
  return {Code::timeout, format("rank {} timed out: it waited {} for {} {}", global_rank(),
                                lockstep::text(timeout_.load()), name, text(what))};
}

Error ProgressEngine::agree_on_failure(const Error& cause) {
  if (stop_seen_) return cause;  // a rank that leaves reports so by leaving
  if (agreed_failure_) return *agreed_failure_;
  record_wait();
  if (abort_seen_) endpoint_->send_abort({cause});
  endpoint_->pass_on_failure_reason();
  const auto end = abort_seen_ ? FailureReason{cause}
                   : endpoint_->failure_reason()
                       ? *endpoint_->failure_reason()
                       : FailureConsensus(*endpoint_, recorder_).agree_on_reason(cause);
  agreed_failure_ = end.error;
  if (!abort_seen_) report_as_fault(end);
  return *agreed_failure_;
}

// A rank that left in order is no network fault: then no rank is at fault.
void ProgressEngine::report_as_fault(const FailureReason& end) const {
  if (end.error.code == Code::timeout)
    notify_fault_listener({GroupFault::Kind::timed_out, end.rank_at_fault, end.error.message});
  if (end.error.code == Code::peer_lost && end.rank_at_fault >= 0)
    notify_fault_listener(
        {GroupFault::Kind::connection_lost, end.rank_at_fault, end.error.message});
}

void ProgressEngine::fail_all_calls(const Error& error) {
  std::deque<QueuedCall> collectives;
  std::deque<Submission> submissions;
  {
    Lock lock(mutex_);
    if (failure_) return;
    failure_ = error;
    collectives.swap(collectives_);
    submissions.swap(submissions_);
    queued_ = 0;
  }
  point_to_point_.fail_all(error);
  for (const auto& call : collectives) {
    recorder_.mark_ended(call.ticket, false, 0);
    call.promise.complete(error);
  }
  for (const auto& call : submissions)
    std::visit([&](const auto& one) { point_to_point_.fail(one, error); }, call);
  end_.complete(error);
}

// First sends the unsent grants, which complete sends of the peers; then leaves.
void ProgressEngine::leave() {
  const auto deadline = Deadline::after(kLeaveBound);
  const auto drain_until = [&](const std::function<bool()>& ready) -> Result<void> {
    while (!ready() && !deadline.passed()) {
      TRY(endpoint_->poll_all());
      if (TRY(point_to_point_.progress())) continue;
      TRY(endpoint_->wait_until(earlier(deadline, Deadline::after(kDrainPollInterval)),
                                [&] { return ready() || point_to_point_.has_arrivals(); }));
    }
    return {};
  };
  // A failure here means that a peer died or aborted: then no rank waits for this rank to leave.
  if (!drain_until([&] { return !point_to_point_.has_unsent_grants(); })) return;
  if (const auto fault = first_fault()) endpoint_->send_abort(failure_from_fault(*fault));
  endpoint_->start_leaving();
  (void)drain_until([&] { return endpoint_->leave_acknowledged(); });
}

}  // namespace lockstep::comm
