// Lifeline: the authenticated stream that each pair of ranks keeps. Over it they agree on a Link
// and say what must not get lost: that one leaves, or gives up and why. Its end without a goodbye
// means that the peer's process died, which the kernel tells at once within a host, and between
// hosts too unless the host itself vanished (about five seconds).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "net/socket.h"

namespace lockstep {

// Who a rank is, for people and for the choice of a link.
struct Peer {
  int rank = 0;
  std::string host_id;
  std::int64_t pid = 0;
};
std::string text(const Peer& peer);  // "rank 3 (host b, pid 123)"
std::string to_frame(const Peer& peer);
Result<Peer> parse_peer(std::string_view frame);

struct Notice {
  enum class Kind {
    leaving,    // the peer will send nothing more than `sent`
    may_leave,  // the peer has all that we sent
    gave_up,    // `error` is why
    failing,    // `error` befell the peer, whose `testimony` says where it was; the verdict follows
    verdict,    // `error` is what all ranks are to say of it
    together,   // the peer shares memory with all ranks of its host
    apart,      // it does not, so that each rank of its host counts as a host of its own
    closed,     // after leaving: the peer is gone
    died,       // without leaving
  };
  Kind kind;
  std::uint64_t sent[kLaneCount] = {};
  Error error;
  std::string testimony{};  // at most kTestimonyLimit bytes
};
inline constexpr std::size_t kTestimonyLimit = 16 * 1024;

class Lifeline {
 public:
  Lifeline(Socket socket, Peer peer) : socket_(std::move(socket)), peer_(std::move(peer)) {}

  const Peer& peer() const { return peer_; }
  Socket& socket() { return socket_; }
  int fd() const { return socket_.fd(); }

  // Best effort and at once: who does not read is dead or about to be noticed as such.
  void tell(const Notice& notice);
  // The next thing that the peer said, if any. `closed` or `died` comes once, as the last.
  std::optional<Notice> hear();
  bool over() const { return over_; }

 private:
  Notice end();

  Socket socket_;
  Peer peer_;
  std::string received_;
  bool left_ = false;  // the peer has said that it leaves
  bool over_ = false;
};

}  // namespace lockstep
