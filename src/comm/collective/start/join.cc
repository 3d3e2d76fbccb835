#include "comm/collective/start/join.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "comm/collective/start/launched_rank.h"
#include "comm/collective/start/meeting_exchange.h"
#include "comm/fabric/address/network_options.h"
#include "comm/rendezvous/client.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

// A rank gives up within milliseconds, unless it waits for one that never came.
constexpr auto kOthersGiveUpBound = std::chrono::seconds(5);

std::string setting(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  return found == environment.end() ? std::string() : found->second;
}

Result<std::string> host_id(const Environment& environment) {
  if (const auto id = setting(environment, "LOCKSTEP_HOST_ID"); !id.empty()) return id;
  auto boot_id = TRY(read_file("/proc/sys/kernel/random/boot_id"));
  while (!boot_id.empty() && boot_id.back() == '\n') boot_id.pop_back();
  return boot_id;
}

class WorldJoiner {
 public:
  WorldJoiner(const JoinOptions& options, Environment environment, LaunchedRank launch,
              NetworkOptions network)
      : options_(options),
        environment_(std::move(environment)),
        launch_(std::move(launch)),
        network_(std::move(network)),
        deadline_(Deadline::after(options.timeout)) {}

  Result<JoinedWorld> join() {
    JoinedWorld joined;
    auto rendezvous = TRY(find_rendezvous(joined));
    joined.rendezvous = TRY(RendezvousClient::connect(rendezvous.address, rendezvous.secret,
                                                      deadline_, network_.connection_timeout));
    network_.rendezvous_host = TRY(net::parse_host_port(rendezvous.address)).host;
    joined.options = CommunicatorOptions{.rank = launch_.rank,
                                         .size = launch_.size,
                                         .host_id = TRY(host_id(environment_)),
                                         .secret = rendezvous.secret,
                                         .timeout = options_.timeout,
                                         .network = network_};
    auto world = Communicator::create(*joined.options, *joined.rendezvous);
    if (exchange_ && launch_.rank == 0) exchange_->remove();
    if (!world) return give_up(std::move(joined), std::move(world).error());
    joined.world = *std::move(world);
    return joined;
  }

 private:
  // The others may have lost a connection only, and find the reason at the rendezvous.
  Error give_up(JoinedWorld joined, Error error) const {
    joined.rendezvous.reset();
    if (joined.server)
      joined.server->wait_until_left(static_cast<std::size_t>(launch_.size),
                                     Deadline::after(kOthersGiveUpBound));
    return error;
  }

  Result<MeetingPlace> find_rendezvous(JoinedWorld& joined) {
    if (const auto rendezvous = setting(environment_, "LOCKSTEP_RENDEZVOUS"); !rendezvous.empty()) {
      const auto secret_file = setting(environment_, "LOCKSTEP_SECRET_FILE");
      auto content = read_file(secret_file, 1024);
      if (!content) return std::move(content).error().with_context("reading LOCKSTEP_SECRET_FILE");
      return MeetingPlace{rendezvous, TRY(net::Secret::from_hex(*content))};
    }
    exchange_ = TRY(MeetingExchange::open(environment_, launch_, deadline_));
    if (launch_.rank != 0) return exchange_->receive(deadline_);
    const auto secret = net::Secret::random();
    const auto host = TRY(meeting_address(launch_, network_));
    joined.server = TRY(on_free_port(host, network_.ports, [&](std::uint16_t port) {
      return RendezvousServer::start(host, port, secret,
                                     {.connection_timeout = network_.connection_timeout});
    }));
    MeetingPlace place{text(net::HostPort{host, joined.server->port()}), secret};
    TRY(exchange_->publish(place, deadline_));
    return place;
  }

  const JoinOptions options_;
  const Environment environment_;
  const LaunchedRank launch_;
  NetworkOptions network_;
  const Deadline deadline_;
  std::optional<MeetingExchange> exchange_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> JoinedWorld::group(const std::string& name,
                                                         std::span<const int> ranks,
                                                         const std::string& algorithm) const {
  const auto found = std::find(ranks.begin(), ranks.end(), world->rank());
  LS_CHECK(found != ranks.end());
  auto own = *options;
  own.rank = static_cast<int>(found - ranks.begin());
  own.size = static_cast<int>(ranks.size());
  own.group = name;
  own.members = GroupRanks::world(options->size).subgroup({ranks.begin(), ranks.end()}, "");
  own.algorithm = algorithm;
  own.costs = world->costs();
  return Communicator::create(std::move(own), *rendezvous);
}

Result<JoinedWorld> join(const JoinOptions& options) {
  auto launch = TRY(own_launched_rank());
  const auto environment = own_environment();
  auto network = TRY(network_options_from_environment(environment));
  return WorldJoiner(options, environment, std::move(launch), std::move(network)).join();
}

}  // namespace lockstep::comm
