// link_speed: the speed of an interface as its driver reports it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"

namespace lockstep::comm {

// Nullopt where the driver does not know, as for loopback and for many virtual machines'
// interfaces. interfaces: the kernel's folder of all interfaces.
std::optional<Bandwidth> link_speed(const std::string& interface,
                                    const std::filesystem::path& interfaces = "/sys/class/net");

}  // namespace lockstep::comm
