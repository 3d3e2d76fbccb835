// ProgressEngine: what carries out a communicator's calls. Collectives run one after the other, as
// straight code that waits inside Exchange; every wait drives sends and receives, libfabric and the
// lifelines too, and ends with an error at the time-out, when a peer dies or leaves, and on abort.
//
// One thread at a time is the *driver* and holds the baton: the progress thread, which carries out
// what is queued, or a caller that waits anyway and carries out its own call (CallMode::blocking),
// which wakes nobody and allocates nothing. The progress thread gives the baton away whenever it
// has nothing to do.
//
// A failure is told to all ranks before any of their calls ends with it (inquest.h).
//
// Waiting: spin shortly, and hardly at all once yielding has shown that others run on this core;
// yield the core for about 100 us (ranks outnumber cores on small hosts), then sleep in epoll until
// a peer rings, a message comes or something is submitted. An idle communicator costs no time.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <variant>
#include <vector>

#include "base/mutex.h"
#include "comm/algorithm/algorithm.h"
#include "comm/algorithm/call.h"
#include "comm/algorithm/exchange.h"
#include "comm/algorithm/host_group.h"
#include "comm/algorithm/spinning.h"
#include "comm/choice/chooser.h"
#include "comm/collective/call_mode.h"
#include "comm/collective/inquest.h"
#include "comm/collective/pending.h"
#include "comm/collective/point_to_point.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/recorder.h"

namespace lockstep {

class ProgressEngine : private Exchange {
 public:
  // group: for the flight record. forced, costs: as for Chooser.
  ProgressEngine(std::unique_ptr<Endpoint> endpoint, const std::string& group, Duration timeout,
                 const std::optional<CallPlan>& forced, const Costs& costs);
  ~ProgressEngine() override;

  // From any thread. The header's sequence is given here.
  Pending submit(Call call, CallMode mode);
  Pending send(std::span<const std::byte> buffer, int peer, int tag);
  // peer: kAnyPeer for whoever sends; its rank is written to `source`, if given, before all is
  // done.
  Pending recv(std::span<std::byte> buffer, int peer, int tag, int* source = nullptr);
  void abort(Error error);

  const std::string& fabric() const { return endpoint_->fabric(); }
  std::span<const std::vector<int>> hosts() const override { return endpoint_->hosts(); }
  const Costs& costs() const { return costs_; }
  std::uint64_t wire_bytes() const { return wire_bytes_.load(std::memory_order_relaxed); }

 private:
  struct QueuedCall {
    Call call;
    Completer completer;
    FlightTicket ticket;
  };
  using Submission = std::variant<SendCall, RecvCall>;

  // Exchange: the driver's view of the collective that it carries out.
  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  std::span<const int> ring() const override { return ring_; }
  HostGroup* host() override { return host_ ? &*host_ : nullptr; }
  std::size_t piece_bytes() const override { return piece_bytes_; }
  Result<std::byte*> claim(int peer) override;
  void publish(int peer, std::size_t piece, std::size_t bytes) override;
  Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) override;
  void release(int peer) override;
  Result<void> wait_for(int peer, WaitFor what, const std::function<bool()>& ready) override;
  Result<void> check_call(int peer, const Header& header) const override;

  void serve();
  Result<void> serve_next() LS_REQUIRES(baton_);
  // Waits, without the baton when there is nothing to do, until a collective is queued.
  Result<void> await_work() LS_REQUIRES(baton_);
  Pending queue(Call call);
  // Nothing when somebody drives already, or calls are queued before this one.
  std::optional<Result<void>> carry_out_here(Call& call);
  // The call's own end: the error of all with what became of this call.
  Result<void> end_of(const Header& call, const Result<void>& done) const;
  std::optional<QueuedCall> take_queued();
  Result<void> drive(const Call& call, FlightTicket ticket);
  // Makes progress until ready(); false at the deadline.
  template <class Ready>
  Result<bool> wait(Ready ready, const Deadline& deadline);
  Result<bool> progress();
  // The same, mostly for the peer alone that is waited for, if it is one.
  Result<bool> look();
  Result<void> take_news();
  Result<void> slow_checks();
  // What has come from ranks that are not waited for just now must be of this call or a later one:
  // where calls do not match, two ranks may wait for each other while a third one shows why.
  Result<void> check_arrivals() const;
  Deadline silence_end();
  // Sleeps until ready() may be true, something comes, or the deadline.
  template <class Ready>
  Result<void> nap(Ready ready, Deadline deadline);
  // Waits for a peer within the collective; the flight record tells of it when it takes long.
  template <class Ready>
  Result<bool> wait_for_peer(int peer, WaitFor what, Ready ready);
  Result<void> check_message(int peer, const Header& header, std::size_t piece,
                             std::size_t bytes) const;
  Error missed(int peer, bool in_time, WaitFor what) const;
  void record_wait();
  // What all ranks are to say of a failure. The first one ends everything.
  Error conclude(const Error& cause);
  void tell_of_fault(const GroupEnd& end) const;
  int number() const { return endpoint_->number_of(rank()); }
  void break_down(const Error& error);
  void leave();
  template <class Call>
  Pending enqueue(Call call, const FlightCall& record);

  const std::unique_ptr<Endpoint> endpoint_;
  const Duration timeout_;
  const std::vector<int> ring_;
  const std::vector<bool> elsewhere_;  // by rank: on another host
  const std::size_t piece_bytes_;
  const Costs costs_;

  FlightRecorder recorder_;
  Mutex baton_;  // what follows is the driver's; held while it waits, too
  Chooser chooser_;
  std::optional<HostGroup> host_;
  PointToPoint point_to_point_;
  Header current_;       // of the collective that is carried out
  FlightTicket ticket_;  // the current collective's
  struct SlowWait {
    int peer;
    WaitFor what;
    bool recorded = false;
  };
  std::optional<SlowWait> peer_wait_;
  int sent_to_ = -1;  // last, in a collective
  bool stop_seen_ = false;
  bool abort_seen_ = false;
  std::optional<Error> concluded_;
  std::uint64_t received_bytes_ = 0;     // in the current collective
  std::optional<Deadline> silence_end_;  // of the wait for the peers, from its first slow moment
  std::optional<Deadline> next_checks_;  // of what costs system calls
  unsigned looks_ = 0;
  Spinning spinning_;
  std::atomic<std::uint64_t> wire_bytes_ = 0;  // to other hosts by collectives; written by drivers

  // Since the progress thread last lay down: it need not wake for what comes to them.
  std::atomic<bool> driven_by_callers_ = false;
  std::atomic<int> callers_waiting_ = 0;  // for the baton
  std::atomic<bool> resting_ = false;   // the progress thread has no work, or will find out at once
  std::atomic<bool> has_news_ = false;  // submissions, an abort or the stop wait to be seen
  std::atomic<std::size_t> queued_ = 0;  // collectives
  Mutex mutex_;                          // guards what follows
  std::deque<QueuedCall> collectives_ LS_GUARDED_BY(mutex_);
  std::deque<Submission> submissions_ LS_GUARDED_BY(mutex_);
  std::optional<Error> abort_ LS_GUARDED_BY(mutex_);
  std::optional<Error> broken_ LS_GUARDED_BY(mutex_);  // the first cause, for all later calls
  std::uint64_t sequence_ LS_GUARDED_BY(mutex_) = 0;
  bool stopping_ LS_GUARDED_BY(mutex_) = false;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep
