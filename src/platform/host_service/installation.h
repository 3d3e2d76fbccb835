// Lets the service of a host run, also after a reboot: by a unit of systemd, or, where a user has
// no systemd, as a process of its own.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/host_service/service_home.h"

namespace lockstep::host_service {

enum class ServiceManager {
  system,    // systemd of the machine; the service is root
  user,      // systemd of the user
  detached,  // none
};

struct Installation {
  ServiceManager manager = ServiceManager::detached;
  std::string program;         // an absolute path that stays through upgrades
  std::filesystem::path home;  // LOCKSTEP_HOME of the service
};

// For the user of this process, for which it may ask systemd to keep units after a logout.
// Code::unavailable: it is root on a machine without systemd.
Result<Installation> plan_installation(const std::filesystem::path& home);
// The one that there is, if any.
Result<Installation> find_installation(const std::filesystem::path& home);

std::filesystem::path unit_path(ServiceManager manager);
std::string unit_text(const Installation& installation);

// Starts the service, or starts it again with this program. Returns warnings for people, one a
// line; empty: the service starts with the machine, too.
Result<std::string> install(const Installation& installation, const ServiceHome& service);
// Ends the service, lets it start no more, and forgets the membership. Agents go on.
Result<void> uninstall(const Installation& installation, const ServiceHome& service);

}  // namespace lockstep::host_service
