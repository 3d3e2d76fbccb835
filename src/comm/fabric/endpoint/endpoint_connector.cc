// Creates an Endpoint. Every rank publishes its listening address in the rendezvous. Then each rank
// connects to all lower ranks, and after that accepts all higher ones, so there is no cycle of
// waiting ranks. Over each connection there is a handshake, an exchange of identities, and the
// choice of a link (endpoint.h). With a link in shared memory both ranks exchange their heaps, and
// the lowest rank of a host sends its shared segment; that takes two round trips, because ranks
// that share a core wait for its scheduler in each. Other links begin with an exchange of the
// provider names. Finally each rank tells all others whether it shares memory with its whole host.
//
// A rank that waits for connections also receives control messages from its connected peers, and a
// rank that gives up informs them: so a death ends the wait of all ranks. If a rank dies before it
// has any connection, the membership reports it, where there is one.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/fabric/ofi/ofi_transport.h"
#include "comm/fabric/shm/host_shared_memory.h"
#include "comm/fabric/shm/shared_heap.h"
#include "comm/fabric/shm/shared_segment.h"
#include "comm/fabric/shm/shm_link.h"
#include "comm/fabric/tcp/tcp_transport.h"
#include "comm/group/fault.h"
#include "comm/rendezvous/acceptor.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"
#include "comm/rendezvous/membership.h"

namespace lockstep::comm {
namespace {

// A listening rank answers at once; an unreachable address never answers.
constexpr auto kConnectBound = std::chrono::seconds(30);
// The interval at which a rank that waits for an address checks the membership.
constexpr auto kMembershipCheckInterval = std::chrono::milliseconds(200);

constexpr std::string_view kTcp = "tcp";

enum class Side { caller, callee };

// The index of the listener for ranks of this host; the other one is for those of other hosts.
constexpr std::size_t kLocalListener = 0;

struct PeerAddress {
  std::string host_id, unix_name, tcp;
};

std::string encode_address(const PeerAddress& address) {
  return join_fields({address.host_id, address.unix_name, address.tcp});
}
Result<PeerAddress> parse_peer_address(std::string_view entry) {
  auto fields = TRY(split_fields(entry, 3));
  return PeerAddress{std::move(fields[0]), std::move(fields[1]), std::move(fields[2])};
}

std::string address_key(int rank) { return format("rank-{}", rank); }

std::uint32_t salt_of(const net::Secret& secret, const std::string& group) {
  const auto digest = net::hmac_sha256_hex(secret, "libfabric tags of " + group);
  std::uint32_t salt = 0;
  std::from_chars(digest.data(), digest.data() + 8, salt, 16);
  return salt;
}

}  // namespace

class EndpointConnector {
 public:
  EndpointConnector(EndpointOptions options, Rendezvous& rendezvous)
      : options_(std::move(options)),
        rendezvous_(rendezvous, "fabric/" + options_.group),
        deadline_(Deadline::after(options_.timeout)),
        peer_heaps_(static_cast<std::size_t>(options_.size)) {}

  Result<std::unique_ptr<Endpoint>> connect_all() {
    if (options_.size > 1) own_address_ = TRY(choose_address(options_.network));
    auto doorbell = TRY(Doorbell::create());
    Fd control_epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!control_epoll) return os_error("making an epoll", errno);
    endpoint_.reset(
        new Endpoint({options_.rank, options_.host_id, ::getpid(), global_rank(options_.rank)},
                     options_.members, std::move(doorbell), std::move(control_epoll)));
    if (options_.size > 1) TRY(check_provider());
    auto connected = connect_peers();
    if (connected) connected = agree_on_hosts();
    if (!connected) {
      const FailureReason end{connected.error(), rank_at_fault()};
      if (!endpoint_->is_failure_announced()) endpoint_->send_abort(end);
      report_as_fault(end);
      return std::move(connected).error();
    }
    if (tcp_ != nullptr) tcp_->stop_listening();
    TRY(Endpoint::watch(endpoint_->control_epoll_, endpoint_->doorbell_.fd()));
    log_fabric();
    return std::move(endpoint_);
  }

