#include "map/check_map.h"

#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <utility>

#include "base/format.h"

namespace lockstep::map {
namespace {

constexpr std::size_t kLongestId = 128;

bool is_id_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '_' || c == '.';
}

bool is_id(std::string_view id) {
  return !id.empty() && id.size() <= kLongestId &&
         std::isalnum(static_cast<unsigned char>(id.front())) != 0 &&
         std::all_of(id.begin(), id.end(), is_id_letter);
}

// Also keeps commas out of CUDA_VISIBLE_DEVICES.
bool is_uuid(std::string_view uuid) {
  return uuid.size() > 4 && uuid.size() <= kLongestId && uuid.starts_with("GPU-") &&
         uuid.find_first_not_of("0123456789abcdefABCDEF-", 4) == uuid.npos;
}

Result<void> check_link(const LinkSpeed& link, const JsonLocation& location) {
  if (link.bandwidth && link.bandwidth->count() <= 0)
    return location.at("bandwidth").error("must be positive; leave it out if it is unknown");
  if (link.latency && link.latency->count() < 0)
    return location.at("latency").error("must not be negative; leave it out if it is unknown");
  return {};
}

constexpr double kLongestUs = 60e6;
constexpr double kFastest = 1e6;  // gbit or gbyte a second

// Also refuses NaN.
Result<void> check_between(double value, double least, double most, const JsonLocation& location) {
  if (value >= least && value <= most) return {};
  return location.error(format("must be from {} to {}, got {}", least, most, value));
}

Result<void> check_level(const MeasuredLevel& level, const JsonLocation& location) {
  TRY(check_between(level.latency_us, 0, kLongestUs, location.at("latency_us")));
  TRY(check_between(level.overhead_us, 0, level.latency_us, location.at("overhead_us")));
  return check_between(level.gbit_per_second, 1e-6, kFastest, location.at("gbit_per_second"));
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

// Ranks get them in one environment variable, and exchange them in one message.
constexpr std::size_t kTunedMost = 500;
constexpr std::size_t kLongestName = 40;

bool is_plan_letter(char c) { return (c >= 'a' && c <= 'z') || c == '_' || c == ','; }

Result<void> check_name(const std::string& name, const JsonLocation& location) {
  if (!name.empty() && name.size() <= kLongestName &&
      std::all_of(name.begin(), name.end(), is_plan_letter))
    return {};
  return location.error(format("'{}' is no name that `lockstep tune` writes", name));
}

Result<void> check_tuned(const std::vector<TunedRange>& ranges, const JsonLocation& location) {
  if (ranges.size() > kTunedMost)
    return location.error(
        format("has {} ranges; {} are allowed: leave those of groups out that no "
               "run has",
               ranges.size(), kTunedMost));
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const auto& range = ranges[i];
    const JsonLocation at = location.at(i);
    TRY(check_name(range.operation, at.at("operation")));
    TRY(check_name(range.plan, at.at("plan")));
    if (range.hosts < 2)
      return at.at("hosts").error("must be 2 or more; within one host there is nothing to choose");
    if (range.ranks < range.hosts)
      return at.at("ranks").error("must be as many as the hosts, or more");
    if (range.up_to.count() <= 0) return at.at("up_to").error("must be positive");
  }
  return {};
}

Result<void> check_measured_at(const Measured& measured, const JsonLocation& location) {
  if (!std::all_of(measured.fabric.begin(), measured.fabric.end(), is_printable))
    return location.at("fabric").error("write it in plain ASCII, such as tcp over eth1");
  if (measured.within_host) TRY(check_level(*measured.within_host, location.at("within_host")));
  if (measured.between_hosts)
    TRY(check_level(*measured.between_hosts, location.at("between_hosts")));
  TRY(check_tuned(measured.tuned, location.at("tuned")));
  if (!measured.reduction_gbyte_per_second) return {};
  return check_between(*measured.reduction_gbyte_per_second, 1e-6, kFastest,
                       location.at("reduction_gbyte_per_second"));
}

// Visits the map once and records the ids.
class Checker {
 public:
  Result<void> check_map(const ClusterMap& map, const JsonLocation& location) {
    TRY(check_link(map.between_pods, location.at("between_pods")));
    if (map.measured) TRY(check_measured_at(*map.measured, location.at("measured")));
    return check_all(map.pods, "pods", "pod", location,
                     [this](const Pod& pod, const JsonLocation& at) { return check_pod(pod, at); });
  }

