// The actions of `lockstep host`, one file for each.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/api/host_messages.h"
#include "platform/api/messages.h"
#include "platform/host_service/inventory.h"

namespace lockstep::cli {

struct HostFlags {
  std::string action;
  std::vector<std::string> hosts;
  std::string reason;
  std::string package;         // of add: a file or a folder; empty: those beside this program
  std::string pod;             // of token
  std::string token_file;      // of join; empty: standard input
  bool lost = false;           // of rm
  bool yes = false;            // of dead
  std::string address;         // of join: where other hosts reach this one
  std::string timeout = "1m";  // of add and rm: for an answer of a host
  bool json = false;
};

// Each returns the exit code. list and change talk to the daemon.
Result<int> list_hosts(const HostFlags& flags);
Result<int> change_hosts(const HostFlags& flags, model::HostState state);
Result<int> declare_hosts_dead(const HostFlags& flags);
// Describes this machine, without a daemon.
Result<int> print_inventory(const HostFlags& flags);

// Makes a join token, joins this machine with one, serves this machine: host_service/.
Result<int> make_host_token(const HostFlags& flags);
Result<int> join_host(const HostFlags& flags);
Result<int> serve_host(const HostFlags& flags);
// The sources of this machine's inventory; `folder` is the one that Lockstep writes to.
host_service::InventorySources own_inventory_sources(const std::filesystem::path& folder);

// Both reach other machines by SSH, several at a time. A host that fails does not stop the others.
Result<int> add_hosts(const HostFlags& flags);
Result<int> remove_hosts(const HostFlags& flags);

// The part of the list that the flags name, as a table or as JSON.
void show_hosts(api::HostList list, const HostFlags& flags);
// The inventory of one host as lines, and its problems.
std::string inventory_text(const api::HostReport& report);

}  // namespace lockstep::cli
