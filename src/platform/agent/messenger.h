// Messenger: the agent's talk with the daemon, on a thread of its own.
//
// The loop says how the node stands (tell) and what was collected (add), and hears through orders()
// what the daemon wants; woken() becomes readable when that changed. News of the node is sent at
// once; items go at most every 200 ms. The daemon holds an answer back while it has no new command,
// but only for that long too: the one connection is then free for what happens next.
//
// While the daemon is away, calls are repeated ever more slowly, up to once a second, and the items
// wait in the spool. A refusal (the node is fenced, or its run is forgotten) counts only when it is
// given several times: after a crash another program may for a moment answer on the daemon's port.
//
// What ranks recorded of their collectives goes with the next call whenever the daemon's answer
// wants it, at once and once a call; it is packed by this thread, which nobody waits for.
//
// A call that the daemon finds invalid would hold up all that stands behind it, were it repeated.
// So the status is sent alone, and once that is taken, ever smaller halves of the refused items,
// until one item is alone: it gives way to a line that says so. A status that is refused alone is
// repeated as if the daemon were away.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>

#include "base/fd.h"
#include "base/mutex.h"
#include "platform/agent/daemon_link.h"
#include "platform/api/messages.h"
#include "platform/core/model/command.h"
#include "platform/item/item.h"
#include "platform/spool/spool.h"

namespace lockstep {

// What the daemon wants, as far as it was heard.
struct Orders {
  Command command;
  bool refused = false;  // it knows this node no longer
};

class Messenger {
 public:
  using PackFlight = std::function<api::FlightDelivery()>;

  struct Times {
    Duration pace;           // between calls
    Duration refusal_limit;  // until a daemon that refuses each call is believed
  };

  // `link` and `pack_flight` are used by the messenger's thread alone.
  static Result<std::unique_ptr<Messenger>> start(DaemonLink& link, Spool spool,
                                                  const api::Heartbeat& status, Times times,
                                                  PackFlight pack_flight);
  // Ends the thread, which may take as long as a call that is under way.
  ~Messenger();

  // How the node stands; items in it are ignored.
  void tell(const api::Heartbeat& status);
  // How far a rank is. It goes with the next call and causes none.
  void note_step(int rank, std::int64_t step);
  void add(Item item);

  Orders orders() const;
  // Everything told and added before has been acknowledged, and all that was wanted was brought.
  bool delivered() const;
  // How long the daemon has not answered.
  Duration silence() const;
  int woken() const { return woken_.get(); }
  // Makes woken() silent until the next change.
  void clear_woken();

 private:
  Messenger(DaemonLink& link, Spool spool, const api::Heartbeat& status, Times times,
            PackFlight pack_flight, Fd woken);
  void talk();
  api::Heartbeat next_call() LS_REQUIRES(mutex_);
  void hear(const api::HeartbeatAnswer& answer, bool brought_flight);
  void hear_as_orphan(const api::HeartbeatAnswer& answer) LS_REQUIRES(mutex_);
  void obey(const api::HeartbeatAnswer& answer) LS_REQUIRES(mutex_);
  void hear_failure(const Error& error);
  bool suspect_items(const Error& error) LS_REQUIRES(mutex_);
  void narrow_down() LS_REQUIRES(mutex_);
  bool pause(Duration duration);
  void wake();

  // Constant after construction.
  DaemonLink& link_;
  const Times times_;
  const PackFlight pack_flight_;
  Fd woken_;

  mutable Mutex mutex_;  // guards what follows
  Condition changed_;
  Spool spool_ LS_GUARDED_BY(mutex_);
  api::Heartbeat status_ LS_GUARDED_BY(mutex_);
  std::int64_t version_ LS_GUARDED_BY(mutex_) = 1;  // counts tell()
  std::int64_t sent_ LS_GUARDED_BY(mutex_) = 0;     // the version in the call under way
  std::int64_t known_ LS_GUARDED_BY(mutex_) = 0;    // the last version that was answered
  std::int64_t acknowledged_ LS_GUARDED_BY(mutex_) = 0;
  Orders orders_ LS_GUARDED_BY(mutex_);
  // The daemon's store does not know the node: its agent goes on as if no daemon were there.
  bool orphaned_ LS_GUARDED_BY(mutex_) = false;
  bool obeying_ LS_GUARDED_BY(mutex_) = false;  // the last answer brought a new command
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  bool more_ LS_GUARDED_BY(mutex_) = false;  // items wait that did not fit into the call
  bool flight_wanted_ LS_GUARDED_BY(mutex_) = false;
  int failures_ LS_GUARDED_BY(mutex_) = 0;                     // in a row
  std::optional<Deadline> refusal_end_ LS_GUARDED_BY(mutex_);  // of refusals without a break
  std::chrono::steady_clock::time_point heard_ LS_GUARDED_BY(mutex_) =
      std::chrono::steady_clock::now();
  bool disk_failed_ LS_GUARDED_BY(mutex_) = false;

  // The search for an item that the daemon refuses; no suspects: there is none.
  static constexpr auto kAll = std::numeric_limits<std::size_t>::max();
  std::size_t items_most_ LS_GUARDED_BY(mutex_) = kAll;  // in the next call
  std::size_t items_sent_ LS_GUARDED_BY(mutex_) = 0;     // in the call under way
  std::size_t suspects_ LS_GUARDED_BY(mutex_) = 0;       // so many of the oldest
  std::int64_t oldest_ LS_GUARDED_BY(mutex_) = 0;        // the sequence of the first of them
  std::string complaint_ LS_GUARDED_BY(mutex_);

  std::thread thread_;
};

}  // namespace lockstep
