// How an Endpoint comes to be: every rank publishes in the rendezvous where it listens; then each
// connects to all lower ranks, and after that accepts all higher ones, so that nobody waits in a
// circle. Over each connection: handshake, who is who, and which link (endpoint.h); with a link in
// shared memory come the heaps of both, and from the lowest rank of a host its commons; the other
// links begin with the names of both sides' providers. At last each tells all others whether it
// shares memory with its whole host. Who waits for callers listens to those it has met, and who
// gives up tells them: a death ends everybody's wait. Of one that dies before it has met anybody
// the crew tells, where there is one.
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <map>

#include <sys/epoll.h>
#include <unistd.h>

#include "base/check.h"
#include "base/log.h"
#include "comm/fabric/address/own_address.h"
#include "comm/fabric/endpoint/endpoint.h"
#include "comm/fabric/ofi/ofi_transport.h"
#include "comm/fabric/shm/commons.h"
#include "comm/fabric/shm/heap.h"
#include "comm/fabric/shm/host_share.h"
#include "comm/fabric/shm/shm_link.h"
#include "comm/fabric/tcp/tcp_transport.h"
#include "comm/group/fault.h"
#include "comm/rendezvous/crew.h"
#include "comm/rendezvous/frame.h"
#include "comm/rendezvous/handshake.h"

namespace lockstep {
namespace {

// One caller that says nothing must not use up the others' time.
constexpr auto kStrangerBound = std::chrono::seconds(5);
// Who listens answers at once; an address that is not reached answers never.
constexpr auto kConnectBound = std::chrono::seconds(30);
// Who waits for a place asks the crew so often.
constexpr auto kCrewPause = std::chrono::milliseconds(200);

constexpr std::string_view kTcp = "tcp";

enum class Side { caller, callee };

struct Place {
  std::string host_id, unix_name, tcp;
};

std::string to_entry(const Place& place) {
  return join_fields({place.host_id, place.unix_name, place.tcp});
}
Result<Place> parse_place(std::string_view entry) {
  auto fields = TRY(split_fields(entry, 3));
  return Place{std::move(fields[0]), std::move(fields[1]), std::move(fields[2])};
}

std::string place_key(int rank) { return format("rank-{}", rank); }

std::uint32_t salt_of(const Secret& secret, const std::string& group) {
  const auto digest = hmac_sha256_hex(secret, "libfabric tags of " + group);
  std::uint32_t salt = 0;
  std::from_chars(digest.data(), digest.data() + 8, salt, 16);
  return salt;
}

}  // namespace

class EndpointMeeting {
 public:
  EndpointMeeting(EndpointOptions options, Rendezvous& rendezvous)
      : options_(std::move(options)),
        rendezvous_(rendezvous, "fabric/" + options_.group),
        deadline_(Deadline::after(options_.timeout)),
        heaps_(static_cast<std::size_t>(options_.size)) {}

  Result<std::unique_ptr<Endpoint>> hold() {
    if (options_.size > 1) own_ = TRY(choose_address(options_.network));
    auto bell = TRY(Doorbell::create());
    Fd people(::epoll_create1(EPOLL_CLOEXEC));
    if (!people) return os_error("making an epoll", errno);
    endpoint_.reset(
        new Endpoint({options_.rank, options_.host_id, ::getpid(), number_of(options_.rank)},
                     options_.members, std::move(bell), std::move(people)));
    if (options_.size > 1) TRY(check_provider());
    auto met = meet_all();
    if (met) met = settle_hosts();
    if (!met) {
      const GroupEnd end{met.error(), at_fault()};
      if (!endpoint_->all_know_of_failure()) endpoint_->tell_giving_up(end);
      tell_of_fault(end);
      return std::move(met).error();
    }
    if (tcp_ != nullptr) tcp_->stop_listening();
    TRY(Endpoint::watch(endpoint_->people_, endpoint_->bell_.fd()));
    tell_of_fabric();
    return std::move(endpoint_);
  }

