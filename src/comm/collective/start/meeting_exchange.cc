#include "comm/collective/start/meeting_exchange.h"

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include <unistd.h>

#include "base/format.h"
#include "base/mutex.h"
#include "base/os/files.h"
#include "comm/fabric/address/choose_address.h"

namespace lockstep::comm {
namespace {

// The interval at which the others look whether rank 0 has written the file.
constexpr auto kFilePollInterval = std::chrono::milliseconds(20);
constexpr std::size_t kFileMax = 1024;
constexpr auto kFinalizeMax = std::chrono::seconds(1);

Result<std::filesystem::path> meeting_folder(const Environment& environment) {
  if (const auto folder = value_of(environment, "LOCKSTEP_MEETING_FOLDER"))
    return std::filesystem::path(*folder);
  const auto home = value_of(environment, "HOME");
  if (!home)
    return Error{Code::invalid, "HOME is not set; say in LOCKSTEP_MEETING_FOLDER where ranks meet"};
  return std::filesystem::path(*home) / ".local/state/lockstep/meetings";
}

// One word, as PMI needs it. A secret's digits have no slash.
std::string encoded(const MeetingPlace& place) { return place.address + "/" + place.secret.hex(); }

Result<MeetingPlace> decoded(const std::string& content) {
  const auto slash = content.rfind('/');
  if (slash == std::string::npos)
    return Error{Code::corrupt, "it does not hold an address and a secret"};
  return MeetingPlace{content.substr(0, slash),
                      TRY(net::Secret::from_hex(content.substr(slash + 1)))};
}

// The launcher expects one client in a process: later exchanges go on with it.
struct PmiClients {
  Mutex mutex;  // guards what follows
  std::map<std::string, std::shared_ptr<PmiClient>> by_fd LS_GUARDED_BY(mutex);
  pid_t process LS_GUARDED_BY(mutex) = 0;
};

PmiClients& pmi_clients() {
  static auto* const clients = new PmiClients;  // never destroyed: threads may outlive statics
  return *clients;
}

// At the end of the process, so that an MPI in it may use the key-value space too. An error is of
// no use then: the MPI may have finalized it.
void finalize_pmi() {
  PmiClients& clients = pmi_clients();
  const Lock lock(clients.mutex);
  if (clients.process != ::getpid()) return;  // a forked child
  for (const auto& [fd, client] : clients.by_fd)
    (void)client->finalize(Deadline::after(kFinalizeMax));
}

Result<std::shared_ptr<PmiClient>> client_of(const std::string& fd_text, Deadline deadline) {
  int fd = -1;
  const auto* const end = fd_text.data() + fd_text.size();
  if (const auto [stop, failure] = std::from_chars(fd_text.data(), end, fd);
      failure != std::errc() || stop != end || fd < 0)
    return Error{Code::invalid, format("PMI_FD must be a descriptor, got '{}'", fd_text)};
  PmiClients& clients = pmi_clients();
  const Lock lock(clients.mutex);
  if (const auto known = clients.by_fd.find(fd_text); known != clients.by_fd.end())
    return known->second;
  auto client = std::make_shared<PmiClient>(TRY(PmiClient::open(fd, deadline)));
  if (clients.by_fd.empty()) std::atexit(finalize_pmi);
  clients.by_fd.emplace(fd_text, client);
  clients.process = ::getpid();
  return client;
}

}  // namespace

Result<std::string> meeting_address(const LaunchedRank& launch, const NetworkOptions& network) {
  const bool is_chosen = !network.interface.empty() || !network.address.empty();
  if (launch.one_host && !is_chosen) return std::string("127.0.0.1");
  return TRY(choose_address(network)).address;
}

Result<MeetingExchange> MeetingExchange::open(const Environment& environment,
                                              const LaunchedRank& launch, Deadline deadline) {
  static std::atomic<int> exchanges = 0;
  MeetingExchange exchange;
  exchange.rank_ = launch.rank;
  exchange.key_ = format("lockstep-{}", ++exchanges);
  if (launch.pmi_fd)
    exchange.pmi_ = TRY(client_of(*launch.pmi_fd, deadline));
  else
    exchange.file_ = TRY(meeting_folder(environment)) / launch.job;
  return exchange;
}

Result<void> MeetingExchange::publish(const MeetingPlace& place, Deadline deadline) {
  if (pmi_) {
    TRY(pmi_->put(key_, encoded(place), deadline));
    return pmi_->barrier(deadline);
  }
  TRY(make_folders(file_.parent_path()));
  return write_file(file_, encoded(place));
}

Result<MeetingPlace> MeetingExchange::receive(Deadline deadline) {
  if (pmi_) {
    TRY(pmi_->barrier(deadline));
    return decoded(TRY(pmi_->get(key_, deadline)));
  }
  for (;;) {
    const auto content = read_file(file_, kFileMax);
    if (content) {
      auto place = decoded(*content);
      if (!place) return std::move(place).error().with_context(file_.string());
      return place;
    }
    if (content.error().code != Code::not_found) return content.error();
    if (deadline.passed())
      return Error{
          Code::timeout,
          format("rank {} waited too long for rank 0 to write {}: did it start, and is this "
                 "folder the same on its host? LOCKSTEP_MEETING_FOLDER names another one",
                 rank_, file_.string())};
    std::this_thread::sleep_for(kFilePollInterval);
  }
}

void MeetingExchange::remove() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

}  // namespace lockstep::comm
