// HeartbeatSender: the agent's communication with the daemon, on its own thread.
//
// The loop sets the node's status (set_status) and adds items (add). orders() returns the daemon's
// commands; wake_fd() becomes readable when they change. A status change is sent at once, items at
// most every 200 ms. The daemon delays an answer while it has no new command, but at most for that
// time too: then the single connection is free for the next event.
//
// HeartbeatSchedule decides when to call, and the daemon's answers set the pace. While the daemon
// is away, items wait in the spool. The first call after that has none: the agents of all nodes
// call at that moment, and the answer says when the items may come.
//
// While answers have an order for traces, each call has the state of those traces and a part of
// one.
//
// Flight records of the ranks go with the next call whenever the daemon's answer requests them,
// once per request. This thread packs them, so the loop does not wait.
//
// A call that the daemon finds invalid would block all later items if it were repeated. So the
// status is sent alone. If that is accepted, ever smaller halves of the refused items follow until
// one item is left, which is replaced by a line that reports it. A status that is refused alone is
// repeated as if the daemon were away.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/os/fd.h"
#include "platform/agent/core/heartbeat_schedule.h"
#include "platform/agent/link/daemon_link.h"
#include "platform/agent/link/profile_relay.h"
#include "platform/api/messages.h"
#include "platform/core/model/command.h"
#include "platform/spool/spool.h"
#include "platform/spool/telemetry_item.h"

namespace lockstep::agent {

// The daemon's orders, as of its last answer.
struct DaemonOrders {
  model::Command command;
  bool refused = false;  // the daemon no longer knows this node
};

class HeartbeatSender {
 public:
  using PackFlight = std::function<api::FlightDelivery()>;
  // Follows the orders of an answer that are no commands; true if more of them may come at once.
  using FollowOrders = std::function<bool(const api::HeartbeatAnswer&)>;
  using Times = HeartbeatSchedule::Times;

  // Only the sender's thread uses `link`, `pack_flight`, `profiles` and `follow_orders`.
  static Result<std::unique_ptr<HeartbeatSender>> start(DaemonLink& link, spool::Spool spool,
                                                        const api::Heartbeat& status, Times times,
                                                        PackFlight pack_flight,
                                                        ProfileRelay profiles,
                                                        FollowOrders follow_orders);
  // Ends the thread, which may take as long as a call in progress.
  ~HeartbeatSender();

  // Sets the status of the node; items in it are ignored.
  void set_status(const api::Heartbeat& status);
  // Sets the step of a rank. It goes with the next call and triggers none.
  void set_step(int rank, std::int64_t step);
  void add(spool::TelemetryItem item);

  DaemonOrders orders() const;
  // True if everything set and added so far was acknowledged, and all requested records were sent.
  bool all_delivered() const;
  // The same but for telemetry, which waits for the next heartbeat.
  bool reports_delivered() const;
  // Time since the daemon's last answer.
  Duration time_since_answer() const;
  Duration time_since_contact() const;
  int wake_fd() const { return wake_fd_.get(); }
  // Makes wake_fd() unreadable until the next change.
  void clear_wake();

 private:
  HeartbeatSender(DaemonLink& link, spool::Spool spool, const api::Heartbeat& status, Times times,
                  PackFlight pack_flight, ProfileRelay profiles, FollowOrders follow_orders,
                  Fd woken);
  void send_loop();
  void follow_orders(const api::HeartbeatAnswer& answer);
  api::Heartbeat next_heartbeat() LS_REQUIRES(mutex_);
  void handle_answer(const api::HeartbeatAnswer& answer, bool brought_flight, bool trace_wanted);
  void handle_items_answer(const api::HeartbeatAnswer& answer, bool brought_flight)
      LS_REQUIRES(mutex_);
  void handle_failure(const Error& error);
  bool begin_item_search(const Error& error) LS_REQUIRES(mutex_);
  void narrow_item_search() LS_REQUIRES(mutex_);
  void handle_pace(const api::HeartbeatAnswer& answer) LS_REQUIRES(mutex_);
  bool wait_for_next_call();
  void wake();

  // Constant after construction.
  DaemonLink& link_;
  const PackFlight pack_flight_;
  const FollowOrders follow_orders_;
  Fd wake_fd_;
  ProfileRelay profiles_;  // of the sender's thread

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  spool::Spool spool_ LS_GUARDED_BY(mutex_);
  api::Heartbeat status_ LS_GUARDED_BY(mutex_);
  HeartbeatSchedule schedule_ LS_GUARDED_BY(mutex_);
  std::int64_t acknowledged_ LS_GUARDED_BY(mutex_) = 0;
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  bool send_again_ LS_GUARDED_BY(mutex_) = false;  // items that did not fit into the call wait
  Duration send_again_at_ LS_GUARDED_BY(mutex_){};
  bool flight_wanted_ LS_GUARDED_BY(mutex_) = false;
  bool trace_wanted_ LS_GUARDED_BY(mutex_) = false;       // the next part of one
  bool orders_may_follow_ LS_GUARDED_BY(mutex_) = false;  // more orders may follow at once
  bool disk_failed_ LS_GUARDED_BY(mutex_) = false;

  // The search for an item that the daemon refuses; suspect_item_count_ 0: none is running.
  static constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  std::size_t items_max_ LS_GUARDED_BY(mutex_) = kAll;        // in the next call
  std::size_t items_sent_ LS_GUARDED_BY(mutex_) = 0;          // in the call in progress
  std::size_t suspect_item_count_ LS_GUARDED_BY(mutex_) = 0;  // number of oldest items
  std::int64_t oldest_ LS_GUARDED_BY(mutex_) = 0;             // sequence of the first of them
  std::string refusal_message_ LS_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep::agent
