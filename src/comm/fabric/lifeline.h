// Lifeline: the authenticated stream that each pair of ranks keeps. Over it they agree on a Link
// and say what must not get lost: that one leaves, or gives up and why. Its end without a goodbye
// means that the connection was lost. The kernel tells this at once when the peer's process ends
// or the connection is cut, and after about five seconds when the network or the host vanishes.
//
// TCP cannot tell the death of a process from a cut. Within a host the process itself can be looked
// for (PeerProcess): only then does a message say that a rank died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "net/socket.h"

namespace lockstep {

// A rank, for people and for the choice of a link.
struct Peer {
  int rank = 0;  // in the group
  std::string host_id;
  std::int64_t pid = 0;
  int number = 0;  // in the run; not part of the frame, since the group knows its members
};
std::string text(const Peer& peer);  // by its number: "rank 3 (host b, pid 123)"
std::string to_frame(const Peer& peer);
Result<Peer> parse_peer(std::string_view frame);

// Why a group ends, as its ranks tell each other.
struct GroupEnd {
  Error error;
  int at_fault = -1;       // the number in the run of the rank at fault; -1: unknown
  bool saw_death = false;  // the process at fault is known to have died
};

struct Notice {
  enum class Kind {
    leaving,    // the peer will send nothing more than `sent`
    may_leave,  // the peer has all that we sent
    gave_up,    // `end` is why
    failing,    // the peer met `end`; its `testimony` says where it was; the verdict follows
    verdict,    // `end` is what all ranks are to say
    together,   // the peer shares memory with all ranks of its host
    apart,      // it does not, so that each rank of its host counts as a host of its own
    closed,     // after leaving: the peer is gone
    lost,       // without leaving: the connection is gone, and maybe the peer
  };
  Kind kind;
  std::uint64_t sent[kLaneCount] = {};
  GroupEnd end{};
  std::string testimony{};  // at most kTestimonyLimit bytes
};
inline constexpr std::size_t kTestimonyLimit = 16 * 1024;

// The process at the other end of a Unix socket; of any other socket, none is known.
class PeerProcess {
 public:
  explicit PeerProcess(const Socket& socket);
  // True only where it is certain.
  bool has_ended() const;

 private:
  pid_t pid_ = 0;  // as this process sees it; 0: unknown
  std::uint64_t started_ = 0;
};

class Lifeline {
 public:
  Lifeline(Socket socket, Peer peer)
      : socket_(std::move(socket)), peer_(std::move(peer)), process_(socket_) {}

  const Peer& peer() const { return peer_; }
  Socket& socket() { return socket_; }
  int fd() const { return socket_.fd(); }
  // Whether the peer's process is known to have ended.
  bool has_died() const { return process_.has_ended(); }

  // Best effort and at once: who does not read is dead or about to be noticed as such.
  void tell(const Notice& notice);
  // The next thing that the peer said, if any. `closed` or `lost` comes once, as the last.
  std::optional<Notice> hear();
  bool over() const { return over_; }

 private:
  Notice end();

  Socket socket_;
  Peer peer_;
  PeerProcess process_;
  std::string received_;
  bool left_ = false;  // the peer has said that it leaves
  bool over_ = false;
};

}  // namespace lockstep
