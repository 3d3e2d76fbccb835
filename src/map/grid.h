// `--hosts 2x2`: one machine presented as several hosts, to try at home what will run on a cluster.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "map/map.h"

namespace lockstep {

struct HostGrid {
  int hosts = 1;
  int devices = 1;  // on each host
  bool operator==(const HostGrid&) const = default;
};

// How large it may be; unless said otherwise, what one machine can stand for.
struct GridLimits {
  int each = 1024;  // hosts, and devices on each
  int devices = 4096;
};

// "2x2".
Result<HostGrid> parse_host_grid(std::string_view words, const GridLimits& limits = {});

// The machine as `grid.hosts` hosts on one leaf, named NAME-0, NAME-1, ... and with these as ids of
// their own, so that they never share memory. Their devices are the machine's GPUs, if there are
// enough for all, else its cores, dealt in turn; with more devices than cores, cores are dealt
// again and marked as shared. The map must have one host. Each presented host has an equal part of
// the machine's memory and cores, and at least one core.
Result<Map> present_as(const Map& one_host, const HostGrid& grid);

}  // namespace lockstep
