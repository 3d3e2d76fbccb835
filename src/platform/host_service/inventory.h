// The inventory of this machine: what a daemon must know to place runs on it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "map/discover/discover.h"
#include "platform/api/host_messages.h"

namespace lockstep::host_service {

// The sources of the inventory; tests have others.
struct InventorySources {
  map::GpuSources gpus;
  std::filesystem::path root = "/";            // has /etc and /proc
  std::vector<std::filesystem::path> folders;  // that Lockstep writes to; they may not exist yet
  std::vector<std::string> users;              // the accounts that it runs ranks as
  std::string version;                         // of this program
};

// Takes a fifth of a second where libfabric is installed. Errors: the hardware cannot be described.
Result<api::HostInventory> take_inventory(const InventorySources& sources, const Clock& clock);

}  // namespace lockstep::host_service
