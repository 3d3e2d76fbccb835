// Fd: owns a file descriptor. Files as a whole: read, write durably, make folders.
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

class Fd {
 public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::exchange(other.fd_, -1);
    }
    return *this;
  }
  ~Fd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  void reset();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

// flags as in open(2); O_CLOEXEC is added. mode is for a file that is created.
Result<Fd> open_file(const std::filesystem::path& path, int flags, unsigned mode = 0600);
// The whole file. Refuses more than `limit`.
Result<std::string> read_file(const std::filesystem::path& path, std::size_t limit = 64u << 20);
// Replaces the file in one step and durably: temporary file, fsync, rename, fsync of the folder.
Result<void> write_file(const std::filesystem::path& path, std::string_view content,
                        unsigned mode = 0600);
// All parents too, with mode 0700 for those created.
Result<void> make_folders(const std::filesystem::path& path);
// The paths of what is in it, sorted; Code::not_found when there is no such folder.
Result<std::vector<std::filesystem::path>> list_folder(const std::filesystem::path& path);
// fsync of a folder, which makes renames in it durable.
Result<void> sync_folder(const std::filesystem::path& path);
// All of it, through interruptions.
Result<void> write_all(int fd, std::string_view content);

}  // namespace lockstep
