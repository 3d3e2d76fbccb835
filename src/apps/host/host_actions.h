// The actions of `lockstep host`, one file for each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/host_messages.h"
#include "platform/api/messages.h"
#include "platform/host_service/inventory.h"
#include "platform/host_service/service_home.h"

namespace lockstep::cli {

struct HostFlags {
  std::string action;
  std::vector<std::string> hosts;
  std::string reason;
  std::string package;     // of add: a file or a folder; empty: those beside this program
  std::string pod;         // of add and token
  std::string name;        // of add and rm: the host's id on the map; empty: from its target
  std::string url;         // of add: the daemon's, as hosts reach it; empty: as the daemon says
  bool only_copy = false;  // of add
  std::string inventory;   // of add: of Ansible
  std::vector<std::string> labels;  // of add and label: KEY=VALUE
  std::string token_file;           // of join; empty: standard input
  bool lost = false;                // of rm
  bool yes = false;                 // of dead
  std::string address;              // of add and join: where other hosts reach this one
  bool install = false;             // of serve
  bool uninstall = false;           // of serve
  std::string timeout = "1m";       // of add and rm: for an answer of a host
  bool json = false;
};

// Each returns the exit code. These talk to the daemon.
Result<int> list_hosts(const HostFlags& flags);
Result<int> change_hosts(const HostFlags& flags, model::HostState state);
Result<int> declare_hosts_dead(const HostFlags& flags);
Result<int> label_hosts(const HostFlags& flags);
// Describes this machine, without a daemon.
Result<int> print_inventory(const HostFlags& flags);

// Makes a join token, joins this machine with one, serves this machine: host_service/.
Result<int> make_host_token(const HostFlags& flags);
Result<int> join_host(const HostFlags& flags);
Result<int> serve_host(const HostFlags& flags);
// The folder of this user's host service: below LOCKSTEP_HOME, else of root /var/lib/lockstep-host,
// else the user's home of Lockstep.
struct OwnService {
  std::filesystem::path home;
  host_service::ServiceHome service;
};
Result<OwnService> own_service();
// The sources of this machine's inventory; `folder` is the one that Lockstep writes to.
host_service::InventorySources own_inventory_sources(const std::filesystem::path& folder);

// Both reach other machines by SSH, several at a time. A host that fails does not stop the others.
Result<int> add_hosts(const HostFlags& flags);
Result<int> add_inventory(const HostFlags& flags);
// A package, or a folder of packages: the one that the flags name, else those beside this program.
Result<std::filesystem::path> package_path(const HostFlags& flags);
Result<int> remove_hosts(const HostFlags& flags);

// The part of the list that the flags name, as a table or as JSON.
void show_hosts(api::HostList list, const HostFlags& flags);
// The inventory of one host as lines, and its problems.
std::string inventory_text(const api::HostReport& report);

}  // namespace lockstep::cli
