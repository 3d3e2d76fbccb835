// ControlConnection: the authenticated stream between each pair of ranks. Over it they agree on a
// Link and send messages that must not get lost: that a rank leaves, or that it aborts and why. If
// it closes without a leave message, the connection was lost. The kernel reports this at once when
// the peer's process ends or the connection is cut, and after about five seconds when the network
// or the host fails.
//
// TCP cannot distinguish the death of a process from a cut. Within a host, the process itself can
// be checked (PeerProcess): only then does a message say that a rank died.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include <sys/types.h>

#include "base/result.h"
#include "comm/fabric/link.h"
#include "net/socket.h"

namespace lockstep::comm {

// A rank, for messages and for the choice of a link.
struct Peer {
  int rank = 0;  // in the group
  std::string host_id;
  std::int64_t pid = 0;
  int global_rank = 0;  // in the run; not part of the frame, since the group knows its members
};
std::string text(const Peer& peer);  // by its number: "rank 3 (host b, pid 123)"
std::string to_frame(const Peer& peer);
Result<Peer> parse_peer(std::string_view frame);

// The reason why a group ends, as its ranks send it to each other.
struct FailureReason {
  Error error;
  int rank_at_fault = -1;     // the global rank at fault; -1: unknown
  bool process_died = false;  // the process at fault is known to have died
};

struct ControlMessage {
  enum class Kind {
    leaving,             // the peer will send nothing more than `sent`
    leave_acknowledged,  // the peer has received all that we sent
    aborted,             // `end` is the reason
    failing,  // the peer met `end`; `failure_report` has its position; the failure reason follows
    failure_reason,    // `end` is what all ranks report
    shares_memory,     // the peer shares memory with all ranks of its host
    shares_no_memory,  // it does not, so each rank of its host counts as a separate host
    call,              // a rank of a large group wants this one to connect to it
    closed,            // after leaving: the peer is gone
    lost,              // without leaving: the connection is gone, and possibly the peer
  };
  Kind kind;
  std::uint64_t sent[kLinkChannelCount] = {};
  FailureReason failure_reason{};
  std::string failure_report{};  // at most kFailureReportLimit bytes
  // Set if other ranks pass the message on, from rank to rank.
  struct Route {
    int from, to;
  };
  std::optional<Route> route{};
};
std::string to_frame(const ControlMessage& message);
// `corrupt` for anything else.
Result<ControlMessage> parse_control_message(std::string_view frame);
inline constexpr std::size_t kFailureReportLimit = 16 * 1024;

// The process at the other end of a Unix socket; of any other socket, none is known.
class PeerProcess {
 public:
  explicit PeerProcess(const net::Socket& socket);
  // True only if it is certain.
  bool has_ended() const;

 private:
  pid_t pid_ = 0;  // as this process sees it; 0: unknown
  std::uint64_t started_ = 0;
};

class ControlConnection {
 public:
  ControlConnection(net::Socket socket, Peer peer)
      : socket_(std::move(socket)), peer_(std::move(peer)), process_(socket_) {}

  const Peer& peer() const { return peer_; }
  net::Socket& socket() { return socket_; }
  int fd() const { return socket_.fd(); }
  // True if the peer's process is known to have ended.
  bool peer_has_died() const { return process_.has_ended(); }

  // Best effort, without waiting: a peer that does not read is dead or about to be detected as
  // such.
  void send(const ControlMessage& message);
  // The next message of the peer, if any. `closed` or `lost` is returned once, as the last.
  std::optional<ControlMessage> receive();
  bool is_closed() const { return closed_; }
  // receive() may return a message of bytes that it has read before.
  bool has_unhandled() const { return !received_.empty() && !closed_; }

 private:
  ControlMessage close();

  net::Socket socket_;
  Peer peer_;
  PeerProcess process_;
  std::string received_;
  bool peer_has_left_ = false;  // the peer has reported that it leaves
  bool closed_ = false;
};

}  // namespace lockstep::comm