 private:
  int global_rank(int rank) const { return options_.members.global_rank(rank); }

  // The global rank that prevents the group from connecting.
  int rank_at_fault() const {
    if (endpoint_->failure_reason()) return endpoint_->failure_reason()->rank_at_fault;
    return endpoint_->connection_loss() ? endpoint_->connection_loss()->rank_at_fault
                                        : awaited_rank_;
  }

  // A peer that is gone or does not connect is not an error of the program.
  static void report_as_fault(const FailureReason& end) {
    if (end.error.code == Code::peer_lost)
      notify_fault_listener(
          {GroupFault::Kind::connection_lost, end.rank_at_fault, end.error.message});
    if (end.error.code == Code::timeout)
      notify_fault_listener({GroupFault::Kind::timed_out, end.rank_at_fault, end.error.message});
  }

  Result<void> connect_peers() {
    if (options_.size == 1) return {};
    const auto unix_name = "@lockstep-" + net::random_hex(16);
    auto local = TRY(net::Listener::unix_socket(unix_name));
    auto remote = TRY(on_free_port(own_address_.address, options_.network.ports, [this](auto port) {
      return net::Listener::tcp(own_address_.address, port);
    }));
    TRY(rendezvous_.set(
        address_key(options_.rank),
        encode_address({options_.host_id, unix_name,
                        text(net::HostPort{own_address_.address, remote.port()})})));
    std::vector<net::Listener> listeners;
    listeners.push_back(std::move(local));
    listeners.push_back(std::move(remote));
    auto callers = TRY(Acceptor::create(options_.secret, options_.group, std::move(listeners)));
    for (int peer = 0; peer < options_.rank; ++peer) {
      awaited_rank_ = global_rank(peer);
      if (auto connected = connect_peer(peer); !connected)
        return std::move(connected).error().with_context(format("meeting rank {}", awaited_rank_));
    }
    int missing = options_.size - 1 - options_.rank;
    for (; missing > 0; --missing) TRY(accept_one(callers));
    return {};
  }

