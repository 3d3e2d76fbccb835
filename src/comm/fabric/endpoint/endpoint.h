// Endpoint: all that one rank holds towards its group: a lifeline and a link to every peer, and the
// one place where its progress thread sleeps.
//
// Which link a pair gets: shared memory if both have the same host id, the lifeline is a Unix
// socket, and the peer can read a random token through the segment; otherwise one of the Transport
// that the provider stands for, TCP or libfabric. The two agree on it over the lifeline, so they
// never differ.
//
// Ranks of one host also share memory beside their links (HostShare). A host is what has proved it,
// pair by pair: where one pair could not, each rank of that host counts as a host of its own, and
// all ranks of the group know.
//
// For one thread at a time, but for doze() and wake(); peers and links are numbered by rank; there
// is none for the own rank.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/result.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/doorbell.h"
#include "comm/fabric/lifeline.h"
#include "comm/fabric/link.h"
#include "comm/fabric/shm/host_share.h"
#include "comm/fabric/transport.h"
#include "comm/group/members.h"
#include "comm/rendezvous/rendezvous.h"
#include "net/crypto.h"

namespace lockstep {

class Crew;

struct EndpointOptions {
  int rank = 0;
  int size = 1;
  std::string host_id;
  Secret secret;
  std::string group;
  Members members = {};  // empty: all ranks of a run
  Duration timeout{};
  NetworkOptions network;
  Crew* crew = nullptr;  // whose check() ends the meeting; its members are the peers
};

class Endpoint {
 public:
  // Meets all peers, bounded by the time-out.
  static Result<std::unique_ptr<Endpoint>> create(EndpointOptions options, Rendezvous& rendezvous);
  ~Endpoint();

  int rank() const { return self_.rank; }
  int size() const { return static_cast<int>(links_.size()); }
  Link& link(int peer) { return *links_[static_cast<std::size_t>(peer)]; }
  const Peer& peer(int rank) const;
  const Members& members() const { return members_; }
  // The number in the run of a rank of the group, for messages.
  int number_of(int rank) const { return members_.number_of(rank); }
  // The ranks of each host, ascending; hosts in the order of their lowest rank. Equal on all ranks.
  const std::vector<std::vector<int>>& hosts() const { return hosts_; }
  // By what this rank reaches other hosts: "tcp over eth1"; empty when all ranks are on this one.
  const std::string& fabric() const { return fabric_; }
  // Link::piece_bytes() of the links to other hosts; equal on all ranks.
  std::size_t piece_bytes() const { return piece_bytes_; }
  // Null when this rank is alone on its host.
  const HostShare* share() const { return share_ ? &*share_ : nullptr; }
  // The peer has left in order; what it sent has all arrived.
  bool gone(int peer) const {
    return gone_[static_cast<std::size_t>(peer)] && (!transport_ || transport_->is_drained(peer));
  }
  // The peer has left or was lost, whatever of it is still on its way.
  bool parted(int peer) const { return gone_[static_cast<std::size_t>(peer)]; }

  // Makes progress. An error when the connection to a peer was lost, or a peer gave up.
  Result<void> poll();
  // As Transport::poll_for().
  Result<void> poll_for(int peer);
  // As poll, and listens to the lifelines too, which costs system calls.
  Result<void> poll_all();
  // Blocks until something may have happened, at most until the deadline. `ready` is asked once
  // more when peers know that they must ring, so that nothing is missed.
  Result<void> sleep(Deadline deadline, const std::function<bool()>& ready);
  // The same in three parts, for a thread that has no work: between lie_down() and get_up() it does
  // nothing but doze(), and another thread may use the endpoint. Peers do not ring for it when they
  // move in a collective, as none is under way. lie_down() is false when something is ready.
  // Deaf, it does not wake for what comes from other hosts, which then is another thread's
  // business, and looks after it only now and then.
  enum class Doze { light, deaf };
  bool lie_down(Doze how, const std::function<bool()>& ready);
  void doze(Doze how) const;
  Result<void> get_up();
  void wake();  // ends a sleep or a doze; from any thread

  // All peers' calls end with this error.
  void tell_giving_up(const GroupEnd& end);
  // The same in two steps, after which all ranks say the same (comm/collective/inquest.h): first
  // each rank tells all others what it met and where it was; then one of them the verdict.
  void tell_failing(const GroupEnd& cause, const std::string& testimony);
  void tell_verdict(const GroupEnd& verdict);
  // The first loss of a connection, here or at a peer that told of it; one that is known to be a
  // death takes the place of one that may not be.
  const std::optional<GroupEnd>& loss() const { return loss_; }
  // Once this rank is failing: listens until ready() or the deadline. What peers meet meanwhile is
  // no error of its own.
  void hear_out(Deadline deadline, const std::function<bool()>& ready);
  // What the peer has told of itself, if it is failing.
  const std::optional<std::string>& testimony(int peer) const {
    return testimonies_[static_cast<std::size_t>(peer)];
  }
  // A peer is failing: since it had met all before, it has told all.
  bool all_know_of_failure() const;
  // What a peer has told, to be said by all.
  const std::optional<GroupEnd>& verdict() const { return verdict_; }
  // Says goodbye; then poll_all() until may_leave(): all peers have what was sent, or are gone.
  void start_leaving();
  bool may_leave() const;

 private:
  friend class EndpointMeeting;
  Endpoint(Peer self, Members members, Doorbell bell, Fd people);
  static Result<void> watch(const Fd& epoll, int fd);
  Result<void> listen();
  Result<void> unless_it_left(Result<void> polled);
  Result<void> heard(int peer, Notice notice);
  // Nothing once this rank is failing itself.
  Result<void> befallen(Error error) const;
  Error lost(int peer);
  void keep_loss(const GroupEnd& end);
  void tell_all(const Notice& notice);
  void answer_leaving();
  void set_sleeping(Lane lane, bool sleeping);
  // Waits for people_ and, unless deaf, for the transport. True when it was for people_.
  enum class Ears { deaf, all };
  bool wait_for_events(Ears ears, Duration bound) const;

  struct Leaving {
    std::uint64_t sent[kLaneCount];
  };

  Peer self_;
  const Members members_;
  Doorbell bell_;
  Fd people_;                             // an epoll of the bell and the lifelines
  std::unique_ptr<Transport> transport_;  // only where a peer needs it
  std::string fabric_;
  std::size_t piece_bytes_ = kTcpPieceBytes;
  std::vector<std::unique_ptr<Link>> owned_links_;  // the shared-memory ones
  std::vector<Link*> links_;
  std::vector<std::unique_ptr<Lifeline>> lifelines_;
  std::vector<bool> gone_, may_leave_;
  std::vector<std::optional<bool>> together_;  // what each peer said of its host
  std::vector<std::vector<int>> hosts_;
  std::optional<HostShare> share_;
  std::vector<std::optional<Leaving>> leaving_;  // said, and not answered yet
  bool failing_ = false;
  std::vector<std::optional<std::string>> testimonies_;  // of failing peers
  std::optional<GroupEnd> verdict_;
  std::optional<GroupEnd> loss_;
  std::atomic<int> sleeping_ = 0;  // threads that sleep or doze
  ForkGuard fork_guard_;           // last: forgets the descriptors before they are closed
};

}  // namespace lockstep
