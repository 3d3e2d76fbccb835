#include "sim/world/machine_map.h"

#include <utility>

#include "map/query.h"

namespace lockstep::sim {

std::vector<int> device_numbers(const map::ClusterMap& map, const std::string& host,
                                const std::vector<int>& indices) {
  std::vector<int> numbers;
  const map::Host* const found = map::find_host(map, host);
  if (!found) return numbers;
  const auto devices = map::devices(*found);
  for (const int index : indices)
    if (std::cmp_less(index, devices.size()))
      numbers.push_back(devices[static_cast<std::size_t>(index)]->number);
  return numbers;
}

}  // namespace lockstep::sim
