// The packages of Lockstep that `./dev package` makes, and which of them fits a host.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "platform/host_setup/probe.h"

namespace lockstep::host_setup {

enum class PackageKind { tarball, debian };

struct Package {
  std::filesystem::path path;
  PackageKind kind = PackageKind::tarball;
  std::string version;       // by its name
  std::string architecture;  // as `uname -m`
  Bytes size{};
  std::string sum;  // the first digits of its SHA-256
};

// The packages of this version in a folder, or the one at this path. Code::not_found if there are
// none; Code::invalid for a file that is none, or one of another version.
Result<std::vector<Package>> packages_at(const std::filesystem::path& path,
                                         const std::string& version);

// The Debian package for root on Debian 12, else the tarball. Fails if none fits the host's
// architecture, or if the host lacks what installing needs, such as free space.
Result<Package> choose_package(const std::vector<Package>& packages, const HostFacts& facts);

}  // namespace lockstep::host_setup
