#include "platform/agent/link/media_sender.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/os/files.h"
#include "platform/api/json.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr Duration kLookEvery = std::chrono::seconds(1);
constexpr Duration kMediaCallMax = std::chrono::seconds(10);
constexpr Duration kLastSendMax = std::chrono::seconds(5);
constexpr std::size_t kMediaFileMax = 8u << 20;

// The files by their names, which begin with a time. One whose name begins with '.' is not
// complete.
std::vector<fs::path> requests_in(const fs::path& folder) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator each(folder, failed), end; !failed && each != end;
       each.increment(failed)) {
    const std::string name = each->path().filename().string();
    if (!name.starts_with('.') && name.ends_with(".json")) found.push_back(each->path());
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace

MediaSender::MediaSender(Find find, fs::path folder)
    : find_(std::move(find)), folder_(std::move(folder)), thread_([this] { work(); }) {}

MediaSender::~MediaSender() {
  {
    const Lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void MediaSender::work() {
  while (wait_for_next()) send_all(Deadline::after(kMediaCallMax));
  send_all(Deadline::after(kLastSendMax));
}

// False: the agent ends.
bool MediaSender::wait_for_next() {
  const Lock lock(mutex_);
  const Deadline next = Deadline::after(kLookEvery);
  while (!ending_ && !next.passed()) changed_.wait_until(mutex_, next);
  return !ending_;
}

// A request that the daemon never takes is dropped with a line in the agent's log.
bool MediaSender::send_all(const Deadline& deadline) {
  for (const fs::path& file : requests_in(folder_)) {
    if (deadline.passed()) return false;
    const auto sent = send(file, deadline);
    if (!sent && sent.error().code != Code::invalid) {
      destination_ = {};
      return false;
    }
    if (!sent) LS_LOG(warning, "{}: {}", file.filename().string(), sent.error().message);
    std::error_code ignored;
    fs::remove(file, ignored);
  }
  return true;
}

Result<void> MediaSender::send(const fs::path& file, const Deadline& deadline) {
  auto words = read_file(file, kMediaFileMax);
  if (!words) return Error{Code::invalid, words.error().message};
  const Json json = TRY(parse_json(*words));  // Code::invalid
  const auto request = TRY(from_json<api::MediaRequest>(json, UnknownFields::ignore));
  if (!destination_.client) destination_ = TRY(find_());
  const model::NodeName& node = destination_.node;
  client::Arguments<std::remove_const_t<decltype(api::kNodeMedia)>> arguments{
      .path = node.id, .query = {}, .request = request};
  if (!node.generation.empty()) arguments.query.generation = node.generation;
  TRY(destination_.client->call(api::kNodeMedia, arguments, deadline));
  return {};
}

}  // namespace lockstep::agent
