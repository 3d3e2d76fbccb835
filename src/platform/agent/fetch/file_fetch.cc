#include "platform/agent/fetch/file_fetch.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "platform/agent/fetch/copy_folder.h"
#include "platform/agent/fetch/daemon_files.h"
#include "platform/agent/fetch/earlier_copies.h"
#include "platform/agent/fetch/fetch_checkpoint.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {
namespace {

bool is_of_folder(Code code) {
  return code == Code::not_found || code == Code::corrupt || code == Code::invalid;
}

// The first attempt has nothing to go on from.
bool needs_checkpoint(const host::LaunchSpec& launch, const model::NodeId& node) {
  return launch.host_checkpoints && node.attempt.epoch > 1;
}

}  // namespace

bool FileFetch::is_needed(const host::LaunchSpec& launch, const model::NodeId& node) {
  return launch.upload || needs_checkpoint(launch, node);
}

Result<std::unique_ptr<FileFetch>> FileFetch::start(const host::LaunchSpec& launch,
                                                    const model::NodeId& node) {
  Fd done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done) return os_error("making an eventfd", errno);
  std::unique_ptr<FileFetch> fetch(new FileFetch(launch, node, std::move(done)));
  fetch->thread_ = std::thread([raw = fetch.get()] { raw->work(); });
  return fetch;
}

FileFetch::~FileFetch() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void FileFetch::stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool FileFetch::is_stopped() {
  const Lock lock(mutex_);
  return stopped_;
}

// False: it was stopped.
bool FileFetch::pause(Duration duration) {
  const Lock lock(mutex_);
  const auto deadline = Deadline::after(duration);
  while (!stopped_ && changed_.wait_until(mutex_, deadline)) {
  }
  return !stopped_;
}

void FileFetch::work() {
  FetchedFiles fetched = fetch();
  const Lock lock(mutex_);
  result_ = std::move(fetched);
  const std::uint64_t one = 1;
  if (::write(done_.get(), &one, sizeof one) < 0) LS_LOG(debug, "the result is read later");
}

FetchedFiles FileFetch::fetch() {
  DaemonFiles source(launch_, node_, [this](Duration duration) { return pause(duration); });
  const auto stopped = [this] { return is_stopped(); };
  if (launch_.upload) {
    LS_LOG(info, "gets the uploaded folder");
    const auto copied = copy_folder(source, host::NodeFiles{launch_.node_folder}.upload(), stopped,
                                    earlier_copies(launch_.node_folder));
    if (!copied)
      return {.error = "the uploaded folder: " + copied.error().message,
              .is_missing = is_of_folder(copied.error().code)};
    LS_LOG(info, "the uploaded folder is there, with {}", text(*copied));
  }
  if (!needs_checkpoint(launch_, node_)) return {};
  auto note = fetch_checkpoint(source, launch_.checkpoint_folder,
                               format("fetched-{}-{}", node_.attempt.epoch, node_.index), stopped);
  if (!note) return {.error = note.error().message};
  return {.note = *std::move(note)};
}

std::optional<FetchedFiles> FileFetch::take_result() {
  const Lock lock(mutex_);
  std::uint64_t ignored = 0;
  if (::read(done_.get(), &ignored, sizeof ignored) < 0 && errno != EAGAIN) return std::nullopt;
  return std::exchange(result_, std::nullopt);
}

}  // namespace lockstep::agent
