// DiscoveryFiles: the files by which commands and agents find a running daemon, restored when they
// are damaged.
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "apps/daemon/serve_config.h"
#include "base/clock.h"
#include "base/result.h"
#include "platform/host/home.h"

namespace lockstep::cli {

class DiscoveryFiles {
 public:
  // From here on commands and agents find the daemon, which listens on this port. `fingerprint`:
  // of the certificate that clients trust; empty: plain HTTP.
  static Result<DiscoveryFiles> write(const host::Home& home, const ServeConfig& served, int port,
                                      const std::string& fingerprint);
  // For agents on other machines: a file in their home with the address for those. It may be on a
  // file system that hangs, so it is not restored.
  static Result<void> write_for_nodes(const std::filesystem::path& node_home,
                                      const host::Home& home, const ServeConfig& served, int port,
                                      const std::string& fingerprint);
  // The text of such a file.
  static std::string text_for_nodes(const host::Home& home, const ServeConfig& served, int port,
                                    const std::string& fingerprint);

  // Restores files that were removed or damaged; checks once a second. Call it at each tick.
  void restore();
  void remove() const;
  // The addresses with the fingerprint, for this machine and for others; the second may be empty.
  const std::string& url() const { return url_; }
  const std::string& network_url() const { return network_url_; }

 private:
  DiscoveryFiles(std::filesystem::path daemon_file,
                 std::vector<std::pair<std::filesystem::path, std::string>> files)
      : daemon_file_(std::move(daemon_file)), files_(std::move(files)) {}

  unsigned mode_of(const std::filesystem::path& path) const;

  std::filesystem::path daemon_file_;
  std::string url_, network_url_;
  std::vector<std::pair<std::filesystem::path, std::string>> files_;  // with their content
  Deadline next_check_ = Deadline::after(Duration(0));
  bool warned_ = false;  // of a file that cannot be written
};

}  // namespace lockstep::cli
