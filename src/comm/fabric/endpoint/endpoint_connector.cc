// Creates an Endpoint. Every rank publishes its listening address in the rendezvous. Then each rank
// connects to all lower ranks, and after that accepts all higher ones, so there is no cycle of
// waiting ranks. In a large group these are only the rank's neighbours and the ranks of its host;
// it goes on to listen, and connects to others on demand, in the same way. Over each connection
// there is a handshake, an exchange of identities, and the choice of a link (endpoint.h). With a
// link in shared memory both ranks exchange their heaps, and the lowest rank of a host sends its
// shared segment; that takes two round trips, because ranks that share a core wait for its
// scheduler in each. Other links begin with an exchange of the provider names. Finally each rank
// tells all others whether it shares memory with its whole host.
//
// A rank that waits for connections also receives control messages from its connected peers, and a
// rank that gives up informs them: so a death ends the wait of all ranks. It also leaves its reason
// at the rendezvous, for ranks that it has not connected to (meeting_failure.h). If a rank dies
// before it has any connection, the membership reports it, where there is one.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>
#include <set>
#include <span>

#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/fabric/endpoint/host_memory_exchange.h"
#include "comm/fabric/endpoint/meeting_failure.h"
#include "comm/fabric/endpoint/overlay.h"
#include "comm/fabric/endpoint/peer_address.h"
#include "comm/fabric/ofi/ofi_transport.h"
#include "comm/fabric/shm/host_shared_memory.h"
#include "comm/fabric/shm/shm_link.h"
#include "comm/fabric/tcp/tcp_transport.h"
#include "comm/group/fault.h"
#include "comm/rendezvous/acceptor.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/gather.h"
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

// The indices of the listeners: for ranks of this host, and for those of other hosts.
constexpr std::size_t kLocalListener = 0, kRemoteListener = 1;

std::string address_key(int rank) { return format("rank-{}", rank); }

std::uint32_t salt_of(const net::Secret& secret, const std::string& group) {
  const auto digest = net::hmac_sha256_hex(secret, "libfabric tags of " + group);
  std::uint32_t salt = 0;
  std::from_chars(digest.data(), digest.data() + 8, salt, 16);
  return salt;
}

}  // namespace

class EndpointConnector : public PeerConnector {
 public:
  EndpointConnector(EndpointOptions options, Rendezvous& rendezvous)
      : options_(std::move(options)),
        rendezvous_(rendezvous, "fabric/" + options_.group),
        full_mesh_(options_.size <= options_.full_mesh_ranks),
        deadline_(Deadline::after(options_.timeout)) {}

  Result<std::unique_ptr<Endpoint>> connect_all() {
    if (options_.size > 1) own_address_ = TRY(choose_address(options_.network));
    auto doorbell = TRY(Doorbell::create());
    Fd control_epoll(::epoll_create1(EPOLL_CLOEXEC));
    if (!control_epoll) return os_error("making an epoll", errno);
    std::unique_ptr<Endpoint> endpoint(
        new Endpoint({options_.rank, options_.host_id, ::getpid(), global_rank(options_.rank)},
                     options_.members, full_mesh_, std::move(doorbell), std::move(control_epoll)));
    endpoint_ = endpoint.get();
    host_memory_.emplace(endpoint_->doorbell_, options_.size);
    if (options_.size > 1) TRY(check_provider());
    auto connected = connect_peers();
    if (connected) connected = agree_on_hosts();
    if (!connected) return give_up(std::move(connected).error());
    if (full_mesh_) stop_listening();
    TRY(Endpoint::watch(endpoint_->control_epoll_, endpoint_->doorbell_.fd()));
    log_fabric();
    return endpoint;
  }

  // The endpoint of a large group keeps its connector.
  static Result<void> keep(std::unique_ptr<EndpointConnector> connector, Endpoint& endpoint) {
    const auto& callers = *connector->callers_;
    for (const auto listener : {kLocalListener, kRemoteListener})
      endpoint.fork_guard_.add(callers.listener(listener).fd());
    TRY(Endpoint::watch(endpoint.control_epoll_, callers.fd()));
    endpoint.connector_ = std::move(connector);
    return endpoint.receive_control_messages();  // what came meanwhile
  }