 private:
  // Checks a list that must not be empty, and each of its items.
  template <class Item, class Check>
  Result<void> check_all(const std::vector<Item>& items, std::string_view field,
                         std::string_view what, const JsonLocation& parent, Check check_item) {
    JsonLocation location = parent.at(field);
    if (items.empty()) return location.error(format("is empty; write at least one {}", what));
    for (std::size_t i = 0; i < items.size(); ++i) TRY(check_item(items[i], location.at(i)));
    return {};
  }

  Result<void> check_pod(const Pod& pod, const JsonLocation& location) {
    TRY(check_link(pod.between_leaves, location.at("between_leaves")));
    return check_all(
        pod.leaves, "leaves", "leaf", location,
        [this](const Leaf& leaf, const JsonLocation& at) { return check_leaf(leaf, at); });
  }

  Result<void> check_leaf(const Leaf& leaf, const JsonLocation& location) {
    return check_all(
        leaf.hosts, "hosts", "host", location,
        [this](const Host& host, const JsonLocation& at) { return check_host(host, at); });
  }

  Result<void> check_host(const Host& host, const JsonLocation& location) {
    TRY(check_id(host, location));
    if (host.memory && host.memory->count() <= 0)
      return location.at("memory").error("must be positive; leave it out if it is unknown");
    if (host.cores && *host.cores <= 0)
      return location.at("cores").error("must be positive; leave it out if it is unknown");
    TRY(check_link(host.to_leaf, location.at("to_leaf")));
    TRY(check_link(host.between_islands, location.at("between_islands")));
    if (auto checked = check_labels(host.labels); !checked)
      return location.at("labels").error(checked.error().message);
    std::set<std::pair<DeviceKind, int>> numbers;
    std::set<std::string> uuids;
    return check_all(host.islands, "islands", "island", location,
                     [&](const Island& island, const JsonLocation& at) {
                       return check_island(island, numbers, uuids, at);
                     });
  }

  Result<void> check_id(const Host& host, const JsonLocation& location) {
    if (auto checked = check_host_id(host.id); !checked)
      return location.at("id").error(checked.error().message);
    auto [first, is_new] = paths_.emplace(host.id, location.path());
    if (is_new) return {};
    return location.at("id").error(
        format("the host '{}' is there already, as {}; give each host an "
               "id of its own",
               host.id, first->second));
  }

  static Result<void> check_uuid(const Device& device, std::set<std::string>& uuids,
                                 const JsonLocation& location) {
    if (device.uuid.empty()) return {};
    if (device.kind != DeviceKind::gpu || !is_uuid(device.uuid))
      return location.error(
          format("'{}' is not the UUID of a GPU; write those that `nvidia-smi -L` "
                 "prints, such as GPU-6ca3..., or leave them out",
                 device.uuid));
    if (uuids.insert(device.uuid).second || device.shared) return {};
    return location.error(
        format("the host has {} already; each GPU has a UUID of its own", device.uuid));
  }

  static Result<void> check_island(const Island& island,
                                   std::set<std::pair<DeviceKind, int>>& numbers,
                                   std::set<std::string>& uuids, const JsonLocation& location) {
    TRY(check_link(island.between_devices, location.at("between_devices")));
    JsonLocation there = location.at("devices");
    if (island.devices.empty()) return there.error("is empty; write at least one device");
    for (const Device& device : island.devices) {
      if (device.memory && device.memory->count() <= 0)
        return there.error("memory must be positive; leave it out if it is unknown");
      bool is_new = numbers.emplace(device.kind, device.number).second;
      if (!is_new && !device.shared)
        return there.error(
            format("the host has {} {} already; number devices apart by 'first', or "
                   "say 'shared: true'",
                   lockstep::name_of(device.kind), device.number));
      TRY(check_uuid(device, uuids, there));
    }
    return {};
  }

  std::map<std::string, std::string> paths_;  // of the hosts seen, by id
};

}  // namespace

Result<void> check_host_id(std::string_view id) {
  if (is_id(id)) return {};
  return Error{Code::invalid,
               format("'{}' is not an id; write at most {} letters, digits, '-', '_' or '.', first "
                      "a letter or digit",
                      id, kLongestId)};
}

Result<void> check_at(const ClusterMap& map, const JsonLocation& root) {
  return Checker().check_map(map, root);
}

Result<void> check_measured(const Measured& measured) {
  const JsonLocation root;
  return check_measured_at(measured, root.at("measured"));
}

}  // namespace lockstep::map
