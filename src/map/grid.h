// `--hosts 2x2`: one machine presented as several hosts, to test locally what will run on a
// cluster.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::map {

struct HostGrid {
  int hosts = 1;
  int devices = 1;  // on each host
  bool operator==(const HostGrid&) const = default;
};

// The limits of a grid; the defaults are what one machine can represent.
struct GridLimits {
  int each = 1024;  // hosts, and devices on each
  int devices = 4096;
};

// "2x2".
Result<HostGrid> parse_host_grid(std::string_view input, const GridLimits& limits = {});

// The machine as `grid.hosts` hosts on one leaf, named NAME-0, NAME-1, ... and with these as
// separate ids, so that they never share memory. Their devices are the machine's GPUs, if there are
// enough for all, else its cores, assigned round-robin. With more devices than cores, cores are
// assigned again and marked as shared. The map must have one host. Each presented host has an equal
// part of the machine's memory and cores, and at least one core.
Result<ClusterMap> split_host(const ClusterMap& one_host, const HostGrid& grid);

}  // namespace lockstep::map
