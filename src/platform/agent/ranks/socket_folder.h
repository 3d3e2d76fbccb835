// SocketFolder: the folder of the ranks' report sockets, private to this user (0700). Its name
// derives from the node's token (platform/host/node_files.h), so that the cleanup after a killed
// agent finds it. It is removed with its content.
#pragma once

#include <filesystem>
#include <string_view>
#include <utility>

#include "base/result.h"

namespace lockstep::agent {

class SocketFolder {
 public:
  // An existing folder of this user is emptied and reused. If another user owns the name, the
  // folder gets a random one.
  static Result<SocketFolder> create(std::string_view token);
  SocketFolder(SocketFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  ~SocketFolder();
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit SocketFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

}  // namespace lockstep::agent