  Result<void> connect(int peer) override {
    deadline_ = Deadline::after(std::min<Duration>(options_.timeout, kConnectBound));
    auto connected = connect_peer(peer);
    if (connected) return {};
    const bool gone = connected.error().code == Code::unavailable ||  // it does not listen any more
                      connected.error().code == Code::peer_lost;
    if (!gone)
      return std::move(connected).error().with_context("connecting to " +
                                                       text(endpoint_->peer(peer)));
    Error error{Code::peer_lost,
                format("lost {}: {}", text(endpoint_->peer(peer)), connected.error().message)};
    endpoint_->record_connection_loss({error, global_rank(peer), false});
    return error;
  }

  Result<void> accept_waiting() override {
    deadline_ = Deadline::after(std::min<Duration>(options_.timeout, kConnectBound));
    while (auto caller = TRY(callers_->next())) TRY(accept_peer(*std::move(caller)));
    return {};
  }

 private:
  int global_rank(int rank) const { return options_.members.global_rank(rank); }

  // The global rank that prevents the group from connecting.
  int rank_at_fault() const {
    if (endpoint_->failure_reason()) return endpoint_->failure_reason()->rank_at_fault;
    return endpoint_->connection_loss() ? endpoint_->connection_loss()->rank_at_fault
                                        : awaited_rank_;
  }

  Error give_up(Error error) {
    FailureReason end{std::move(error), rank_at_fault()};
    if (endpoint_->failure_reason()) {
      endpoint_->send_failure_reason(*endpoint_->failure_reason());
    } else if (!endpoint_->is_failure_announced()) {
      auto first = exchange_meeting_failure(rendezvous_, global_rank(options_.rank), end);
      if (first && is_consequence(end.error)) {
        end = *std::move(first);
        endpoint_->send_failure_reason(end);
      } else {
        endpoint_->send_abort(end);
      }
    }
    report_as_fault(end);
    return std::move(end.error);
  }

  // A peer closed a connection, or does not listen any more: it may have given up before.
  static bool is_consequence(const Error& error) {
    return error.code == Code::peer_lost || error.code == Code::unavailable;
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
    const auto address =
        encode_address({options_.host_id, unix_name,
                        text(net::HostPort{own_address_.address, remote.port()}), ::getpid()});
    if (full_mesh_) TRY(rendezvous_.set(address_key(options_.rank), address));
    std::vector<net::Listener> listeners;
    listeners.push_back(std::move(local));
    listeners.push_back(std::move(remote));
    callers_ = TRY(Acceptor::create(options_.secret, options_.group, std::move(listeners)));
    if (!full_mesh_) TRY(gather_addresses(address));
    const auto peers = first_peers();
    for (const int peer : peers) {
      if (peer > options_.rank) break;
      awaited_rank_ = global_rank(peer);
      if (auto connected = connect_peer(peer); !connected)
        return std::move(connected).error().with_context(format("meeting rank {}", awaited_rank_));
    }
    while (!missing_ranks(peers).empty()) TRY(accept_one(peers));
    return {};
  }

  void stop_listening() {
    callers_.reset();
    if (tcp_ != nullptr) tcp_->stop_listening();
  }

  // The peers to connect to from the start, ascending.
  std::vector<int> first_peers() const {
    std::set<int> peers;
    for (int peer = 0; full_mesh_ && peer < options_.size; ++peer) peers.insert(peer);
    if (!full_mesh_) {
      const auto neighbours = overlay_neighbours(options_.rank, options_.size);
      peers.insert(neighbours.begin(), neighbours.end());
      if (own_host_.size() <= kHostMemoryRanks) peers.insert(own_host_.begin(), own_host_.end());
    }
    peers.erase(options_.rank);
    return {peers.begin(), peers.end()};
  }

  Result<void> gather_addresses(const std::string& own) {
    const auto entries = TRY(gather_from_all("rank", own));
    for (int rank = 0; rank < options_.size; ++rank) {
      auto address = TRY(parse_peer_address(entries[static_cast<std::size_t>(rank)]));
      endpoint_->peers_[static_cast<std::size_t>(rank)] =
          Peer{rank, address.host_id, address.pid, global_rank(rank)};
      if (address.host_id == options_.host_id) own_host_.push_back(rank);
      addresses_.push_back(std::move(address));
    }
    if (own_host_.size() > kHostMemoryRanks) host_memory_->share_links_only();
    if (own_host_.front() < options_.rank) host_memory_->add_lower_peer(own_host_.front());
    if (std::ssize(own_host_) == options_.size || ofi_ != nullptr) return {};
    endpoint_->fabric_ = fabric_name();
    return open_tcp();
  }

