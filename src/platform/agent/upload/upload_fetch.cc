#include "platform/agent/upload/upload_fetch.h"

#include <cerrno>
#include <cstdint>
#include <utility>

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "platform/agent/upload/copy_folder.h"
#include "platform/agent/upload/http_upload_source.h"
#include "platform/host/node_files.h"

namespace lockstep::agent {

Result<std::unique_ptr<UploadFetch>> UploadFetch::start(const host::LaunchSpec& launch,
                                                        const model::NodeId& node) {
  Fd done(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!done) return os_error("making an eventfd", errno);
  std::unique_ptr<UploadFetch> fetch(new UploadFetch(launch, node, std::move(done)));
  fetch->thread_ = std::thread([raw = fetch.get()] { raw->work(); });
  return fetch;
}

UploadFetch::~UploadFetch() {
  stop();
  if (thread_.joinable()) thread_.join();
}

void UploadFetch::stop() {
  const Lock lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

bool UploadFetch::is_stopped() {
  const Lock lock(mutex_);
  return stopped_;
}

// False: it was stopped.
bool UploadFetch::pause(Duration duration) {
  const Lock lock(mutex_);
  const auto deadline = Deadline::after(duration);
  while (!stopped_ && changed_.wait_until(mutex_, deadline)) {
  }
  return !stopped_;
}

void UploadFetch::work() {
  LS_LOG(info, "gets the uploaded folder");
  HttpUploadSource source(launch_, node_, [this](Duration duration) { return pause(duration); });
  const auto copied = copy_folder(source, host::NodeFiles{launch_.node_folder}.upload(),
                                  [this] { return is_stopped(); });
  if (copied) LS_LOG(info, "the uploaded folder is there, with {}", text(*copied));
  const Lock lock(mutex_);
  result_ = copied ? Result<void>()
                   : Result<void>(Error(copied.error()).with_context("the uploaded folder"));
  const std::uint64_t one = 1;
  if (::write(done_.get(), &one, sizeof one) < 0) LS_LOG(debug, "the result is read later");
}

std::optional<Result<void>> UploadFetch::take_result() {
  const Lock lock(mutex_);
  std::uint64_t ignored = 0;
  if (::read(done_.get(), &ignored, sizeof ignored) < 0 && errno != EAGAIN) return std::nullopt;
  return std::exchange(result_, std::nullopt);
}

}  // namespace lockstep::agent