  Result<void> connect_peer(int peer) {
    const auto address = TRY(parse_peer_address(TRY(address_of(peer))));
    if (!lowest_peer_on_host_ && address.host_id == options_.host_id) lowest_peer_on_host_ = peer;
    bool local = false;
    std::optional<ShmLinkSegment> offered;
    auto socket = TRY(connect_proven(
        [&] { return connect(address, local); }, options_.secret, options_.group, deadline_,
        [&](net::Socket& proven) -> Result<void> {
          TRY(send_frame(proven, to_frame(endpoint_->self_), deadline_));
          if (local) offered.emplace(TRY(offer_shm(proven)));
          return {};
        }));
    auto peer_info = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer_info.rank != peer)
      return Error{Code::corrupt,
                   format("another rank of {} answers at its place", text(options_.members))};
    peer_info.global_rank = global_rank(peer);
    if (!(offered && TRY(complete_shm(socket, peer, *std::move(offered)))))
      TRY(agree_on_transport(socket, peer_info, Side::caller));
    return add(std::move(socket), peer_info);
  }

  Result<std::string> address_of(int peer) {
    if (options_.membership == nullptr) return rendezvous_.get(address_key(peer), deadline_);
    for (;;) {
      TRY(options_.membership->check());
      const auto pause =
          Deadline::after(std::min<Duration>(kMembershipCheckInterval, deadline_.remaining()));
      auto address = rendezvous_.get(address_key(peer), pause);
      if (address || address.error().code != Code::timeout || deadline_.passed()) return address;
    }
  }

  // Unix socket if the host ids are equal and it works (containers may hide it), else TCP.
  Result<net::Socket> connect(const PeerAddress& address, bool& local) const {
    local = false;
    if (address.host_id == options_.host_id)
      if (auto socket = net::Socket::connect_unix(address.unix_name, deadline_); socket) {
        local = true;
        return socket;
      }
    const auto tcp = TRY(net::parse_host_port(address.tcp));
    const auto bound = Deadline::after(std::min<Duration>(kConnectBound, deadline_.remaining()));
    auto socket = net::Socket::connect_tcp(tcp.host, tcp.port, bound);
    if (!socket)
      return Error{socket.error().code,
                   format("{}, from {}: is this the network that the hosts share? On both sides "
                          "LOCKSTEP_INTERFACE chooses it",
                          socket.error().message, text(own_address_))};
    return socket;
  }

  // Waits for one peer. A rank that waits also receives messages of connected peers.
  Result<void> accept_one(Acceptor& callers) {
    for (;;) {
      if (auto caller = TRY(callers.next())) return accept_peer(*std::move(caller));
      if (options_.membership != nullptr) TRY(options_.membership->check());
      TRY(wait_for_caller(callers));
      TRY(endpoint_->receive_control_messages());
    }
  }

  // Also returns on a message of a connected peer, or of the membership: the endpoint's
  // control_epoll_ contains the control connections.
  Result<void> wait_for_caller(const Acceptor& callers) {
    std::vector<int> fds{callers.fd(), endpoint_->control_epoll_.get()};
    if (options_.membership != nullptr) fds.push_back(options_.membership->fd());
    if (TRY(net::wait_readable(fds, deadline_))) return {};
    const auto missing = missing_ranks();
    if (!missing.empty()) awaited_rank_ = missing.front();
    return Error{Code::timeout,
                 format("rank {} waited {} for rank {} of {}, which did not call: did it start?",
                        global_rank(options_.rank), lockstep::text(options_.timeout),
                        joined(missing, ", rank "), text(options_.members))};
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int peer = options_.rank + 1; peer < options_.size; ++peer)
      if (!endpoint_->control_connections_[static_cast<std::size_t>(peer)])
        missing.push_back(global_rank(peer));
    return missing;
  }

  Result<void> accept_peer(Acceptor::Caller caller) {
    auto& socket = caller.socket;
    auto peer = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer.rank <= options_.rank || peer.rank >= options_.size ||
        endpoint_->links_[static_cast<std::size_t>(peer.rank)])
      return Error{Code::invalid,
                   format("a second process calls itself number {} of the {} ranks of {}",
                          peer.rank, options_.size, text(options_.members))};
    peer.global_rank = awaited_rank_ = global_rank(peer.rank);
    const bool local = caller.listener == kLocalListener;
    if (auto connected = complete_accept(socket, peer, local); !connected)
      return std::move(connected).error().with_context(format("meeting rank {}", peer.global_rank));
    return add(std::move(socket), peer);
  }

  Result<void> complete_accept(net::Socket& socket, const Peer& peer, bool local) {
    TRY(send_frame(socket, to_frame(endpoint_->self_), deadline_));
    const bool may_share = local && peer.host_id == options_.host_id;
    if (local && TRY(answer_shm(socket, peer.rank, may_share))) return {};
    return agree_on_transport(socket, peer, Side::callee);
  }

  // The connecting rank creates the segment of the link. The other returns the token in it, as a
  // proof that it can read it, or nothing if they share no memory.
  Result<ShmLinkSegment> offer_shm(net::Socket& socket) {
    auto segment = TRY(ShmLinkSegment::create(net::random_hex(16)));
    TRY(socket.send_fd(segment.memfd().get(), deadline_));
    TRY(socket.send_fd(endpoint_->doorbell_.fd(), deadline_));
    TRY(send_heap(socket));
    return segment;
  }

  Result<bool> complete_shm(net::Socket& socket, int peer, ShmLinkSegment segment) {
    const auto token = TRY(recv_frame(socket, deadline_));
    if (token.empty()) return false;
    if (token != segment.token())
      return Error{Code::corrupt, "it reads other memory than was passed to it"};
    Doorbell doorbell(TRY(socket.recv_fd(deadline_)));
    add(make_shm_link(std::move(segment), ShmSide::creator, std::move(doorbell)), peer);
    TRY(map_heap(TRY(socket.recv_fd(deadline_)), peer));
    if (peer == lowest_peer_on_host_)
      segment_ = TRY(SharedSegment::map(TRY(socket.recv_fd(deadline_)), options_.size));
    return true;
  }

  Result<bool> answer_shm(net::Socket& socket, int peer, bool may_share) {
    const auto memfd = TRY(socket.recv_fd(deadline_));
    Doorbell doorbell(TRY(socket.recv_fd(deadline_)));
    const auto heap = TRY(socket.recv_fd(deadline_));
    auto segment = ShmLinkSegment::map(memfd);
    const bool shares = may_share && segment;
    TRY(send_frame(socket, shares ? segment->token() : "", deadline_));
    if (!shares) return false;
    TRY(socket.send_fd(endpoint_->doorbell_.fd(), deadline_));
    TRY(send_heap(socket));
    add(make_shm_link(std::move(*segment), ShmSide::opener, std::move(doorbell)), peer);
    TRY(map_heap(heap, peer));
    if (lowest_peer_on_host_) return true;
    if (!segment_) segment_ = TRY(SharedSegment::create(options_.size));
    TRY(socket.send_fd(segment_->memfd().get(), deadline_));
    return true;
  }

  Result<void> send_heap(net::Socket& socket) {
    if (!own_heap_) own_heap_ = TRY(SharedHeap::for_this_process());
    return socket.send_fd(own_heap_->memfd().get(), deadline_);
  }

  Result<void> map_heap(const Fd& memfd, int peer) {
    peer_heaps_[static_cast<std::size_t>(peer)] = TRY(PeerHeap::map(memfd));
    return {};
  }

  // Reports at once what the provider needs and this host lacks, not when the first peer connects.
  Result<void> check_provider() {
    if (options_.network.provider == kTcp) return {};
    auto transport =
        TRY(OfiTransport::create({options_.network.provider, own_address_.address, options_.rank,
                                  salt_of(options_.secret, options_.group)}));
    ofi_ = transport.get();
    endpoint_->transport_ = std::move(transport);
    endpoint_->piece_bytes_ = kOfiPieceBytes;
    return {};
  }

  Result<void> agree_on_transport(net::Socket& socket, const Peer& peer, Side side) {
    if (peer.host_id == options_.host_id) shares_no_memory_ = true;
    const auto& ours = options_.network.provider;
    TRY(send_frame(socket, ours, deadline_));
    if (const auto theirs = TRY(recv_frame(socket, deadline_)); theirs != ours)
      return Error{Code::invalid, format("it has the fabric provider '{}', rank {} has '{}': set "
                                         "LOCKSTEP_FABRIC_PROVIDER alike on all ranks",
                                         theirs, global_rank(options_.rank), ours)};
    endpoint_->fabric_ = format("{} over {}", ours, own_address_.interface);
    endpoint_->links_[static_cast<std::size_t>(peer.rank)] = TRY(
        ofi_ != nullptr ? agree_on_ofi(socket, peer.rank) : agree_on_tcp(socket, peer.rank, side));
    return {};
  }

  Result<Link*> agree_on_ofi(net::Socket& socket, int peer) {
    TRY(send_frame(socket, ofi_->address(), deadline_));
    return ofi_->link(peer, TRY(recv_frame(socket, deadline_)));
  }

  Result<Link*> agree_on_tcp(net::Socket& socket, int peer, Side side) {
    if (tcp_ == nullptr) {
      auto transport = TRY(TcpTransport::create({own_address_.address, options_.network.ports,
                                                 options_.rank, options_.secret, options_.group,
                                                 options_.network.connection_timeout}));
      tcp_ = transport.get();
      endpoint_->transport_ = std::move(transport);
    }
    if (side == Side::caller)
      return tcp_->connect(peer, TRY(recv_frame(socket, deadline_)), deadline_);
    TRY(send_frame(socket, TRY(tcp_->listen()), deadline_));
    return tcp_->accept(peer, socket, deadline_);
  }

  // Once for a group: the network between its hosts is the first question when it is slow.
  void log_fabric() const {
    if (options_.rank == 0 && !endpoint_->fabric_.empty())
      LS_LOG(info, "fabric: {} ({}), {}", endpoint_->fabric_, own_address_.address,
             text(options_.members));
  }

  void add(std::unique_ptr<Link> link, int peer) {
    endpoint_->links_[static_cast<std::size_t>(peer)] = link.get();
    endpoint_->owned_links_.push_back(std::move(link));
  }

  Result<void> add(net::Socket socket, const Peer& peer) {
    socket.set_keepalive(options_.network.connection_timeout);
    endpoint_->fork_guard_.add(socket.fd());
    TRY(Endpoint::watch(endpoint_->control_epoll_, socket.fd()));
    endpoint_->control_connections_[static_cast<std::size_t>(peer.rank)] =
        std::make_unique<ControlConnection>(std::move(socket), peer);
    return {};
  }

  // All ranks must agree whether a host counts as one: algorithms depend on it.
  Result<void> agree_on_hosts() {
    for (const auto& control : endpoint_->control_connections_)
      if (control)
        control->send({shares_no_memory_ ? ControlMessage::Kind::shares_no_memory
                                         : ControlMessage::Kind::shares_memory});
    endpoint_->shares_memory_[static_cast<std::size_t>(options_.rank)] = !shares_no_memory_;
    while (const auto missing = undecided_rank()) {
      TRY(endpoint_->receive_control_messages());
      awaited_rank_ = global_rank(*missing);
      if (endpoint_->is_drained(*missing))
        return Error{Code::peer_lost, format("rank {} left while the group met", awaited_rank_)};
      if (endpoint_->shares_memory_[static_cast<std::size_t>(*missing)]) continue;
      TRY(net::wait_ready(endpoint_->control_epoll_.get(), EPOLLIN, deadline_,
                          format("waiting for what rank {} shares with its host", awaited_rank_)));
    }
    group_by_host();
    return {};
  }

  std::optional<int> undecided_rank() const {
    for (int rank = 0; rank < options_.size; ++rank)
      if (!endpoint_->shares_memory_[static_cast<std::size_t>(rank)]) return rank;
    return std::nullopt;
  }

  void group_by_host() {
    std::map<std::string, std::vector<int>> by_id;
    for (int rank = 0; rank < options_.size; ++rank)
      by_id[endpoint_->peer(rank).host_id].push_back(rank);
    auto& hosts = endpoint_->hosts_;
    for (const auto& [id, ranks] : by_id) {
      const bool together = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
        return *endpoint_->shares_memory_[static_cast<std::size_t>(rank)];
      });
      if (together)
        hosts.push_back(ranks);
      else
        for (const int rank : ranks) hosts.push_back({rank});
      if (together && segment_ && id == options_.host_id && ranks.size() > 1)
        endpoint_->shared_memory_ =
            HostSharedMemory{ranks, std::move(*segment_), own_heap_, std::move(peer_heaps_)};
    }
    std::sort(hosts.begin(), hosts.end());
  }

  const EndpointOptions options_;
  InterfaceAddress own_address_;
  PrefixedRendezvous rendezvous_;
  Deadline deadline_;
  std::unique_ptr<Endpoint> endpoint_;
  TcpTransport* tcp_ = nullptr;  // at most one of these two is set; the endpoint owns it
  OfiTransport* ofi_ = nullptr;
  std::optional<int> lowest_peer_on_host_;  // of the lower ranks with this host's id
  int awaited_rank_ = -1;                   // the global rank of the peer that is connected now
  bool shares_no_memory_ = false;  // some rank with this host's id shares no memory with this one
  std::optional<SharedSegment> segment_;
  std::shared_ptr<SharedHeap> own_heap_;  // as in HostSharedMemory
  std::vector<std::optional<PeerHeap>> peer_heaps_;
};

Result<std::unique_ptr<Endpoint>> Endpoint::create(EndpointOptions options,
                                                   Rendezvous& rendezvous) {
  LS_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size);
  if (options.members.ranks.empty()) options.members = GroupRanks::world(options.size);
  LS_CHECK(std::ssize(options.members.ranks) == options.size);
  return EndpointConnector(std::move(options), rendezvous).connect_all();
}

}  // namespace lockstep::comm
