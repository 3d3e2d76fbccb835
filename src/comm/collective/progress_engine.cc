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
#include "comm/collective/carry_out.h"
#include "comm/collective/flight_call.h"
#include "comm/group/fault.h"

namespace lockstep {
namespace {

constexpr int kSpins = 100;
// Where the core is shared with who must run before what is waited for can come.
constexpr int kSpinsOnSharedCore = 8;
// Of the looks of who spins for one peer's message, one in so many is at all there is.
constexpr unsigned kLooksAtPeer = 8;
// About 20 us.
constexpr int kBatonTries = 1000;
constexpr auto kYieldBound = std::chrono::microseconds(100);
// How often lifelines and time-outs are looked at while there is no time to sleep.
constexpr auto kCheckPause = std::chrono::milliseconds(1);
constexpr auto kLeaveBound = std::chrono::seconds(2);
// While leaving, room for an answer shows only by looking.
constexpr auto kDrainNap = std::chrono::milliseconds(5);
constexpr auto kForever = std::chrono::hours(24 * 365);
constexpr std::size_t kQueueLimit = 1 << 20;

std::vector<int> ring_of(const Endpoint& endpoint) {
  std::vector<int> ring;
  for (const auto& ranks : endpoint.hosts()) ring.insert(ring.end(), ranks.begin(), ranks.end());
  return ring;
}

std::vector<bool> elsewhere(const Endpoint& endpoint) {
  std::vector<bool> elsewhere(static_cast<std::size_t>(endpoint.size()), true);
  for (const auto& ranks : endpoint.hosts())
    if (std::find(ranks.begin(), ranks.end(), endpoint.rank()) != ranks.end())
      for (const int rank : ranks) elsewhere[static_cast<std::size_t>(rank)] = false;
  return elsewhere;
}

// Equal on all ranks, as is all that it follows from.
std::size_t piece_bytes_in(const Endpoint& endpoint, const Costs& costs) {
  if (endpoint.hosts().size() == 1) return kLocalPieceBytes;
  return piece_bytes_between_hosts(costs, endpoint.piece_bytes());
}

std::vector<Link*> links_in_host(Endpoint& endpoint, const HostShare& share) {
  std::vector<Link*> links;
  for (const int rank : share.ranks)
    if (rank != endpoint.rank()) links.push_back(&endpoint.link(rank));
  return links;
}

// " of shard 1: ranks 2, 3"; nothing of the world.
std::string in_group(const Members& members) {
  return members.is_world ? "" : " of " + text(members);
}

// Of a collective; the root is told by its number in the run, too.
std::string words_of(Header call, const Members& members) {
  if (call.root >= 0 && call.root < std::ssize(members.ranks))
    call.root = members.number_of(call.root);
  return call_text(call);
}

// Of a group that its rank leaves because another one failed.
GroupEnd end_by(const GroupFault& fault) {
  const bool lost = fault.kind == GroupFault::Kind::connection_lost;
  return {{lost ? Code::peer_lost : Code::timeout, fault.text}, fault.rank};
}

Deadline earlier(const Deadline& a, const Deadline& b) { return a.at() < b.at() ? a : b; }

// Who brings messages on should run as soon as one has come, also beside threads that compute on
// every core; else the wire rests until they have used up their time slices. A scheduler that lets
// threads choose (Linux 6.12) lets one with a short slice run at once; it gets no larger share for
// it. Others take no notice. Nobody needs a privilege for that.
void ask_for_short_slices() {
  struct {  // sched_attr, which no header of ours has
    std::uint32_t size, policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime, deadline, period;
  } attributes{};
  attributes.size = sizeof attributes;
  attributes.policy = SCHED_OTHER;
  attributes.nice = ::getpriority(PRIO_PROCESS, 0);
  attributes.runtime = 100'000;  // ns: the least
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

void become_progress_thread() {
  // Signals are the program's own threads' business.
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
  pthread_setname_np(pthread_self(), "lockstep-comm");
  if (sched_getscheduler(0) == SCHED_OTHER) ask_for_short_slices();
}

}  // namespace

ProgressEngine::ProgressEngine(std::unique_ptr<Endpoint> endpoint, const std::string& group,
                               Duration timeout, const std::optional<CallPlan>& forced,
                               const Costs& costs)
    : endpoint_(std::move(endpoint)),
      timeout_(timeout),
      ring_(ring_of(*endpoint_)),
      elsewhere_(elsewhere(*endpoint_)),
      piece_bytes_(piece_bytes_in(*endpoint_, costs)),
      costs_(costs),
      recorder_({endpoint_->rank(), endpoint_->members(), group,
                 endpoint_->peer(endpoint_->rank()).host_id},
                flight_names()),
      chooser_(shape_of(endpoint_->hosts()), forced, costs, piece_bytes_),
      point_to_point_(*endpoint_, recorder_),
      spinning_(kSpins, kSpinsOnSharedCore) {
  if (const auto* share = endpoint_->share())
    host_.emplace(static_cast<Exchange&>(*this), *share, links_in_host(*endpoint_, *share));
  thread_ = std::thread([this] { serve(); });
}

ProgressEngine::~ProgressEngine() {
  {
    Lock lock(mutex_);
    stopping_ = true;
    has_news_ = true;
  }
  endpoint_->wake();
  thread_.join();
}

Pending ProgressEngine::submit(Call call, CallMode mode) {
  if (mode == CallMode::nonblocking) return queue(call);
  if (auto done = carry_out_here(call)) return Pending::finished(std::move(*done));
  auto pending = queue(call);
  (void)pending.wait();
  return pending;
}

Pending ProgressEngine::queue(Call call) {
  const Completer completer;
  {
    Lock lock(mutex_);
    if (broken_) return Pending::finished(*broken_);
    if (collectives_.size() >= kQueueLimit)
      return Pending::finished(Error{Code::exhausted,
                                     "too many collectives are queued; wait for "
                                     "some of them first"});
    call.header.sequence = ++sequence_;
    collectives_.push_back({call, completer, recorder_.begin(flight_call(call.header))});
    ++queued_;
  }
  endpoint_->wake();
  return completer.pending();
}

std::optional<Result<void>> ProgressEngine::carry_out_here(Call& call) {
  // The progress thread, when it has just ended a call of ours, gives the baton away in a moment.
  int tries = 0;
  const TryLock baton(baton_, [&] {
    if (tries++ == 0) ++callers_waiting_;
    return resting_.load() && tries < kBatonTries;
  });
  if (tries > 0) --callers_waiting_;
  if (!baton) return std::nullopt;
  FlightTicket ticket;
  {
    Lock lock(mutex_);
    if (broken_) return Result<void>(*broken_);
    if (!collectives_.empty()) return std::nullopt;
    call.header.sequence = ++sequence_;
    ticket = recorder_.start(flight_call(call.header));
  }
  if (!driven_by_callers_.load(std::memory_order_relaxed)) driven_by_callers_ = true;
  if (host_) host_->set_background(false);
  auto done = drive(call, ticket);
  if (!done) break_down(done.error());
  return end_of(call.header, done);
}

template <class Call>
Pending ProgressEngine::enqueue(Call call, const FlightCall& record) {
  auto pending = call.completer.pending();
  {
    Lock lock(mutex_);
    if (broken_) return Pending::finished(*broken_);
    if (!point_to_point_.admit())
      return Pending::finished(
          Error{Code::exhausted,
                format("{} sends and receives are under way; wait for some of them first",
                       PointToPoint::kMostCalls)});
    call.ticket = recorder_.start(record);
    submissions_.push_back(std::move(call));
    has_news_ = true;
  }
  endpoint_->wake();
  return pending;
}

Pending ProgressEngine::send(std::span<const std::byte> buffer, int peer, int tag) {
  return enqueue(SendCall{buffer, peer, tag, {}, Deadline::after(timeout_), {}},
                 flight_send(buffer.size(), peer, tag));
}

Pending ProgressEngine::recv(std::span<std::byte> buffer, int peer, int tag, int* source) {
  return enqueue(RecvCall{buffer, peer, tag, {}, Deadline::after(timeout_), {}, source},
                 flight_recv(buffer.size(), peer, tag));
}

void ProgressEngine::abort(Error error) {
  {
    Lock lock(mutex_);
    if (!abort_) abort_ = std::move(error);
    has_news_ = true;
  }
  endpoint_->wake();
}

void ProgressEngine::serve() {
  become_progress_thread();
  baton_.lock();
  Result<void> served;
  while (served) served = serve_next();
  break_down(conclude(served.error()));
  if (stop_seen_) leave();
  baton_.unlock();
}

Result<void> ProgressEngine::serve_next() {
  TRY(await_work());
  auto queued = take_queued();
  if (!queued) return {};
  recorder_.started(queued->ticket);
  if (host_) host_->set_background(true);
  auto done = drive(queued->call, queued->ticket);
  if (!done) break_down(done.error());  // sets the cause before the caller can go on
  resting_ = queued_.load() == 0 && !point_to_point_.has_calls();
  queued->completer.complete(end_of(queued->call.header, done));
  return done;
}

// A caller may have met an error meanwhile.
Result<void> ProgressEngine::await_work() {
  const auto has_work = [this] { return queued_.load() > 0 || has_news_.load(); };
  while (queued_.load() == 0) {
    if (TRY(progress())) continue;
    if (point_to_point_.has_calls()) {
      resting_ = false;
      TRY(wait([&] { return has_work() || !point_to_point_.has_calls(); },
               Deadline::after(kForever)));
      continue;
    }
    resting_ = true;
    const auto stirs = [&] { return has_work() || point_to_point_.has_arrivals(); };
    const bool callers_drive = driven_by_callers_.exchange(false) || callers_waiting_.load() > 0;
    const auto how = callers_drive ? Endpoint::Doze::deaf : Endpoint::Doze::light;
    if (!endpoint_->lie_down(how, stirs)) continue;
    baton_.unlock();
    endpoint_->doze(how);
    baton_.lock();
    TRY(endpoint_->get_up());
    Lock lock(mutex_);
    if (broken_) return *broken_;
  }
  resting_ = false;
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

Result<void> ProgressEngine::drive(const Call& call, FlightTicket ticket) {
  current_ = call.header;
  ticket_ = ticket;
  peer_wait_.reset();
  received_bytes_ = 0;
  silence_end_.reset();
  Result<void> done;
  if (has_news_.load()) done = take_news();  // an abort that came before the call
  if (done) done = carry_out(*this, call, chooser_);
  if (!done) done = conclude(done.error());  // while the record shows the call under way
  recorder_.ended(ticket, done.has_value(), received_bytes_);
  peer_wait_.reset();
  return done;
}

Result<void> ProgressEngine::end_of(const Header& call, const Result<void>& done) const {
  if (done || stop_seen_) return done;
  return Error{done.error().code,
               format("{}; rank {} was in {}{}, {} bytes had come", done.error().message, number(),
                      words_of(call, endpoint_->members()), in_group(endpoint_->members()),
                      received_bytes_)};
}

// Read from the clock when a wait turns out to be one, so that short calls do not pay for it.
Deadline ProgressEngine::silence_end() {
  if (!silence_end_) silence_end_ = Deadline::after(timeout_);
  return *silence_end_;
}

template <class Ready>
Result<bool> ProgressEngine::wait(Ready ready, const Deadline& deadline) {
  auto yield_end = Deadline::after(kYieldBound);
  bool yields = false;
  for (int idle = 0;;) {
    const bool moved = TRY(idle < spinning_.spins() ? look() : progress());
    if (ready()) return true;
    if (moved) {
      idle = 0;
      yields = false;
    }
    if (++idle < spinning_.spins()) continue;
    if (!std::exchange(yields, true)) yield_end = Deadline::after(kYieldBound);
    if (yield_end.passed())
      TRY(nap(ready, deadline));
    else
      spinning_.yield();
    TRY(slow_checks());
    if (deadline.passed()) return ready();
  }
}

Result<bool> ProgressEngine::progress() {
  if (has_news_.load()) TRY(take_news());
  TRY(endpoint_->poll());
  return point_to_point_.progress();
}

Result<bool> ProgressEngine::look() {
  if (!peer_wait_ || ++looks_ % kLooksAtPeer == 0 || has_news_.load()) return progress();
  TRY(endpoint_->poll_for(peer_wait_->peer));
  return false;
}

Result<void> ProgressEngine::take_news() {
  std::deque<Submission> submissions;
  {
    Lock lock(mutex_);
    has_news_ = false;
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
      point_to_point_.submit(std::move(*send));
    else
      TRY(point_to_point_.submit(std::move(std::get<RecvCall>(submission))));
  }
  return {};
}

Result<void> ProgressEngine::slow_checks() {
  if (next_checks_ && !next_checks_->passed()) return {};
  next_checks_ = Deadline::after(kCheckPause);
  TRY(endpoint_->poll_all());
  TRY(check_arrivals());
  return point_to_point_.check();
}

Result<void> ProgressEngine::check_arrivals() const {
  for (int peer = 0; peer < size() && peer_wait_; ++peer) {  // within a collective
    if (peer == rank()) continue;
    const auto message = endpoint_->link(peer).front(Lane::collective);
    if (message && message->header.sequence <= current_.sequence)
      TRY(check_call(peer, message->header));
  }
  return {};
}

template <class Ready>
Result<bool> ProgressEngine::wait_for_peer(int peer, WaitFor what, Ready ready) {
  if (ready()) return true;
  peer_wait_ = SlowWait{peer, what};
  const bool in_time = TRY(wait(ready, silence_end()));
  if (!in_time) return false;  // the record goes on telling of the wait
  if (peer_wait_->recorded) {
    const bool held_up = sent_to_ >= 0 && endpoint_->link(sent_to_).has_unsent(Lane::collective);
    recorder_.resumed(ticket_, held_up ? sent_to_ : -1);
  }
  peer_wait_.reset();
  return true;
}

void ProgressEngine::record_wait() {
  if (peer_wait_ && !std::exchange(peer_wait_->recorded, true))
    recorder_.waiting(ticket_, peer_wait_->peer, peer_wait_->what, received_bytes_);
}

template <class Ready>
Result<void> ProgressEngine::nap(Ready ready, Deadline deadline) {
  record_wait();
  if (const auto other = point_to_point_.next_deadline(); other && other->at() < deadline.at())
    deadline = *other;
  TRY(point_to_point_.check());
  // What came before, or comes, may show a failure, and nothing else will wake this thread.
  TRY(endpoint_->sleep(deadline, [&] {
    return ready() || has_news_.load() || point_to_point_.has_arrivals() || !check_arrivals();
  }));
  TRY(check_arrivals());
  return point_to_point_.check();
}

Result<std::byte*> ProgressEngine::claim(int peer) {
  auto& link = endpoint_->link(peer);
  std::byte* slot = nullptr;
  const auto ready = [&] {
    slot = link.claim(Lane::collective);
    return slot != nullptr || endpoint_->gone(peer);
  };
  const bool in_time = TRY(wait_for_peer(peer, WaitFor::take_data, ready));
  if (slot == nullptr) return missed(peer, in_time, WaitFor::take_data);
  return slot;
}

void ProgressEngine::publish(int peer, std::size_t piece, std::size_t bytes) {
  auto header = current_;
  header.piece = static_cast<std::uint32_t>(piece);
  header.payload = static_cast<std::uint32_t>(bytes);
  if (elsewhere_[static_cast<std::size_t>(peer)])
    wire_bytes_.store(wire_bytes() + bytes, std::memory_order_relaxed);
  sent_to_ = peer;
  endpoint_->link(peer).publish(Lane::collective, header);
}

Result<const std::byte*> ProgressEngine::receive(int peer, std::size_t piece, std::size_t bytes) {
  auto& link = endpoint_->link(peer);
  const auto ready = [&] { return link.front(Lane::collective) || endpoint_->gone(peer); };
  const bool in_time = TRY(wait_for_peer(peer, WaitFor::send_data, ready));
  const auto message = link.front(Lane::collective);
  if (!message) return missed(peer, in_time, WaitFor::send_data);
  TRY(check_message(peer, message->header, piece, bytes));
  received_bytes_ += bytes;
  silence_end_.reset();
  return message->payload;
}

Result<void> ProgressEngine::wait_for(int peer, WaitFor what, const std::function<bool()>& ready) {
  const auto over = [&] { return ready() || endpoint_->gone(peer); };
  const bool in_time = TRY(wait_for_peer(peer, what, over));
  if (!ready()) return missed(peer, in_time, what);
  silence_end_.reset();
  return {};
}

void ProgressEngine::release(int peer) { endpoint_->link(peer).release(Lane::collective); }

Result<void> ProgressEngine::check_call(int peer, const Header& header) const {
  if (same_call(header, current_)) return {};
  return Error{Code::invalid,
               format("the ranks' calls do not match: rank {} called {}, {} called {}", number(),
                      words_of(current_, endpoint_->members()), text(endpoint_->peer(peer)),
                      words_of(header, endpoint_->members()))};
}

Result<void> ProgressEngine::check_message(int peer, const Header& header, std::size_t piece,
                                           std::size_t bytes) const {
  TRY(check_call(peer, header));
  if (header.piece != piece || header.payload != bytes)
    return Error{Code::corrupt,
                 format("{} sent piece {} of {} bytes where piece {} of {} was expected",
                        text(endpoint_->peer(peer)), header.piece, header.payload, piece, bytes)};
  return {};
}

Error ProgressEngine::missed(int peer, bool in_time, WaitFor what) const {
  const auto name = text(endpoint_->peer(peer));
  if (in_time)
    return {Code::peer_lost, format("{} left the group while others were in a call", name)};
  return {Code::timeout,
          format("rank {} waited {} for {} {}", number(), text(timeout_), name, text(what))};
}

Error ProgressEngine::conclude(const Error& cause) {
  if (stop_seen_) return cause;  // a rank that leaves tells so by leaving
  if (concluded_) return *concluded_;
  record_wait();
  if (abort_seen_) endpoint_->tell_giving_up({cause});
  const auto end = abort_seen_            ? GroupEnd{cause}
                   : endpoint_->verdict() ? *endpoint_->verdict()
                                          : Inquest(*endpoint_, recorder_).hold(cause);
  concluded_ = end.error;
  if (!abort_seen_) tell_of_fault(end);
  return *concluded_;
}

// A rank that left in order is at no fault of the network: then there is no rank at fault.
void ProgressEngine::tell_of_fault(const GroupEnd& end) const {
  if (end.error.code == Code::timeout)
    tell_fault({GroupFault::Kind::timed_out, end.at_fault, end.error.message});
  if (end.error.code == Code::peer_lost && end.at_fault >= 0)
    tell_fault({GroupFault::Kind::connection_lost, end.at_fault, end.error.message});
}

void ProgressEngine::break_down(const Error& error) {
  std::deque<QueuedCall> collectives;
  std::deque<Submission> submissions;
  {
    Lock lock(mutex_);
    if (broken_) return;
    broken_ = error;
    collectives.swap(collectives_);
    submissions.swap(submissions_);
    queued_ = 0;
  }
  point_to_point_.fail_all(error);
  for (const auto& call : collectives) {
    recorder_.ended(call.ticket, false, 0);
    call.completer.complete(error);
  }
  for (const auto& call : submissions)
    std::visit([&](const auto& one) { point_to_point_.fail(one, error); }, call);
}

// First the answers that are owed, which complete sends of the peers; then goodbye.
void ProgressEngine::leave() {
  const auto deadline = Deadline::after(kLeaveBound);
  const auto drain_until = [&](const std::function<bool()>& ready) -> Result<void> {
    while (!ready() && !deadline.passed()) {
      TRY(endpoint_->poll_all());
      if (TRY(point_to_point_.progress())) continue;
      TRY(endpoint_->sleep(earlier(deadline, Deadline::after(kDrainNap)),
                           [&] { return ready() || point_to_point_.has_arrivals(); }));
    }
    return {};
  };
  // A failure here is a peer that died or gave up: then nobody waits for a goodbye.
  if (!drain_until([&] { return !point_to_point_.owes_answers(); })) return;
  if (const auto fault = current_fault()) endpoint_->tell_giving_up(end_by(*fault));
  endpoint_->start_leaving();
  (void)drain_until([&] { return endpoint_->may_leave(); });
}

}  // namespace lockstep
