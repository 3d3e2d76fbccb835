// PointToPoint: sends and receives, matched by (peer, tag) in order.
//
// Protocol. A sender *offers* a send with its size and tag; up to kEagerBytes of data come with the
// offer. The receiver matches offers with its recvs and *grants* each. Then the sender streams the
// *data* of a larger one, piece by piece. So data always has a destination when it arrives. No
// message waits behind one that is not expected, and two ranks that both send first do not
// deadlock. Unexpected data is bounded by kWindow offers of at most kEagerBytes from each peer.
//
// A recv from any peer takes the first offer with its tag that no earlier recv takes.
//
// Only the driver accesses the state, except for the number of calls.
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
#include "comm/collective/operation_future.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/flight/recorder.h"

namespace lockstep::comm {

inline constexpr std::size_t kEagerBytes = 4096;
inline constexpr std::size_t kWindow = 256;

struct SendCall {
  std::span<const std::byte> buffer;
  int peer, tag;
  OperationPromise promise;
  Deadline deadline;
  FlightTicket ticket;
};
struct RecvCall {
  std::span<std::byte> buffer;
  int peer, tag;  // the peer is kAnyPeer until one is matched
  OperationPromise promise;
  Deadline deadline;
  FlightTicket ticket;
  int* source = nullptr;     // becomes the peer
  std::uint64_t number = 0;  // in the order in which they were posted
};

class PointToPoint {
 public:
  // The recorder records every call.
  PointToPoint(Endpoint& endpoint, FlightRecorder& recorder);

  // The maximum number of calls in flight. A slot is reserved for each call before it is submitted.
  // False when the limit is reached. From any thread.
  static constexpr std::size_t kMostCalls = 1 << 16;
  bool reserve_call();
  Result<void> submit(SendCall call);
  Result<void> submit(RecvCall call);
  // Makes all possible progress; true if there was any.
  Result<bool> progress();
  // True when progress() would find a message.
  bool has_arrivals() const;
  // True while any call is in flight.
  bool has_calls() const;
  // True while grants for peers are not sent.
  bool has_unsent_grants() const;
  // Returns an error that names a late call, or a call whose peer has left.
  Result<void> check() const;
  std::optional<Deadline> next_deadline() const;
  // Completes all calls with the error; progress() still sends unsent grants.
  void fail_all(const Error& error);
  // The same for a call that was reserved and not submitted.
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
    std::deque<std::uint64_t> unsent_grants;       // grants to send
    std::uint64_t offers_seen = 0, grants_made = 0;
  };

  PeerState& at(int peer) { return peers_[static_cast<std::size_t>(peer)]; }
  Result<bool> take_messages(int peer);
  Result<void> take_offer(int peer, const IncomingMessage& message);
  Result<void> take_grant(int peer, const IncomingMessage& message);
  Result<void> take_data(int peer, const IncomingMessage& message);
  // The peer whose offer with the tag came first and is not taken by a recv; kAnyPeer: none.
  int peer_offering(int tag) const;
  // Removes and returns the recv that takes an offer.
  std::optional<RecvCall> take_posted(int peer, int tag);
  Result<void> match(int peer, const Offer& offer, RecvCall call);
  template <class Call>
  void end(const Call& call, Result<void> result, std::size_t received_bytes);
  template <class Call>
  void fail(const Call& call, const char* verb, std::size_t moved, const Error& error);
  bool has_left(int peer) const;
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
  std::atomic<std::size_t> calls_ = 0;  // reserved and not ended
};

}  // namespace lockstep::comm
