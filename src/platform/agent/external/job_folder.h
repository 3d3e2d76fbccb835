// JobFolder: the folder of an external job on this host, private to its user (0700), with the lock
// of its agent, the sockets, the spool and the log. Its name follows from the job, so that all
// ranks of the job find the same one.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::agent {

class JobFolder {
 public:
  // Makes the folder if it is missing. `job` is valid as a file name.
  static Result<JobFolder> open(std::string_view job);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path presence_socket() const { return path_ / "ranks"; }
  std::filesystem::path report_socket(int rank) const;
  // Images and histograms that ranks have logged.
  std::filesystem::path media() const { return path_ / "media"; }
  std::filesystem::path spool() const { return path_ / "spool"; }
  std::filesystem::path log() const { return path_ / "agent.log"; }

  // Empty while another agent holds it. Otherwise removes what an earlier agent left.
  Result<std::optional<Fd>> try_become_agent() const;
  // True if an agent accepts connections of ranks.
  bool has_agent() const;
  // By the agent, at its end.
  void remove() const;

 private:
  explicit JobFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path lock() const { return path_ / "agent.lock"; }

  std::filesystem::path path_;
};

}  // namespace lockstep::agent
