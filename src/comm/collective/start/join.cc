#include "comm/collective/start/join.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "comm/collective/start/launched_rank.h"
#include "comm/fabric/address/choose_address.h"
#include "comm/fabric/address/network_options.h"
#include "comm/rendezvous/client.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

// The interval at which the others check whether rank 0 has created the rendezvous.
constexpr auto kFilePollInterval = std::chrono::milliseconds(20);

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

Result<std::filesystem::path> rendezvous_folder(const Environment& environment) {
  if (const auto folder = setting(environment, "LOCKSTEP_MEETING_FOLDER"); !folder.empty())
    return std::filesystem::path(folder);
  const auto home = setting(environment, "HOME");
  if (home.empty())
    return Error{Code::invalid, "HOME is not set; say in LOCKSTEP_MEETING_FOLDER where ranks meet"};
  return std::filesystem::path(home) / ".local/state/lockstep/meetings";
}

struct RendezvousAddress {
  std::string address;  // host:port
  net::Secret secret;
};

Result<RendezvousAddress> parse_rendezvous_address(const std::string& content) {
  const auto space = content.find(' ');
  if (space == std::string::npos)
    return Error{Code::corrupt, "it does not hold an address and a secret"};
  return RendezvousAddress{content.substr(0, space),
                           TRY(net::Secret::from_hex(content.substr(space + 1)))};
}

Result<RendezvousAddress> wait_for_rendezvous_file(const std::filesystem::path& file,
                                                   const LaunchedRank& launch,
                                                   const Deadline& deadline) {
  for (;;) {
    auto content = read_file(file, 1024);
    if (content) {
      auto rendezvous = parse_rendezvous_address(*content);
      if (!rendezvous) return std::move(rendezvous).error().with_context(file.string());
      return rendezvous;
    }
    if (content.error().code != Code::not_found) return std::move(content).error();
    if (deadline.passed())
      return Error{
          Code::timeout,
          format("rank {} waited too long for rank 0 to write {}: did it start, and is this "
                 "folder the same on its host? LOCKSTEP_MEETING_FOLDER names another one",
                 launch.rank, file.string())};
    std::this_thread::sleep_for(kFilePollInterval);
  }
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
    if (!file_.empty() && launch_.rank == 0) ::unlink(file_.c_str());
    joined.world = TRY(std::move(world));
    return joined;
  }

 private:
  Result<RendezvousAddress> find_rendezvous(JoinedWorld& joined) {
    if (const auto rendezvous = setting(environment_, "LOCKSTEP_RENDEZVOUS"); !rendezvous.empty()) {
      const auto secret_file = setting(environment_, "LOCKSTEP_SECRET_FILE");
      auto content = read_file(secret_file, 1024);
      if (!content) return std::move(content).error().with_context("reading LOCKSTEP_SECRET_FILE");
      return RendezvousAddress{rendezvous, TRY(net::Secret::from_hex(*content))};
    }
    const auto folder = TRY(rendezvous_folder(environment_));
    file_ = folder / launch_.job;
    if (launch_.rank != 0) return wait_for_rendezvous_file(file_, launch_, deadline_);
    const auto secret = net::Secret::random();
    const auto host = TRY(rendezvous_host());
    joined.server = TRY(on_free_port(host, network_.ports, [&](std::uint16_t port) {
      return RendezvousServer::start(host, port, secret,
                                     {.connection_timeout = network_.connection_timeout});
    }));
    const auto address = text(net::HostPort{host, joined.server->port()});
    TRY(make_folders(folder));
    TRY(write_file(file_, address + " " + secret.hex()));
    return RendezvousAddress{address, secret};
  }

  // The address where rank 0 creates the rendezvous.
  Result<std::string> rendezvous_host() const {
    const bool chosen = !network_.interface.empty() || !network_.address.empty();
    if (launch_.one_host && !chosen) return std::string("127.0.0.1");
    return TRY(choose_address(network_)).address;
  }

  const JoinOptions options_;
  const Environment environment_;
  const LaunchedRank launch_;
  NetworkOptions network_;
  const Deadline deadline_;
  std::filesystem::path file_;
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
