// PointToPoint: sends and receives, matched by (peer, tag) in order.
//
// Protocol. A send is *offered* with its size and tag; up to kEagerBytes come along with the offer.
// The receiver matches offers with its recvs and *grants* each; then the sender streams the *data*
// of a larger one, piece by piece. So data always has its place when it comes: nothing waits behind
// a message that nobody asked for, and two ranks that both send first do not deadlock. What is
// unexpected is bounded by kWindow offers of at most kEagerBytes from each peer.
//
// A recv from any peer takes the first offer with its tag that no recv posted before it takes.
//
// All state is the driver's own, but for the number of calls.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "comm/collective/pending.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/recorder.h"

namespace lockstep {

inline constexpr std::size_t kEagerBytes = 4096;
inline constexpr std::size_t kWindow = 256;

struct SendCall {
  std::span<const std::byte> buffer;
  int peer, tag;
  Completer completer;
  Deadline deadline;
  FlightTicket ticket;
};
struct RecvCall {
  std::span<std::byte> buffer;
  int peer, tag;  // the peer is kAnyPeer until one is matched
  Completer completer;
  Deadline deadline;
  FlightTicket ticket;
  int* source = nullptr;     // becomes the peer
  std::uint64_t number = 0;  // in the order in which they were posted
};

class PointToPoint {
 public:
  // The recorder tells of every call.
  PointToPoint(Endpoint& endpoint, FlightRecorder& recorder);

  // So many may be under way; each is admitted before it is submitted. False when there is no room.
  // From any thread.
  static constexpr std::size_t kMostCalls = 1 << 16;
  bool admit();
  void submit(SendCall call);
  Result<void> submit(RecvCall call);
  // Moves what can move; true when something did.
  Result<bool> progress();
  // True when progress() would find a message.
  bool has_arrivals() const;
  // True while there is something to move or to wait for.
  bool has_calls() const;
  // True while answers to peers are not sent.
  bool owes_answers() const;
  // An error that names a call which is late, or whose peer has left.
  Result<void> check() const;
  std::optional<Deadline> next_deadline() const;
  // Completes all calls with the error; answers that are owed are still sent by progress().
  void fail_all(const Error& error);
  // The same for one that was admitted and not submitted.
  void fail(const SendCall& call, const Error& error);
  void fail(const RecvCall& call, const Error& error);

 private:
  struct Offer {
    std::uint64_t number;
    int tag;
    std::uint64_t bytes;
    std::vector<std::byte> eager;
    std::uint64_t arrival;  // counted over all peers
  };
  struct Sending {
    SendCall call;
    std::size_t sent = 0;
  };
  struct Receiving {
    RecvCall call;
    std::size_t received = 0;
  };
  struct PeerState {
    std::deque<SendCall> waiting;                  // not offered yet
    std::map<std::uint64_t, SendCall> offered;     // large ones, by number
    std::map<std::uint64_t, Sending> streaming;    // granted
    std::uint64_t offers = 0, grants = 0;          // own sends
    std::deque<RecvCall> posted;                   // without an offer yet
    std::deque<Offer> unexpected;                  // without a recv yet
    std::map<std::uint64_t, Receiving> receiving;  // granted
    std::deque<std::uint64_t> owed;                // grants to send
    std::uint64_t offers_seen = 0, grants_made = 0;
  };

  PeerState& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  Result<bool> take_messages(int peer);
  Result<void> take_offer(int peer, const Incoming& message);
  Result<void> take_grant(int peer, const Incoming& message);
  Result<void> take_data(int peer, const Incoming& message);
  // Whose offer came first, of those with the tag that no recv has taken; kAnyPeer: nobody's.
  int peer_offering(int tag) const;
  // The recv that takes an offer, off its queue.
  std::optional<RecvCall> take_posted(int peer, int tag);
  Result<void> match(int peer, const Offer& offer, RecvCall call);
  template <class Call>
  void end(const Call& call, Result<void> result, std::size_t came);
  template <class Call>
  void fail(const Call& call, const char* verb, std::size_t moved, const Error& error);
  bool is_gone(int peer) const;
  std::string peer_text(int peer) const;
  bool send_grants(int peer);
  bool send_offers(int peer);
  bool send_data(int peer);
  template <class Visit>
  void for_each_call(Visit visit) const;

  Endpoint& endpoint_;
  FlightRecorder& recorder_;
  std::vector<PeerState> peers_;
  std::deque<RecvCall> posted_to_any_;  // without an offer yet
  std::uint64_t recvs_ = 0;
  std::uint64_t arrivals_ = 0;
  std::atomic<std::size_t> calls_ = 0;  // admitted and not ended
};

}  // namespace lockstep