  Result<std::vector<std::string>> gather_from_all(std::string_view name, std::string_view value) {
    return gather(
        rendezvous_, [this](const std::string& key) { return wait_for_key(key); }, name,
        options_.rank, options_.size, value);
  }

  Result<PeerAddress> address_of(int peer) {
    if (!full_mesh_) return addresses_[static_cast<std::size_t>(peer)];
    auto address = TRY(parse_peer_address(TRY(wait_for_key(address_key(peer)))));
    if (address.host_id == options_.host_id) host_memory_->add_lower_peer(peer);
    return address;
  }

  Result<std::string> wait_for_key(const std::string& key) {
    if (options_.membership == nullptr) return rendezvous_.get(key, deadline_);
    for (;;) {
      TRY(options_.membership->check());
      const auto pause =
          Deadline::after(std::min<Duration>(kMembershipCheckInterval, deadline_.remaining()));
      auto value = rendezvous_.get(key, pause);
      if (value || value.error().code != Code::timeout || deadline_.passed()) return value;
    }
  }

  Result<void> connect_peer(int peer) {
    const auto address = TRY(address_of(peer));
    bool local = false;
    std::optional<ShmLinkSegment> offered;
    auto socket = TRY(connect_proven(
        [&] { return connect_socket(address, local); }, options_.secret, options_.group, deadline_,
        [&](net::Socket& proven) -> Result<void> {
          TRY(send_frame(proven, to_frame(endpoint_->self_), deadline_));
          if (local) offered.emplace(TRY(host_memory_->offer(proven, deadline_)));
          return {};
        }));
    auto peer_info = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer_info.rank != peer)
      return Error{Code::corrupt,
                   format("another rank of {} answers at its place", text(options_.members))};
    peer_info.global_rank = global_rank(peer);
    std::unique_ptr<Link> link;
    if (offered) link = TRY(host_memory_->complete(socket, peer, *std::move(offered), deadline_));
    if (link)
      add(std::move(link), peer);
    else
      TRY(agree_on_transport(socket, peer_info, Side::caller));
    return add(std::move(socket), peer_info);
  }

  // Unix socket if the host ids are equal and it works (containers may hide it), else TCP.
  Result<net::Socket> connect_socket(const PeerAddress& address, bool& local) const {
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
  Result<void> accept_one(std::span<const int> peers) {
    for (;;) {
      if (auto caller = TRY(callers_->next())) return accept_peer(*std::move(caller));
      if (options_.membership != nullptr) TRY(options_.membership->check());
      TRY(wait_for_caller(peers));
      TRY(endpoint_->receive_control_messages());
    }
  }

  // Also returns on a message of a connected peer, or of the membership: the endpoint's
  // control_epoll_ contains the control connections.
  Result<void> wait_for_caller(std::span<const int> peers) {
    std::vector<int> fds{callers_->fd(), endpoint_->control_epoll_.get()};
    if (options_.membership != nullptr) fds.push_back(options_.membership->fd());
    if (TRY(net::wait_readable(fds, deadline_))) return {};
    const auto missing = missing_ranks(peers);
    if (!missing.empty()) awaited_rank_ = missing.front();
    return Error{Code::timeout,
                 format("rank {} waited {} for rank {} of {}, which did not call: did it start?",
                        global_rank(options_.rank), lockstep::text(options_.timeout),
                        joined(missing, ", rank "), text(options_.members))};
  }

  std::vector<int> missing_ranks(std::span<const int> peers) const {
    std::vector<int> missing;
    for (const int peer : peers)
      if (!endpoint_->control_connections_[static_cast<std::size_t>(peer)])
        missing.push_back(global_rank(peer));
    return missing;
  }

  Result<void> accept_peer(Acceptor::Caller caller) {
    auto& socket = caller.socket;
    auto peer = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer.rank <= options_.rank || peer.rank >= options_.size ||
        endpoint_->is_connected(peer.rank))
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
    std::unique_ptr<Link> link;
    if (local) link = TRY(host_memory_->answer(socket, peer.rank, may_share, deadline_));
    if (!link) return agree_on_transport(socket, peer, Side::callee);
    add(std::move(link), peer.rank);
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
    if (endpoint_->connector_ == nullptr) endpoint_->fabric_ = fabric_name();
    auto* const link = TRY(ofi_ != nullptr ? agree_on_ofi(socket, peer.rank)
                                           : agree_on_tcp(socket, peer.rank, side));
    endpoint_->add_link(peer.rank, link);
    return {};
  }

  std::string fabric_name() const {
    return format("{} over {}", options_.network.provider, own_address_.interface);
  }

  Result<Link*> agree_on_ofi(net::Socket& socket, int peer) {
    TRY(send_frame(socket, ofi_->address(), deadline_));
    return ofi_->link(peer, TRY(recv_frame(socket, deadline_)));
  }

  Result<Link*> agree_on_tcp(net::Socket& socket, int peer, Side side) {
    TRY(open_tcp());
    if (side == Side::caller)
      return tcp_->connect(peer, TRY(recv_frame(socket, deadline_)), deadline_);
    TRY(send_frame(socket, TRY(tcp_->listen()), deadline_));
    return tcp_->accept(peer, socket, deadline_);
  }

  // When the group has met, another thread may already use the endpoint's transport.
  Result<void> open_tcp() {
    if (tcp_ != nullptr) return {};
    if (endpoint_->connector_ != nullptr)
      return Error{Code::invalid,
                   format("the ranks of host {} share no memory: set another LOCKSTEP_HOST_ID in "
                          "each container",
                          options_.host_id)};
    auto transport = TRY(TcpTransport::create({own_address_.address, options_.network.ports,
                                               options_.rank, options_.secret, options_.group,
                                               options_.network.connection_timeout}));
    tcp_ = transport.get();
    endpoint_->transport_ = std::move(transport);
    return {};
  }

  // Once for a group: the network between its hosts is the first question when it is slow.
  void log_fabric() const {
    if (options_.rank == 0 && !endpoint_->fabric_.empty())
      LS_LOG(info, "fabric: {} ({}), {}", endpoint_->fabric_, own_address_.address,
             text(options_.members));
  }

  void add(std::unique_ptr<Link> link, int peer) {
    endpoint_->add_link(peer, link.get());
    endpoint_->owned_links_.push_back(std::move(link));
  }

  Result<void> add(net::Socket socket, const Peer& peer) {
    socket.set_keepalive(options_.network.connection_timeout);
    return endpoint_->add_connection(std::move(socket), peer);
  }

  // All ranks must agree whether a host counts as one: algorithms depend on it.
  Result<void> agree_on_hosts() {
    if (!full_mesh_) return gather_hosts();
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

  Result<void> gather_hosts() {
    const auto shares = TRY(gather_from_all("shares", shares_no_memory_ ? "no" : "yes"));
    for (std::size_t rank = 0; rank < shares.size(); ++rank)
      endpoint_->shares_memory_[rank] = shares[rank] == "yes";
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
      if (together && id == options_.host_id) endpoint_->shared_memory_ = host_memory_->take(ranks);
    }
    std::sort(hosts.begin(), hosts.end());
  }

  const EndpointOptions options_;
  InterfaceAddress own_address_;
  PrefixedRendezvous rendezvous_;  // only until all have met
  const bool full_mesh_;
  Deadline deadline_;
  Endpoint* endpoint_ = nullptr;
  std::optional<HostMemoryExchange> host_memory_;
  std::optional<Acceptor> callers_;
  std::vector<PeerAddress> addresses_;  // of a large group
  std::vector<int> own_host_;           // of a large group: the ranks with this host's id
  TcpTransport* tcp_ = nullptr;         // at most one of these two is set; the endpoint owns it
  OfiTransport* ofi_ = nullptr;
  int awaited_rank_ = -1;          // the global rank of the peer that is connected now
  bool shares_no_memory_ = false;  // some rank with this host's id shares no memory with this one
};

Result<std::unique_ptr<Endpoint>> Endpoint::create(EndpointOptions options,
                                                   Rendezvous& rendezvous) {
  LS_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size);
  if (options.members.ranks.empty()) options.members = GroupRanks::world(options.size);
  LS_CHECK(std::ssize(options.members.ranks) == options.size);
  auto connector = std::make_unique<EndpointConnector>(std::move(options), rendezvous);
  auto endpoint = TRY(connector->connect_all());
  if (!endpoint->is_full_mesh()) TRY(EndpointConnector::keep(std::move(connector), *endpoint));
  return endpoint;
}

}  // namespace lockstep::comm
