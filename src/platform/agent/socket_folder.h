// SocketFolder: where the ranks' report sockets are, for this user alone (0700), under a name that
// follows from the node's token (platform/host/node_files.h), so that who cleans up after a
// killed agent finds it. Removed with what is in it.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lockstep {

class SocketFolder {
 public:
  // One that is there already and ours is emptied and used again. When somebody else has the name,
  // the folder gets a random one.
  static Result<SocketFolder> create(std::string_view token);
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~SocketFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit SocketFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep
