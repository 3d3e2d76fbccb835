// ServiceHome: the folder of a host's service, host/ below the home of its user. It has the files
// of the nodes that run here, and how the service reaches the daemon.
#pragma once

#include <filesystem>
#include <string>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/host/home.h"
#include "text/record.h"

namespace lockstep::host_service {

// A secret: the host's membership of a cluster.
struct Membership {
  std::string host;        // its id on the map
  std::string url;         // the daemon's: "https://head:7070#sha256:..."
  std::string credential;  // for the calls of the service
  std::string address;     // where other hosts reach this one; empty: found by the route

  static constexpr auto fields() {
    return record<Membership>(
        required(field("host", &Membership::host, "its id on the map")),
        required(field("url", &Membership::url, "the daemon's address")),
        required(field("credential", &Membership::credential, "for the calls of the service")),
        field("address", &Membership::address, "where other hosts reach it; empty: found"));
  }
};

struct ServiceHome {
  std::filesystem::path folder;

  static ServiceHome below(const host::Home& home) { return {home.folder / "host"}; }

  std::filesystem::path membership_file() const { return folder / "host.json"; }  // 0600
  std::filesystem::path lock_file() const { return folder / "lock"; }

  // Code::not_found: it has not joined a cluster. Code::denied: others may read the file.
  Result<Membership> read_membership() const;
  // Makes the folder (0700).
  Result<void> write_membership(const Membership& membership) const;
  // Held while the service runs. Code::already_exists: another service holds it.
  Result<Fd> lock() const;
};

}  // namespace lockstep::host_service
