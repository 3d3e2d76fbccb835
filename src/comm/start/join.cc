#include "comm/start/join.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <thread>

#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/environment.h"
#include "base/files.h"
#include "base/format.h"
#include "comm/fabric/address/network_options.h"
#include "comm/fabric/address/own_address.h"
#include "comm/rendezvous/client.h"
#include "comm/start/launched_rank.h"
#include "net/socket.h"

namespace lockstep {
namespace {

// How often the others look whether rank 0 has opened the meeting place.
constexpr auto kLookPause = std::chrono::milliseconds(20);

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

Result<std::filesystem::path> meeting_folder(const Environment& environment) {
  if (const auto folder = setting(environment, "LOCKSTEP_MEETING_FOLDER"); !folder.empty())
    return std::filesystem::path(folder);
  const auto home = setting(environment, "HOME");
  if (home.empty())
    return Error{Code::invalid, "HOME is not set; say in LOCKSTEP_MEETING_FOLDER where ranks meet"};
  return std::filesystem::path(home) / ".local/state/lockstep/meetings";
}

struct MeetingPlace {
  std::string address;  // host:port
  Secret secret;
};

Result<MeetingPlace> parse_meeting(const std::string& content) {
  const auto space = content.find(' ');
  if (space == std::string::npos)
    return Error{Code::corrupt, "it does not hold an address and a secret"};
  return MeetingPlace{content.substr(0, space), TRY(Secret::from_hex(content.substr(space + 1)))};
}

Result<MeetingPlace> wait_for_meeting(const std::filesystem::path& file, const LaunchedRank& launch,
                                      const Deadline& deadline) {
  for (;;) {
    auto content = read_file(file, 1024);
    if (content) {
      auto meeting = parse_meeting(*content);
      if (!meeting) return std::move(meeting).error().within(file.string());
      return meeting;
    }
    if (content.error().code != Code::not_found) return std::move(content).error();
    if (deadline.passed())
      return Error{
          Code::timeout,
          format("rank {} waited too long for rank 0 to write {}: did it start, and is this "
                 "folder the same on its host? LOCKSTEP_MEETING_FOLDER names another one",
                 launch.rank, file.string())};
    std::this_thread::sleep_for(kLookPause);
  }
}

class Joining {
 public:
  Joining(const JoinOptions& options, Environment environment, LaunchedRank launch,
          NetworkOptions network)
      : options_(options),
        environment_(std::move(environment)),
        launch_(std::move(launch)),
        network_(std::move(network)),
        deadline_(Deadline::after(options.timeout)) {}

  Result<Joined> join() {
    Joined joined;
    auto meeting = TRY(find_meeting(joined));
    joined.meeting_place = TRY(
        RendezvousClient::connect(meeting.address, meeting.secret, deadline_, network_.silence));
    network_.meeting_host = TRY(parse_host_port(meeting.address)).host;
    joined.options = CommunicatorOptions{.rank = launch_.rank,
                                         .size = launch_.size,
                                         .host_id = TRY(host_id(environment_)),
                                         .secret = meeting.secret,
                                         .timeout = options_.timeout,
                                         .network = network_};
    auto world = Communicator::create(*joined.options, *joined.meeting_place);
    if (!file_.empty() && launch_.rank == 0) ::unlink(file_.c_str());
    joined.world = TRY(std::move(world));
    return joined;
  }

 private:
  Result<MeetingPlace> find_meeting(Joined& joined) {
    if (const auto place = setting(environment_, "LOCKSTEP_RENDEZVOUS"); !place.empty()) {
      const auto secret_file = setting(environment_, "LOCKSTEP_SECRET_FILE");
      auto content = read_file(secret_file, 1024);
      if (!content) return std::move(content).error().within("reading LOCKSTEP_SECRET_FILE");
      return MeetingPlace{place, TRY(Secret::from_hex(*content))};
    }
    const auto folder = TRY(meeting_folder(environment_));
    file_ = folder / launch_.job;
    if (launch_.rank != 0) return wait_for_meeting(file_, launch_, deadline_);
    const auto secret = Secret::random();
    const auto host = TRY(meeting_address());
    joined.server = TRY(on_free_port(host, network_.ports, [&](std::uint16_t port) {
      return RendezvousServer::start(host, port, secret, {.silence = network_.silence});
    }));
    const auto address = text(HostPort{host, joined.server->port()});
    TRY(make_folders(folder));
    TRY(write_file(file_, address + " " + secret.hex()));
    return MeetingPlace{address, secret};
  }

  // Where rank 0 opens the meeting place.
  Result<std::string> meeting_address() const {
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

Result<std::unique_ptr<Communicator>> Joined::group(const std::string& name,
                                                    std::span<const int> ranks,
                                                    const std::string& algorithm) const {
  const auto found = std::find(ranks.begin(), ranks.end(), world->rank());
  LS_CHECK(found != ranks.end());
  auto own = *options;
  own.rank = static_cast<int>(found - ranks.begin());
  own.size = static_cast<int>(ranks.size());
  own.group = name;
  own.members = Members::world(options->size).part({ranks.begin(), ranks.end()}, "");
  own.algorithm = algorithm;
  own.costs = world->costs();
  return Communicator::create(std::move(own), *meeting_place);
}

Result<Joined> join(const JoinOptions& options) {
  auto launch = TRY(own_launched_rank());
  const auto environment = own_environment();
  auto network = TRY(network_options_of(environment));
  return Joining(options, environment, std::move(launch), std::move(network)).join();
}

}  // namespace lockstep
