// Announcement: the files by which commands and agents find a running daemon, kept as they are to
// be.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/served.h"
#include "base/clock.h"
#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep {

class Announcement {
 public:
  // From here on commands and agents find the daemon, which listens on this port.
  static Result<Announcement> make(const Home& home, const Served& served, int port);

  // Writes again what was removed or damaged since; looks once a second. For the ticks.
  void keep();
  void withdraw() const;

 private:
  Announcement(std::filesystem::path daemon_file,
               std::vector<std::pair<std::filesystem::path, std::string>> files)
      : daemon_file_(std::move(daemon_file)), files_(std::move(files)) {}

  std::filesystem::path daemon_file_;
  std::vector<std::pair<std::filesystem::path, std::string>> files_;  // with their content
  Deadline due_ = Deadline::after(Duration(0));
  bool complained_ = false;  // of a file that cannot be written
};

}  // namespace lockstep
