// Sets up a host over SSH: finds out what it is, copies the package that fits, and asks for its
// inventory. Three calls of ssh; two if the package is there already.
//
// A tarball goes to PREFIX/lib/lockstep-VERSION-SUM, and PREFIX/bin/lockstep becomes a link to its
// program in one step. So what runs from an older installation keeps its files.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/api/host_messages.h"
#include "platform/host_setup/package.h"
#include "platform/host_setup/remote_shell.h"

namespace lockstep::host_setup {

struct SetUpOptions {
  std::vector<Package> packages;
  std::string version;                              // of this program, and of the packages
  Duration answer_limit = std::chrono::minutes(1);  // of a call that copies nothing
  Duration copy_limit = std::chrono::minutes(20);
};

// Gets each step for the progress display: "copies 15.2 MiB".
using OnStep = std::function<void(std::string_view step)>;

struct InstalledHost {
  std::string program;     // there
  api::HostReport report;  // with the clock checked against this machine's
};

// From any thread.
Result<InstalledHost> set_up(RemoteShell& shell, const std::string& target,
                             const SetUpOptions& options, const Clock& clock,
                             const OnStep& on_step);

struct JoinOrder {
  std::string program;    // there
  std::string url;        // of the daemon, as hosts reach it, with the fingerprint
  std::string token;      // secret
  std::string address{};  // where other hosts reach it; empty: found by the route
};

// Joins the cluster and starts the host's service. Returns how the service runs, for people.
Result<std::string> join(RemoteShell& shell, const std::string& target, const JoinOrder& order,
                         Duration limit);
// The last lines that the service printed; empty: unknown.
std::string service_log(RemoteShell& shell, const std::string& target, Duration limit);

// Ends the host's service and removes what set_up() has installed, or the Debian package; the
// records of runs stay. Refuses while agents or a daemon run there.
Result<void> take_down(RemoteShell& shell, const std::string& target, Duration limit);

}  // namespace lockstep::host_setup
