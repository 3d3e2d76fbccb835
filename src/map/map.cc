#include "map/map.h"

#include <utility>

#include "base/format.h"
#include "map/check_map.h"

namespace lockstep::map {
namespace {

constexpr int kLargestGroup = 1024;

bool continues(const DeviceGroup& group, const Device& device) {
  return group.kind == device.kind && group.memory == device.memory &&
         group.shared == device.shared && group.uuids.empty() == device.uuid.empty() &&
         *group.first + group.count == device.number;
}

}  // namespace

IslandForm Island::form() const {
  IslandForm form{between_devices, {}};
  for (const Device& device : devices) {
    if (!form.devices.empty() && continues(form.devices.back(), device))
      ++form.devices.back().count;
    else
      form.devices.push_back({device.kind, 1, device.number, device.memory, device.shared});
    if (!device.uuid.empty()) form.devices.back().uuids.push_back(device.uuid);
  }
  return form;
}

Result<Island> Island::from_form(const IslandForm& form) {
  Island island{form.between_devices, {}};
  for (const DeviceGroup& group : form.devices) {
    if (group.count < 1 || group.count > kLargestGroup)
      return Error{Code::invalid, format("devices[{}].count: must be from 1 to {}, got {}",
                                         &group - form.devices.data(), kLargestGroup, group.count)};
    if (group.first && (*group.first < 0 || *group.first > kLargestGroup))
      return Error{Code::invalid,
                   format("devices[{}].first: must be from 0 to {}, got {}",
                          &group - form.devices.data(), kLargestGroup, *group.first)};
    if (!group.uuids.empty() && std::cmp_not_equal(group.uuids.size(), group.count))
      return Error{Code::invalid,
                   format("devices[{}].uuids: must be one for each of {} devices, or left out; got "
                          "{}",
                          &group - form.devices.data(), group.count, group.uuids.size())};
    for (int i = 0; i < group.count; ++i)
      island.devices.push_back(
          {group.kind, group.first ? *group.first + i : -1, group.memory, group.shared,
           group.uuids.empty() ? "" : group.uuids[static_cast<std::size_t>(i)]});
  }
  return island;
}

Result<void> check(const ClusterMap& map) { return check_at(map, JsonLocation()); }

}  // namespace lockstep::map
