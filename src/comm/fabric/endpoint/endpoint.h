// Endpoint: the connections of one rank to its group: a control connection and a link to every
// peer, and the one place where its progress thread sleeps. In a large group a rank connects to few
// peers at once, and to others on demand (docs/design/large-groups.md).
//
// The link of a pair. It is shared memory if both have the same host id, the control connection is
// a Unix socket, and the peer can read a random token through the segment. Otherwise the configured
// provider selects the Transport, TCP or libfabric. The two ranks agree on it over the control
// connection, so they never differ.
//
// Ranks of one host also share memory beside their links (HostSharedMemory). Each pair of ranks
// must prove that it shares a host. If one pair cannot, each rank of that host counts as a separate
// host, and all ranks of the group know it.
//
// For one thread at a time, except for wait() and wake(). Peers and links are numbered by rank;
// there is none for this rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fork_guard.h"
#include "base/result.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/control_connection.h"
#include "comm/fabric/doorbell.h"
#include "comm/fabric/endpoint/overlay.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/host_shared_memory.h"
#include "comm/fabric/transport.h"
#include "comm/group/group_ranks.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/crypto.h"

namespace lockstep::comm {

class Membership;

struct EndpointOptions {
  int rank = 0;
  int size = 1;
  std::string host_id;
  net::Secret secret;
  std::string group;
  GroupRanks members = {};  // empty: all ranks of a run
  Duration timeout{};
  NetworkOptions network;
  Membership* membership = nullptr;      // its check() ends connecting; its members are the peers
  int full_mesh_ranks = kFullMeshRanks;  // larger groups connect on demand
};

// Connects further peers of a large group, when all have met.
class PeerConnector {
 public:
  virtual ~PeerConnector() = default;
  // To a lower rank. peer_lost when it is gone.
  virtual Result<void> connect(int peer) = 0;
  // Takes the connections of higher ranks that wait for it.
  virtual Result<void> accept_waiting() = 0;
};

class Endpoint {
 public:
  // Connects to all peers, bounded by the time-out.
  static Result<std::unique_ptr<Endpoint>> create(EndpointOptions options, Rendezvous& rendezvous);
  ~Endpoint();

  int rank() const { return self_.rank; }
  int size() const { return static_cast<int>(links_.size()); }
  // The link to a connected peer.
  Link& link(int peer) { return *links_[static_cast<std::size_t>(peer)]; }
  bool is_connected(int peer) const { return links_[static_cast<std::size_t>(peer)] != nullptr; }
  // Every other rank, or in a large group those that are connected by now.
  std::span<const int> connected() const { return connected_; }
  // All ranks are connected from the start.
  bool is_full_mesh() const { return full_mesh_; }
  // Has the link made soon, if there is none: the higher of two ranks connects to the lower one.
  Result<void> request_link(int peer);
  const Peer& peer(int rank) const { return peers_[static_cast<std::size_t>(rank)]; }
  const GroupRanks& members() const { return members_; }
  // The global rank of a rank of the group, for messages.
  int global_rank(int rank) const { return members_.global_rank(rank); }
  // The ranks of each host, ascending; hosts in the order of their lowest rank. Equal on all ranks.
  const std::vector<std::vector<int>>& hosts() const { return hosts_; }
  // The network from this rank to other hosts: "tcp over eth1"; empty when all ranks are on this
  // host.
  const std::string& fabric() const { return fabric_; }
  // Link::piece_bytes() of the links to other hosts; equal on all ranks.
  std::size_t piece_bytes() const { return piece_bytes_; }
  // Null when this rank is alone on its host.
  const HostSharedMemory* shared_memory() const {
    return shared_memory_ ? &*shared_memory_ : nullptr;
  }
  // The peer has left in order; everything that it sent has arrived.
  bool is_drained(int peer) const {
    return disconnected_[static_cast<std::size_t>(peer)] &&
           (!transport_ || transport_->is_drained(peer));
  }
  // The peer has left or was lost, or its process has died; messages from it may be in flight.
  bool is_disconnected(int peer) const { return disconnected_[static_cast<std::size_t>(peer)]; }

  // Makes progress. Fails when the connection to a peer was lost, or a peer aborted.
  Result<void> poll();
  // As Transport::poll_for().
  Result<void> poll_for(int peer);
  // As poll(), and also receives from the control connections, which needs system calls.
  Result<void> poll_all();
  // Blocks until an event may have happened, at most until the deadline. It calls `ready` once more
  // after peers know that they must notify, so no event is missed.
  Result<void> wait_until(Deadline deadline, const std::function<bool()>& ready);
  // The same in three parts, for a thread that has no work. Between prepare_wait() and
  // finish_wait() it only calls wait(), and another thread may use the endpoint. Peers do not
  // notify it of collective messages, because none is running. prepare_wait() returns false when
  // something is ready. With ignore_remote it does not wake for messages from other hosts, which
  // another thread then handles; it checks for them only at intervals.
  enum class WaitMode { any_event, ignore_remote };
  bool prepare_wait(WaitMode how, const std::function<bool()>& ready);
  void wait(WaitMode how) const;
  Result<void> finish_wait();
  void wake();  // ends a wait of any kind; from any thread

