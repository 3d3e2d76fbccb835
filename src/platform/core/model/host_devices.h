// The devices of one host that belong to one node.
#pragma once

#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep::model {

struct HostDevices {
  std::string host;
  std::vector<int> devices;  // indices within the host, ascending
  bool operator==(const HostDevices&) const = default;

  static constexpr auto fields() {
    return record<HostDevices>(
        field("host", &HostDevices::host, "the host's id in the map"),
        field("devices", &HostDevices::devices, "by their place on the host"));
  }
};

}  // namespace lockstep::model
