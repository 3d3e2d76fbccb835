// Devices of one host that belong together: those of a node.
#pragma once

#include <string>
#include <vector>

#include "text/record.h"

namespace lockstep {

struct Slice {
  std::string host;
  std::vector<int> devices;  // indices within the host, ascending
  bool operator==(const Slice&) const = default;

  static constexpr auto fields() {
    return record<Slice>(field("host", &Slice::host, "the host's id in the map"),
                         field("devices", &Slice::devices, "by their place on the host"));
  }
};

}  // namespace lockstep
