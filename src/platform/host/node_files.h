// NodeFiles: the one place that names what a node leaves on its host: the files in its folder, the
// folder of its sockets, and the variable by which its processes are known.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "platform/core/model/ids.h"

namespace lockstep {

// In the environment of the agent and of all that it starts: <installation>:<generation>:<node>.
inline constexpr std::string_view kNodeToken = "LOCKSTEP_NODE_TOKEN";

// Below the daemon's folder: runs/GENERATION/PROJECT/NUMBER, so that no store ever finds there what
// a run of another has left. A run's checkpoints are in that of its own generation, an attempt's
// nodes in that of the attempt's.
std::filesystem::path run_folder(const std::filesystem::path& home, const std::string& generation,
                                 const RunId& run);
std::filesystem::path node_folder(const std::filesystem::path& home, const NodeName& node);
// Its last part: those of an attempt stand side by side.
std::string node_folder_name(int index);

// The files in a node's folder; none of them need be there.
struct NodeFiles {
  std::filesystem::path folder;

  std::filesystem::path launch_file() const { return folder / "launch.json"; }  // 0600: has secrets
  std::filesystem::path secret() const { return folder / "secret"; }            // 0600, for ranks
  std::filesystem::path spool() const { return folder / "spool"; }
  std::filesystem::path lock() const { return folder / "agent.lock"; }  // the agent holds it
  std::filesystem::path agent_log() const { return folder / "agent.log"; }
  std::filesystem::path rank_log(int rank) const;
  // A folder: what the ranks recorded of their collectives (comm/flight).
  std::filesystem::path flight() const { return folder / "flight"; }
  // The daemon's: what the agent delivered of such records where they are on another machine.
  std::filesystem::path delivered_flight() const { return folder / "flight.json"; }
};

// Where the sockets of the node with this token may be, best first: in $XDG_RUNTIME_DIR if that is
// short enough for the path of a socket (107 bytes), and in /tmp. The agent makes the first that it
// can, for its user alone (0700); who cleans up after it looks at all. The name is a digest of the
// token, so that it is known without having been written down.
std::vector<std::filesystem::path> socket_folders(std::string_view token);
// In such a folder.
std::filesystem::path report_socket(const std::filesystem::path& folder, int rank);

}  // namespace lockstep