  // The calls of all peers end with this error.
  void send_abort(const FailureReason& end);
  // The same in two steps, after which all ranks report the same
  // (comm/collective/failure_consensus.h). First each rank sends all others its error and position;
  // then one of them sends the failure reason.
  // In a large group the notice of the failure, and then the reason, go from neighbour to
  // neighbour, and the report to the ranks that may decide. No message goes back to the neighbour
  // that sent it.
  void send_failure_notice(const FailureReason& cause);
  void send_failure_report(const FailureReason& cause, const std::string& report);
  void send_failure_reason(const FailureReason& reason);
  // Sends a failure reason that came from a peer to the others, in a large group.
  void pass_on_failure_reason();
  // True for those that receive the failure reports of all.
  bool receives_reports() const;
  // The first loss of a connection, here or at a peer that reported it. A known process death
  // replaces a loss without one.
  const std::optional<FailureReason>& connection_loss() const { return connection_loss_; }
  // Once this rank is failing: receives until ready() or the deadline. Errors of peers in this time
  // are not errors of this rank.
  void collect_failure_reports(Deadline deadline, const std::function<bool()>& ready);
  // The peer's failure report, if it is failing.
  const std::optional<std::string>& failure_report(int peer) const {
    return failure_reports_[static_cast<std::size_t>(peer)];
  }
  // A peer is failing. It was connected to all ranks before, so it has informed all of them.
  bool is_failure_announced() const { return is_failure_announced_; }
  // The failure reason from a peer, which all ranks report.
  const std::optional<FailureReason>& failure_reason() const { return failure_reason_; }
  // Tells all peers that this rank leaves. Then call poll_all() until leave_acknowledged(): all
  // peers have received the sent data, or are gone.
  void start_leaving();
  bool leave_acknowledged() const;

 private:
  friend class EndpointConnector;
  Endpoint(Peer self, GroupRanks members, bool full_mesh, Doorbell doorbell, Fd control_epoll);
  // peer: whose control connection it is; -1: it is none.
  static Result<void> watch(const Fd& epoll, int fd, int peer = -1);
  Result<void> receive_notices();
  Result<void> receive_notices_of(int peer);
  // As receive_notices(), for a moment: why a peer is gone. No error if none comes.
  Result<void> wait_for_reason_of_loss();
  // Notices, and in a large group connections on demand.
  Result<void> receive_control_messages();
  Result<void> ignore_if_left(Result<void> polled);
  Result<void> handle_control_message(int peer, ControlMessage message);
  // Returns no error once this rank is failing itself.
  Result<void> unless_failing(Error error) const;
  Error on_connection_lost(int peer);
  void record_connection_loss(const FailureReason& end);
  void mark_dead(int global_rank);
  // To all connected peers.
  void send_to_all(const ControlMessage& message);
  // In a large group, to the neighbours that have not sent it themselves.
  void send_to_neighbours(const ControlMessage& message, const std::vector<bool>& senders);
  void send_to_deciding_ranks(const ControlMessage& message);
  // To any rank, through others where it is not connected.
  void send_to(int rank, ControlMessage message);
  void pass_on(const ControlMessage& message);
  Result<void> connect_to_callers();
  void add_link(int peer, Link* link);
  Result<void> add_connection(net::Socket socket, const Peer& peer);
  void acknowledge_leaves();
  void set_sleeping(LinkChannel channel, bool sleeping);
  // Waits for control_epoll_ and, unless control_only, for the transport. True when control_epoll_
  // is ready.
  enum class WaitSources { control_only, all };
  bool wait_for_events(WaitSources sources, Duration bound) const;

  struct PendingLeave {
    std::uint64_t sent[kLinkChannelCount];
  };

  Peer self_;
  const GroupRanks members_;
  const bool full_mesh_;
  Doorbell doorbell_;
  Fd control_epoll_;                      // an epoll of the doorbell and the control connections
  std::unique_ptr<Transport> transport_;  // only where a peer needs it
  std::string fabric_;
  std::size_t piece_bytes_ = kTcpPieceBytes;
  std::vector<std::unique_ptr<Link>> owned_links_;  // those in shared memory
  std::vector<Link*> links_;
  std::vector<Peer> peers_;  // by rank
  std::vector<std::unique_ptr<ControlConnection>> control_connections_;
  std::vector<int> connected_;   // the peers with a control connection
  std::vector<bool> requested_;  // links
  std::vector<int> callers_;     // ranks that want this one to connect to them
  std::vector<bool> disconnected_, leave_acknowledged_;
  std::vector<std::optional<bool>> shares_memory_;  // what each peer reported of its host
  std::vector<std::vector<int>> hosts_;
  std::optional<HostSharedMemory> shared_memory_;
  std::vector<std::optional<PendingLeave>> pending_leaves_;  // received, and not acknowledged yet
  bool failing_ = false;
  bool is_failure_announced_ = false;
  std::vector<std::optional<std::string>> failure_reports_;  // of failing peers
  std::vector<int> neighbours_;                              // in a large group, ascending
  std::vector<bool> notice_senders_, reason_senders_;        // peers that sent a notice, a reason
  std::optional<FailureReason> failure_reason_;
  std::optional<FailureReason> connection_loss_;
  std::atomic<int> waiting_threads_ = 0;      // threads that wait
  std::unique_ptr<PeerConnector> connector_;  // in a large group, when all have met
  ForkGuard fork_guard_;                      // last: drops the descriptors before they are closed
};

}  // namespace lockstep::comm
