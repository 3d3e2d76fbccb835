#include "map/map_file.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/format.h"
#include "map/check_map.h"
#include "text/convert.h"
#include "text/document.h"

namespace lockstep::map {
namespace {

// A device without a number gets the number after the last of its kind on the host.
void number_devices(Host& host) {
  std::map<DeviceKind, int> next;
  for (Island& island : host.islands)
    for (Device& device : island.devices) {
      if (device.number < 0) device.number = next[device.kind];
      next[device.kind] = device.number + 1;
    }
}

// Fills in what files may omit, then checks all of the map.
Result<ClusterMap> finish(ClusterMap map, const JsonLocation& location) {
  for (Pod& pod : map.pods)
    for (Leaf& leaf : pod.leaves)
      for (Host& host : leaf.hosts) number_devices(host);
  TRY(check_at(map, location));
  return map;
}

// Drops empty values, so that a file shows only what is known.
bool is_empty_value(const Json& value) {
  return value.is_null() || value == "" || value == false ||
         (value.is_structured() && value.empty());
}
Json without_empty_values(const Json& value) {
  if (!value.is_structured()) return value;
  Json result = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, item] : value.items()) {
    Json kept = without_empty_values(item);
    if (value.is_array())
      result.push_back(std::move(kept));
    else if (!is_empty_value(kept))
      result[key] = std::move(kept);
  }
  return result;
}

constexpr std::string_view kMeasuredKey = "measured:";

// True if a line belongs to the block of the key above it.
bool continues_block(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\r';
}

// The lines without the block of the key `measured`, if a line starts with it.
std::string without_measured(std::string_view input) {
  std::string kept;
  bool in_block = false;
  while (!input.empty()) {
    const auto end = std::min(input.find('\n'), input.size() - 1) + 1;
    std::string_view line = input.substr(0, end);
    if (line.ends_with('\n')) line.remove_suffix(1);
    in_block = line.starts_with(kMeasuredKey) || (in_block && continues_block(line));
    if (!in_block) kept.append(line).append("\n");
    input.remove_prefix(end);
  }
  return kept;
}

}  // namespace

Result<ClusterMap> parse_map(std::string_view input, std::string_view file_name) {
  Document document = TRY(parse_yaml(input, file_name));
  if (document.value.is_null())
    return Error{Code::invalid, format("{}: the file is empty; write a map with 'pods', or run "
                                       "without one to use this machine",
                                       file_name)};
  return finish(TRY(from_document<ClusterMap>(document)), JsonLocation(document));
}

std::string dump_map(const ClusterMap& map) {
  return dump_yaml(without_empty_values(to_json(map)));
}

Result<RewrittenMap> rewrite_measured(std::string_view input, std::string_view file_name,
                                      const Measured& measured) {
  ClusterMap map = TRY(parse_map(input, file_name));
  map.measured = measured;
  const std::string block = dump_yaml(without_empty_values(Json{{"measured", to_json(measured)}}));
  std::string edited = without_measured(input) + block;
  if (const auto read = parse_map(edited, file_name); read && *read == map)
    return RewrittenMap{std::move(edited), true};
  return RewrittenMap{dump_map(map), false};
}

Json map_to_json(const ClusterMap& map) { return to_json(map); }

Result<ClusterMap> map_from_json(const Json& json) {
  return finish(TRY(from_json<ClusterMap>(json)), JsonLocation());
}

}  // namespace lockstep::map
