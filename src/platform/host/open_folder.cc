#include "platform/host/open_folder.h"

#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>

#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::host {

OpenFolder::OpenFolder(std::filesystem::path path) : path_(std::move(path)) {
  if (auto folder = open_file(path_, O_PATH | O_DIRECTORY)) folder_ = *std::move(folder);
}

std::filesystem::path OpenFolder::path() const {
  std::filesystem::path link = format("/proc/self/fd/{}", folder_.get());
  std::error_code failed;
  const auto now = std::filesystem::read_symlink(link, failed);
  // The kernel marks a deleted path so.
  if (failed || now.string().ends_with(" (deleted)")) return path_;
  return link;
}

}  // namespace lockstep::host
