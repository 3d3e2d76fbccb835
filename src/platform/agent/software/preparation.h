// The preparation of a node's software environment, as a shell script and what it prints. Pure: the
// process around it is software_preparation.h.
//
// One script for each kind checks that this host has the environment, and prints the variables with
// which ranks run in it. For an image of Podman it also starts a container that does nothing but
// hold the image's files; ranks join its mount namespace and stay children of the agent
// (docs/design/environments.md). All values are arguments of the script, so nothing is quoted.
//
// The script prints, with NUL at the end of each part and whatever a login shell prints before:
//   lockstep-environment, NAME=VALUE..., lockstep-end    the environment is there
//   lockstep-missing, REASON, lockstep-end               this host lacks it
// Everything else is a failure, which the last lines explain.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "base/os/environment.h"
#include "base/result.h"
#include "platform/host/launch_spec.h"

namespace lockstep::agent {

// Facts of the node and its host, besides the launch.
struct PreparationSetting {
  std::string socket_folder;  // of the node; its last part names the container
  uid_t user = 0;
  gid_t group = 0;
  bool has_infiniband = false;  // the host has /dev/infiniband
};

std::string container_name(const PreparationSetting& setting);
// The pipe that keeps a container open while its agent lives.
std::string hold_file(const PreparationSetting& setting);

// The folders of the host that an image has at the same paths.
std::vector<std::string> folders_in_image(const host::LaunchSpec& launch,
                                          const PreparationSetting& setting);

// `launch.software` is set in all of these.
//
// The script and its arguments.
std::vector<std::string> preparation_command(const host::LaunchSpec& launch,
                                             const PreparationSetting& setting);
// Its environment. own: of the agent. user: that of the ranks without an environment. No variable
// of the run gets to Podman, which would show it.
Environment preparation_variables(const host::LaunchSpec& launch, const Environment& own,
                                  const Environment& user);

// How a rank starts in the environment.
struct PreparedSoftware {
  Environment variables;               // instead of those of the user and the run
  std::vector<std::string> wrapper{};  // comes before the command
  pid_t container = 0;                 // a process of the container; 0: none

  bool operator==(const PreparedSoftware&) const = default;
};

// True if nothing follows that counts.
bool is_preparation_complete(std::string_view output);

// Code::not_found: this host lacks the environment, and will in the next attempt; any other error
// may be mended by another attempt. user: as above.
Result<PreparedSoftware> prepared_software(std::string_view output, const host::LaunchSpec& launch,
                                           const PreparationSetting& setting,
                                           const Environment& user);

}  // namespace lockstep::agent
