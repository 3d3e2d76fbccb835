// ProgressEngine: executes a communicator's calls. Collectives run one after the other, as
// sequential code that waits inside MessageExchange. Every wait also makes progress for sends and
// receives, libfabric and the control connections. It ends with an error on the time-out, when a
// peer dies or leaves, and on abort.
//
// One thread at a time is the *driver* and holds the progress mutex. It is either the progress
// thread, which executes queued calls, or a caller that waits anyway and executes its own call
// (CallMode::blocking), which wakes no thread and allocates nothing. The progress thread releases
// the progress mutex whenever it has no work.
//
// All ranks are informed of a failure before any of their calls ends with it (failure_consensus.h).
//
// Waiting: spin for a short time, and hardly at all once yielding has shown that other threads run
// on this core. Then yield the core for about 100 us (ranks outnumber cores on small hosts). Then
// sleep in epoll until a peer notifies, a message arrives or a call is submitted. An idle
// communicator uses no processor time.
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
#include "comm/algorithm/collective_call.h"
#include "comm/algorithm/exchange/adaptive_spin.h"
#include "comm/algorithm/exchange/message_exchange.h"
#include "comm/algorithm/host/host_group.h"
#include "comm/choice/plan_chooser.h"
#include "comm/collective/call_mode.h"
#include "comm/collective/failure_consensus.h"
#include "comm/collective/operation_future.h"
#include "comm/collective/point_to_point.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/recorder.h"

namespace lockstep::comm {

class ProgressEngine : private MessageExchange {
 public:
  // group: for the flight record. forced, costs: as for PlanChooser.
  ProgressEngine(std::unique_ptr<Endpoint> endpoint, const std::string& group, Duration timeout,
                 const std::optional<CallPlan>& forced, const Costs& costs);
  ~ProgressEngine() override;

  // From any thread. Sets the header's sequence.
  OperationFuture submit(CollectiveCall call, CallMode mode);
  OperationFuture send(std::span<const std::byte> buffer, int peer, int tag);
  // peer: kAnyPeer for any sender; its rank is written to `source`, if given, before the operation
  // is done.
  OperationFuture recv(std::span<std::byte> buffer, int peer, int tag, int* source = nullptr);
  void abort(Error error);
  // From any thread.
  void set_timeout(Duration timeout) { timeout_ = timeout; }
  OperationFuture end() const { return end_.future(); }

  const std::string& fabric() const { return endpoint_->fabric(); }
  std::span<const std::vector<int>> hosts() const override { return endpoint_->hosts(); }
  const Costs& costs() const { return costs_; }
  std::uint64_t wire_bytes() const { return wire_bytes_.load(std::memory_order_relaxed); }

 private:
  struct QueuedCall {
    CollectiveCall call;
    OperationPromise promise;
    FlightTicket ticket;
  };
  using Submission = std::variant<SendCall, RecvCall>;

  // MessageExchange: the driver's view of the collective that it executes.
  int rank() const override { return endpoint_->rank(); }
  int size() const override { return endpoint_->size(); }
  std::span<const int> ring() const override { return ring_; }
  HostGroup* host_group() override { return host_ ? &*host_ : nullptr; }
  std::size_t piece_bytes() const override { return piece_bytes_; }
  Result<std::byte*> claim(int peer) override;
  void publish(int peer, std::size_t piece, std::size_t bytes) override;
  Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) override;
  void release(int peer) override;
  Result<void> wait_for(int peer, WaitReason what, const std::function<bool()>& ready) override;
  Result<void> check_call(int peer, const MessageHeader& header) const override;

