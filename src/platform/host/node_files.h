// NodeFiles: the names of everything that a node leaves on its host: the files in its folder, the
// folder of its sockets, and the variable that marks its processes.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>
#include <unistd.h>

#include "base/os/account.h"
#include "platform/core/model/ids.h"

namespace lockstep::host {

// In the environment of the agent and of its descendants: <installation>:<generation>:<node>.
inline constexpr std::string_view kNodeToken = "LOCKSTEP_NODE_TOKEN";

// Below the daemon's folder: runs/GENERATION/PROJECT/NUMBER, so that no store finds files of a run
// of another store. A run's checkpoints are in the folder of its own generation, an attempt's nodes
// in that of the attempt's generation.
std::filesystem::path run_folder(const std::filesystem::path& home, const std::string& generation,
                                 const model::RunId& run);
// For a run that names none.
std::filesystem::path default_checkpoint_folder(const std::filesystem::path& home,
                                                const std::string& generation,
                                                const model::RunId& run);
std::filesystem::path node_folder(const std::filesystem::path& home, const model::NodeName& node);
// The manifest of the run's uploaded folder; only on the daemon's machine.
std::filesystem::path upload_manifest_file(const std::filesystem::path& home,
                                           const std::string& generation, const model::RunId& run);
// Its last part: the nodes of an attempt have sibling folders.
std::string node_folder_name(int index);

// The files in a node's folder; each may be missing.
struct NodeFiles {
  std::filesystem::path folder;

  std::filesystem::path launch_file() const { return folder / "launch.json"; }  // 0600: has secrets
  std::filesystem::path secret() const { return folder / "secret"; }            // 0600, for ranks
  // The daemon's authority for clients of MLflow; only if it speaks HTTPS.
  std::filesystem::path daemon_authority() const { return folder / "authority.pem"; }
  std::filesystem::path spool() const { return folder / "spool"; }
  std::filesystem::path lock() const { return folder / "agent.lock"; }  // the agent holds it
  std::filesystem::path agent_log() const { return folder / "agent.log"; }
  std::filesystem::path rank_log(int rank) const;
  // A folder: flight records of the ranks (comm/flight).
  std::filesystem::path flight() const { return folder / "flight"; }
  // A folder: traces that the ranks take on request, and how they hear of it.
  std::filesystem::path profile() const { return folder / "profile"; }
  // A folder: images and histograms that the ranks have logged and the daemon does not have yet.
  std::filesystem::path media() const { return folder / "media"; }
  // A folder: the copy of the run's uploaded folder, in which its ranks start.
  std::filesystem::path upload() const { return folder / "upload"; }
  // Written by the daemon: the delivered trace of a rank, in a folder of these.
  std::filesystem::path delivered_traces() const { return folder / "traces"; }
  std::filesystem::path delivered_trace(int rank) const;
  // Written by the daemon: delivered flight records of a node on another machine.
  std::filesystem::path delivered_flight() const { return folder / "flight.json"; }
};

// While it exists, this thread has the rights of the owner of a node's folder: files there may be
// links. No effect without such a folder, or unless the process runs as root.
class OwnersAccess {
 public:
  explicit OwnersAccess(const std::filesystem::path& node_folder);

 private:
  std::optional<FileAccessAs> access_;
};

// The user of the node's folder; this process's if there is no such folder.
uid_t owner_of(const std::filesystem::path& node_folder);

// Possible folders for the sockets of a node of `owner` with this token, best first: in its
// XDG_RUNTIME_DIR if that is short enough for a socket's path (107 bytes), and in /tmp. The agent
// creates the first possible one, private to its user (0700); the cleanup checks all. The name is a
// digest of the token, so it need not be stored.
std::vector<std::filesystem::path> socket_folders(std::string_view token,
                                                  uid_t owner = ::geteuid());
// In such a folder.
std::filesystem::path report_socket(const std::filesystem::path& folder, int rank);

}  // namespace lockstep::host
