// PointToPoint: sends and receives, matched by (peer, tag) in order.
//
// Protocol. A send is *offered* with its size and tag; up to kEagerBytes come along with the offer.
// The receiver matches offers with its recvs and *grants* each; then the sender streams the *data*
// of a larger one, piece by piece. So data always has its place when it comes: nothing waits behind
// a message that nobody asked for, and two ranks that both send first do not deadlock. What is
// unexpected is bounded by kWindow offers of at most kEagerBytes from each peer.
//
// All state is the progress thread's own.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "comm/collective/pending.h"
#include "comm/fabric/endpoint/endpoint.h"

namespace lockstep {

inline constexpr std::size_t kEagerBytes = 4096;
inline constexpr std::size_t kWindow = 256;

struct SendCall {
  std::span<const std::byte> buffer;
  int peer, tag;
  Completer completer;
  Deadline deadline;
};
struct RecvCall {
  std::span<std::byte> buffer;
  int peer, tag;
  Completer completer;
  Deadline deadline;
};

class PointToPoint {
 public:
  explicit PointToPoint(Endpoint& endpoint);

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

 private:
  struct Offer {
    std::uint64_t number;
    int tag;
    std::uint64_t bytes;
    std::vector<std::byte> eager;
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
  Result<void> match(int peer, const Offer& offer, RecvCall call);
  bool send_grants(int peer);
  bool send_offers(int peer);
  bool send_data(int peer);
  template <class Visit>
  void for_each_call(Visit visit) const;

  Endpoint& endpoint_;
  std::vector<PeerState> peers_;
};

}  // namespace lockstep