  void run_progress_thread();
  Result<void> execute_next() LS_REQUIRES(progress_mutex_);
  // Waits until a collective is queued. Releases the progress mutex when there is no work.
  Result<void> wait_for_work() LS_REQUIRES(progress_mutex_);
  OperationFuture enqueue_collective(CollectiveCall call);
  // Returns nullopt if another thread is the driver, or calls are queued before this one.
  std::optional<Result<void>> try_execute_inline(CollectiveCall& call);
  // The result for this call: the agreed failure, plus the state of this call.
  Result<void> result_of(const MessageHeader& call, const Result<void>& done) const;
  std::optional<QueuedCall> take_queued();
  Result<void> execute_call(const CollectiveCall& call, FlightTicket ticket);
  // Makes progress until ready(); false at the deadline.
  template <class Ready>
  Result<bool> wait(Ready ready, const Deadline& deadline);
  Result<bool> progress();
  // The same, mostly for the awaited peer alone, if there is one.
  Result<bool> poll_peer();
  Result<void> handle_submissions();
  Result<void> periodic_checks();
  // Messages from ranks that are not awaited now must belong to this call or a later one. Where
  // calls do not match, two ranks may wait for each other while a third one shows the reason.
  Result<void> check_arrivals() const;
  Deadline peer_deadline();
  // Sleeps until ready() may be true, an event arrives, or the deadline.
  template <class Ready>
  Result<void> block_until(Ready ready, Deadline deadline);
  // Waits for a peer within the collective; the flight record shows a long wait.
  template <class Ready>
  Result<bool> wait_for_peer(int peer, WaitReason what, Ready ready);
  // The link of the peer; in a large group it may have to be made.
  Result<Link*> link_to(int peer, WaitReason what);
  Result<void> check_message(int peer, const MessageHeader& header, std::size_t piece,
                             std::size_t bytes) const;
  Error wait_error(int peer, bool in_time, WaitReason what) const;
  void record_wait();
  // Returns the failure reason that all ranks report. The first failure ends all calls.
  Error agree_on_failure(const Error& cause);
  void report_as_fault(const FailureReason& end) const;
  int global_rank() const { return endpoint_->global_rank(rank()); }
  void fail_all_calls(const Error& error);
  void leave();
  template <class Call>
  OperationFuture enqueue_point_to_point(Call call, const FlightCall& record);

  const std::unique_ptr<Endpoint> endpoint_;
  std::atomic<Duration> timeout_;
  const std::vector<int> ring_;
  const std::vector<bool> on_other_host_;  // by rank: on another host
  const std::size_t piece_bytes_;
  const Costs costs_;

  FlightRecorder recorder_;
  Mutex progress_mutex_;  // guards the driver's state below; held while it waits, too
  PlanChooser chooser_;
  std::optional<HostGroup> host_;
  PointToPoint point_to_point_;
  MessageHeader current_;  // of the collective that runs
  FlightTicket ticket_;    // the current collective's
  struct SlowWait {
    int peer;
    WaitReason reason;
    bool recorded = false;
  };
  std::optional<SlowWait> peer_wait_;
  int sent_to_ = -1;  // the last peer, in a collective
  bool stop_seen_ = false;
  bool abort_seen_ = false;
  std::optional<Error> agreed_failure_;
  std::uint64_t received_bytes_ = 0;       // in the current collective
  std::optional<Deadline> peer_deadline_;  // of the wait for the peers, from its first slow moment
  std::optional<Deadline> next_periodic_checks_;  // of checks that need system calls
  unsigned wait_polls_ = 0;
  AdaptiveSpin spin_;
  std::atomic<std::uint64_t> wire_bytes_ = 0;  // to other hosts by collectives; written by drivers

  // Set since the progress thread last went to sleep: it need not wake for messages to callers.
  std::atomic<bool> callers_made_progress_ = false;
  std::atomic<int> callers_waiting_ = 0;  // for the progress mutex
  std::atomic<bool> idle_ = false;  // the progress thread has no work, or will find out at once
  // submissions, an abort or the stop are not handled yet
  std::atomic<bool> has_submissions_ = false;
  std::atomic<std::size_t> queued_ = 0;  // collectives
  Mutex mutex_;                          // guards what follows
  std::deque<QueuedCall> collectives_ LS_GUARDED_BY(mutex_);
  std::deque<Submission> submissions_ LS_GUARDED_BY(mutex_);
  std::optional<Error> abort_ LS_GUARDED_BY(mutex_);
  std::optional<Error> failure_ LS_GUARDED_BY(mutex_);  // the first cause, for all later calls
  std::uint64_t sequence_ LS_GUARDED_BY(mutex_) = 0;
  bool stopping_ LS_GUARDED_BY(mutex_) = false;

  const OperationPromise end_;

  std::thread thread_;  // last: it uses all of the above
};

}  // namespace lockstep::comm