 private:
  int number_of(int rank) const { return options_.members.number_of(rank); }

  // The number in the run of the rank because of which they do not meet.
  int at_fault() const {
    if (endpoint_->verdict()) return endpoint_->verdict()->at_fault;
    return endpoint_->loss() ? endpoint_->loss()->at_fault : awaited_;
  }

  // A peer that is gone or does not come is no mistake of the program.
  static void tell_of_fault(const GroupEnd& end) {
    if (end.error.code == Code::peer_lost)
      tell_fault({GroupFault::Kind::connection_lost, end.at_fault, end.error.message});
    if (end.error.code == Code::timeout)
      tell_fault({GroupFault::Kind::timed_out, end.at_fault, end.error.message});
  }

  Result<void> meet_all() {
    if (options_.size == 1) return {};
    const auto unix_name = "@lockstep-" + random_hex(16);
    auto local = TRY(Listener::unix_socket(unix_name));
    auto remote = TRY(on_free_port(own_.address, options_.network.ports, [this](auto port) {
      return Listener::tcp(own_.address, port);
    }));
    TRY(rendezvous_.set(
        place_key(options_.rank),
        to_entry({options_.host_id, unix_name, text(HostPort{own_.address, remote.port()})})));
    for (int peer = 0; peer < options_.rank; ++peer) {
      awaited_ = number_of(peer);
      if (auto met = call(peer); !met)
        return std::move(met).error().within(format("meeting rank {}", awaited_));
    }
    int missing = options_.size - 1 - options_.rank;
    while (missing > 0) missing -= TRY(admit_one(local, remote)) ? 1 : 0;
    return {};
  }

  Result<void> call(int peer) {
    const auto place = TRY(parse_place(TRY(place_of(peer))));
    if (!lowest_here_ && place.host_id == options_.host_id) lowest_here_ = peer;
    auto [socket, local] = TRY(connect(place));
    TRY(handshake_as_client(socket, options_.secret, options_.group, deadline_));
    TRY(send_frame(socket, to_frame(endpoint_->self_), deadline_));
    auto peer_info = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer_info.rank != peer)
      return Error{Code::corrupt,
                   format("another rank of {} answers at its place", text(options_.members))};
    peer_info.number = number_of(peer);
    if (!(local && TRY(offer_shm(socket, peer))))
      TRY(agree_on_transport(socket, peer_info, Side::caller));
    return keep(std::move(socket), peer_info);
  }

  Result<std::string> place_of(int peer) {
    if (options_.crew == nullptr) return rendezvous_.get(place_key(peer), deadline_);
    for (;;) {
      TRY(options_.crew->check());
      const auto pause = Deadline::after(std::min<Duration>(kCrewPause, deadline_.left()));
      auto place = rendezvous_.get(place_key(peer), pause);
      if (place || place.error().code != Code::timeout || deadline_.passed()) return place;
    }
  }

  // Unix if the host ids are equal and it works (containers may hide it), else TCP.
  Result<std::pair<Socket, bool>> connect(const Place& place) {
    if (place.host_id == options_.host_id)
      if (auto local = Socket::connect_unix(place.unix_name, deadline_); local)
        return std::pair(std::move(*local), true);
    const auto tcp = TRY(parse_host_port(place.tcp));
    const auto bound = Deadline::after(std::min<Duration>(kConnectBound, deadline_.left()));
    auto socket = Socket::connect_tcp(tcp.host, tcp.port, bound);
    if (!socket)
      return Error{socket.error().code,
                   format("{}, from {}: is this the network that the hosts share? On both sides "
                          "LOCKSTEP_INTERFACE chooses it",
                          socket.error().message, text(own_))};
    return std::pair(std::move(*socket), false);
  }

