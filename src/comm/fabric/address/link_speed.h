// link_speed: how fast an interface says that it is, as its driver and its peer have agreed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/units.h"

namespace lockstep {

// Nothing where the driver does not know, as of loopback and of many virtual machines' interfaces.
// interfaces: the kernel's folder of all.
std::optional<Bandwidth> link_speed(const std::string& interface,
                                    const std::filesystem::path& interfaces = "/sys/class/net");

}  // namespace lockstep
