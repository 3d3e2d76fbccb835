#include "platform/host_setup/package.h"

#include <optional>
#include <regex>
#include <system_error>

#include <sys/utsname.h>

#include "base/format.h"
#include "base/os/files.h"
#include "net/crypto.h"

namespace lockstep::host_setup {
namespace {

namespace fs = std::filesystem;

constexpr auto kDebian = "debian 12";
constexpr std::size_t kPackageMax = 1u << 30;
constexpr std::int64_t kUnpacked = 5;  // times the package's size, with the package itself
constexpr std::size_t kSumDigits = 12;

// CPack's tarball does not name its architecture: it is made on the machine that it is for.
std::string own_architecture() {
  struct utsname system{};
  ::uname(&system);
  return system.machine;
}

// nullopt: it has the name of no package.
std::optional<Package> package_named(const fs::path& path) {
  static const std::regex kTarball(R"(lockstep-([0-9][0-9.]*[0-9])-Linux\.tar\.gz)");
  static const std::regex kDeb(R"(lockstep_([0-9][0-9.]*[0-9])_(amd64|arm64)\.deb)");
  const std::string name = path.filename();
  std::smatch parts;
  Package package;
  package.path = path;
  if (std::regex_match(name, parts, kTarball)) {
    package.architecture = own_architecture();
  } else if (std::regex_match(name, parts, kDeb)) {
    package.kind = PackageKind::debian;
    package.architecture = parts[2] == "amd64" ? "x86_64" : "aarch64";
  } else {
    return std::nullopt;
  }
  package.version = parts[1];
  std::error_code ignored;
  package.size = Bytes(static_cast<std::int64_t>(fs::file_size(path, ignored)));
  return package;
}

Result<Package> with_sum(Package package) {
  package.sum = net::sha256_hex(TRY(read_file(package.path, kPackageMax))).substr(0, kSumDigits);
  return package;
}

Result<Package> package_file(const fs::path& path, const std::string& version) {
  const auto package = package_named(path);
  if (!package)
    return Error{Code::invalid,
                 format("{} is no package of Lockstep: name lockstep-VERSION-Linux.tar.gz, "
                        "lockstep_VERSION_amd64.deb, or a folder that has them",
                        path.string())};
  if (package->version != version)
    return Error{Code::invalid, format("{} is of version {}, and this program of {}: take the same "
                                       "version for both",
                                       path.string(), package->version, version)};
  return with_sum(*package);
}

Result<void> check_room(const Package& package, const HostFacts& facts) {
  const Bytes needed = package.size * kUnpacked;
  if (facts.free >= needed) return {};
  return Error{Code::exhausted,
               format("its disk at {} has {} free, and {} needs {}: make room there", facts.prefix,
                      text(facts.free), package.path.filename().string(), text(needed))};
}

Result<void> check_tarball(const HostFacts& facts) {
  if (!facts.has_tar) return Error{Code::invalid, "it has no tar or no gzip: install both on it"};
  if (!facts.writable)
    return Error{Code::denied,
                 format("its user may not write to {}: change its owner, or add the host as "
                        "another user",
                        facts.prefix)};
  return {};
}

}  // namespace

Result<std::vector<Package>> packages_at(const fs::path& path, const std::string& version) {
  std::error_code failed;
  if (!fs::is_directory(path, failed)) {
    if (!fs::exists(path, failed))
      return Error{Code::not_found, format("there is no {}", path.string())};
    return std::vector<Package>{TRY(package_file(path, version))};
  }
  std::vector<Package> packages;
  for (const fs::path& file : TRY(list_folder(path)))
    if (auto package = package_named(file); package && package->version == version)
      packages.push_back(TRY(with_sum(*std::move(package))));
  if (packages.empty())
    return Error{Code::not_found,
                 format("{} has no tarball and no .deb of version {}", path.string(), version)};
  return packages;
}

Result<Package> choose_package(const std::vector<Package>& packages, const HostFacts& facts) {
  const Package* chosen = nullptr;
  std::string others;
  for (const Package& package : packages) {
    if (package.architecture != facts.architecture) {
      others += (others.empty() ? "" : ", ") + package.architecture;
      continue;
    }
    const bool installable = facts.is_root && facts.distribution == kDebian;
    const bool deb = package.kind == PackageKind::debian;
    if (deb ? installable : chosen == nullptr) chosen = &package;
  }
  if (chosen == nullptr && !others.empty())
    return Error{Code::invalid, format("it is {}, and the packages are for {}: make one on such a "
                                       "machine with `./dev package`",
                                       facts.architecture, others)};
  if (chosen == nullptr)
    return Error{Code::not_found,
                 "only a Debian package is at hand, which needs root on Debian "
                 "12: name the tarball with --package"};
  TRY(check_room(*chosen, facts));
  if (chosen->kind == PackageKind::tarball) TRY(check_tarball(facts));
  return *chosen;
}

}  // namespace lockstep::host_setup