  // Waits for one caller; false when it was none of ours.
  Result<bool> admit_one(Listener& local, Listener& remote) {
    for (;;) {
      for (auto* listener : {&local, &remote})
        if (auto socket = TRY(listener->try_accept()); socket)
          return admit(std::move(*socket), listener == &local);
      if (options_.crew != nullptr) TRY(options_.crew->check());
      TRY(wait_for_caller(local, remote));
      TRY(endpoint_->listen());
    }
  }

  // Or for a word of somebody met already, or of the crew: the endpoint's epoll of people holds the
  // lifelines.
  Result<void> wait_for_caller(const Listener& local, const Listener& remote) {
    const Fd any(::epoll_create1(EPOLL_CLOEXEC));
    std::vector<int> fds{local.fd(), remote.fd(), endpoint_->people_.get()};
    if (options_.crew != nullptr) fds.push_back(options_.crew->fd());
    for (const int fd : fds) {
      epoll_event event{};
      event.events = EPOLLIN;
      if (::epoll_ctl(any.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        return os_error("watching for callers", errno);
    }
    if (const auto ready = wait_ready(any.get(), EPOLLIN, deadline_, "waiting"); !ready) {
      const auto missing = missing_ranks();
      if (!missing.empty()) awaited_ = missing.front();
      return Error{ready.error().code,
                   format("rank {} waited {} for rank {} of {}, which did not call: did it start?",
                          number_of(options_.rank), text(options_.timeout),
                          joined(missing, ", rank "), text(options_.members))};
    }
    return {};
  }

  std::vector<int> missing_ranks() const {
    std::vector<int> missing;
    for (int peer = options_.rank + 1; peer < options_.size; ++peer)
      if (!endpoint_->lifelines_[static_cast<std::size_t>(peer)])
        missing.push_back(number_of(peer));
    return missing;
  }

  Result<bool> admit(Socket socket, bool local) {
    const auto bound = Deadline::after(std::min<Duration>(kStrangerBound, deadline_.left()));
    if (auto met = handshake_as_server(socket, options_.secret, options_.group, bound); !met) {
      LS_LOG(warning, "rank {} refused a caller: {}", number_of(options_.rank),
             met.error().message);
      return false;
    }
    auto peer = TRY(parse_peer(TRY(recv_frame(socket, deadline_))));
    if (peer.rank <= options_.rank || peer.rank >= options_.size ||
        endpoint_->links_[static_cast<std::size_t>(peer.rank)])
      return Error{Code::invalid,
                   format("a second process calls itself number {} of the {} ranks of {}",
                          peer.rank, options_.size, text(options_.members))};
    peer.number = awaited_ = number_of(peer.rank);
    if (auto met = welcome(socket, peer, local); !met)
      return std::move(met).error().within(format("meeting rank {}", peer.number));
    TRY(keep(std::move(socket), peer));
    return true;
  }

  Result<void> welcome(Socket& socket, const Peer& peer, bool local) {
    TRY(send_frame(socket, to_frame(endpoint_->self_), deadline_));
    const bool may_share = local && peer.host_id == options_.host_id;
    if (local && TRY(answer_shm(socket, peer.rank, may_share))) return {};
    return agree_on_transport(socket, peer, Side::callee);
  }

  // The caller makes the segment; the other proves that it reads it, by the token.
  Result<bool> offer_shm(Socket& socket, int peer) {
    const auto token = random_hex(16);
    auto segment = TRY(ShmSegment::create(token));
    TRY(socket.send_fd(segment.memfd().get(), deadline_));
    TRY(socket.send_fd(endpoint_->bell_.fd(), deadline_));
    const bool proven = TRY(recv_frame(socket, deadline_)) == token;
    TRY(send_frame(socket, proven ? "share" : "apart", deadline_));
    if (!proven) return false;
    Doorbell bell(TRY(socket.recv_fd(deadline_)));
    keep(make_shm_link(std::move(segment), ShmSide::creator, std::move(bell)), peer);
    TRY(exchange_heaps(socket, peer));
    if (peer == lowest_here_)
      commons_ = TRY(Commons::map(TRY(socket.recv_fd(deadline_)), options_.size));
    return true;
  }

  Result<bool> answer_shm(Socket& socket, int peer, bool may_share) {
    const auto memfd = TRY(socket.recv_fd(deadline_));
    Doorbell bell(TRY(socket.recv_fd(deadline_)));
    auto segment = ShmSegment::map(memfd);
    TRY(send_frame(socket, may_share && segment ? segment->token() : "", deadline_));
    if (TRY(recv_frame(socket, deadline_)) != "share") return false;
    if (!segment) return std::move(segment).error();
    TRY(socket.send_fd(endpoint_->bell_.fd(), deadline_));
    keep(make_shm_link(std::move(*segment), ShmSide::guest, std::move(bell)), peer);
    TRY(exchange_heaps(socket, peer));
    if (lowest_here_) return true;
    if (!commons_) commons_ = TRY(Commons::create(options_.size));
    TRY(socket.send_fd(commons_->memfd().get(), deadline_));
    return true;
  }

  Result<void> exchange_heaps(Socket& socket, int peer) {
    if (!heap_) heap_ = TRY(Heap::of_process());
    TRY(socket.send_fd(heap_->memfd().get(), deadline_));
    heaps_[static_cast<std::size_t>(peer)] = TRY(PeerHeap::map(TRY(socket.recv_fd(deadline_))));
    return {};
  }

  // What the provider needs and this host lacks is told now, not when the first peer is met.
  Result<void> check_provider() {
    if (options_.network.provider == kTcp) return {};
    auto transport =
        TRY(OfiTransport::create({options_.network.provider, own_.address, options_.rank,
                                  salt_of(options_.secret, options_.group)}));
    ofi_ = transport.get();
    endpoint_->transport_ = std::move(transport);
    endpoint_->piece_bytes_ = kOfiPieceBytes;
    return {};
  }

  Result<void> agree_on_transport(Socket& socket, const Peer& peer, Side side) {
    if (peer.host_id == options_.host_id) apart_ = true;
    const auto& ours = options_.network.provider;
    TRY(send_frame(socket, ours, deadline_));
    if (const auto theirs = TRY(recv_frame(socket, deadline_)); theirs != ours)
      return Error{Code::invalid, format("it has the fabric provider '{}', rank {} has '{}': set "
                                         "LOCKSTEP_FABRIC_PROVIDER alike on all ranks",
                                         theirs, number_of(options_.rank), ours)};
    endpoint_->fabric_ = format("{} over {}", ours, own_.interface);
    endpoint_->links_[static_cast<std::size_t>(peer.rank)] = TRY(
        ofi_ != nullptr ? agree_on_ofi(socket, peer.rank) : agree_on_tcp(socket, peer.rank, side));
    return {};
  }

  Result<Link*> agree_on_ofi(Socket& socket, int peer) {
    TRY(send_frame(socket, ofi_->address(), deadline_));
    return ofi_->link(peer, TRY(recv_frame(socket, deadline_)));
  }

  Result<Link*> agree_on_tcp(Socket& socket, int peer, Side side) {
    if (tcp_ == nullptr) {
      auto transport =
          TRY(TcpTransport::create({own_.address, options_.network.ports, options_.rank,
                                    options_.secret, options_.group, options_.network.silence}));
      tcp_ = transport.get();
      endpoint_->transport_ = std::move(transport);
    }
    if (side == Side::caller)
      return tcp_->call(peer, TRY(recv_frame(socket, deadline_)), deadline_);
    TRY(send_frame(socket, TRY(tcp_->listen()), deadline_));
    return tcp_->admit(peer, socket, deadline_);
  }

  // Once for a group: by which way its hosts are connected is the first question when it is slow.
  void tell_of_fabric() const {
    if (options_.rank == 0 && !endpoint_->fabric_.empty())
      LS_LOG(info, "fabric: {} ({}), {}", endpoint_->fabric_, own_.address, text(options_.members));
  }

  void keep(std::unique_ptr<Link> link, int peer) {
    endpoint_->links_[static_cast<std::size_t>(peer)] = link.get();
    endpoint_->owned_links_.push_back(std::move(link));
  }

  Result<void> keep(Socket socket, const Peer& peer) {
    socket.tune_for_lifeline(options_.network.silence);
    endpoint_->fork_guard_.add(socket.fd());
    TRY(Endpoint::watch(endpoint_->people_, socket.fd()));
    endpoint_->lifelines_[static_cast<std::size_t>(peer.rank)] =
        std::make_unique<Lifeline>(std::move(socket), peer);
    return {};
  }

  // Whether a host is one must be known alike to all ranks: algorithms depend on it.
  Result<void> settle_hosts() {
    for (const auto& lifeline : endpoint_->lifelines_)
      if (lifeline) lifeline->tell({apart_ ? Notice::Kind::apart : Notice::Kind::together});
    endpoint_->together_[static_cast<std::size_t>(options_.rank)] = !apart_;
    while (const auto missing = unsettled_rank()) {
      TRY(endpoint_->listen());
      awaited_ = number_of(*missing);
      if (endpoint_->gone(*missing))
        return Error{Code::peer_lost, format("rank {} left while the group met", awaited_)};
      if (endpoint_->together_[static_cast<std::size_t>(*missing)]) continue;
      TRY(wait_ready(endpoint_->people_.get(), EPOLLIN, deadline_,
                     format("waiting for what rank {} shares with its host", awaited_)));
    }
    divide_into_hosts();
    return {};
  }

  std::optional<int> unsettled_rank() const {
    for (int rank = 0; rank < options_.size; ++rank)
      if (!endpoint_->together_[static_cast<std::size_t>(rank)]) return rank;
    return std::nullopt;
  }

  void divide_into_hosts() {
    std::map<std::string, std::vector<int>> by_id;
    for (int rank = 0; rank < options_.size; ++rank)
      by_id[endpoint_->peer(rank).host_id].push_back(rank);
    auto& hosts = endpoint_->hosts_;
    for (const auto& [id, ranks] : by_id) {
      const bool together = std::all_of(ranks.begin(), ranks.end(), [&](int rank) {
        return *endpoint_->together_[static_cast<std::size_t>(rank)];
      });
      if (together)
        hosts.push_back(ranks);
      else
        for (const int rank : ranks) hosts.push_back({rank});
      if (together && commons_ && id == options_.host_id && ranks.size() > 1)
        endpoint_->share_ = HostShare{ranks, std::move(*commons_), heap_, std::move(heaps_)};
    }
    std::sort(hosts.begin(), hosts.end());
  }

  const EndpointOptions options_;
  OwnAddress own_;
  PrefixedRendezvous rendezvous_;
  Deadline deadline_;
  std::unique_ptr<Endpoint> endpoint_;
  TcpTransport* tcp_ = nullptr;  // one of these two at most; the endpoint's
  OfiTransport* ofi_ = nullptr;
  std::optional<int> lowest_here_;  // of the lower ranks with this host's id
  int awaited_ = -1;                // the number in the run of the peer that is met now
  bool apart_ = false;              // some rank with this host's id shares no memory with this one
  std::optional<Commons> commons_;
  std::shared_ptr<Heap> heap_;  // as in HostShare
  std::vector<std::optional<PeerHeap>> heaps_;
};

Result<std::unique_ptr<Endpoint>> Endpoint::create(EndpointOptions options,
                                                   Rendezvous& rendezvous) {
  LS_CHECK(options.size > 0 && options.rank >= 0 && options.rank < options.size);
  if (options.members.ranks.empty()) options.members = Members::world(options.size);
  LS_CHECK(std::ssize(options.members.ranks) == options.size);
  return EndpointMeeting(std::move(options), rendezvous).hold();
}

}  // namespace lockstep
