#include "map/file.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/format.h"
#include "map/check_map.h"
#include "text/convert.h"
#include "text/document.h"

namespace lockstep {
namespace {

// Devices whose number was left open go on after the last of their kind on the host.
void number_devices(Host& host) {
  std::map<DeviceKind, int> next;
  for (Island& island : host.islands)
    for (Device& device : island.devices) {
      if (device.number < 0) device.number = next[device.kind];
      next[device.kind] = device.number + 1;
    }
}

// What files may leave open is filled in, then all of it is checked.
Result<Map> finish(Map map, const Place& place) {
  for (Pod& pod : map.pods)
    for (Leaf& leaf : pod.leaves)
      for (Host& host : leaf.hosts) number_devices(host);
  TRY(check_at(map, place));
  return map;
}

// Drops what says nothing, so that a file shows what is known.
bool says_nothing(const Json& value) {
  return value.is_null() || value == "" || value == false ||
         (value.is_structured() && value.empty());
}
Json pruned(const Json& value) {
  if (!value.is_structured()) return value;
  Json result = value.is_object() ? Json::object() : Json::array();
  for (const auto& [key, item] : value.items()) {
    Json kept = pruned(item);
    if (value.is_array())
      result.push_back(std::move(kept));
    else if (!says_nothing(kept))
      result[key] = std::move(kept);
  }
  return result;
}

constexpr std::string_view kMeasuredKey = "measured:";

// Whether a line belongs to the block of the key above it.
bool continues_block(std::string_view line) {
  return line.empty() || line.front() == ' ' || line.front() == '\r';
}

// The lines without the block of the key `measured`, if they have one that begins a line.
std::string without_measured(std::string_view words) {
  std::string kept;
  bool in_block = false;
  while (!words.empty()) {
    const auto end = std::min(words.find('\n'), words.size() - 1) + 1;
    std::string_view line = words.substr(0, end);
    if (line.ends_with('\n')) line.remove_suffix(1);
    in_block = line.starts_with(kMeasuredKey) || (in_block && continues_block(line));
    if (!in_block) kept.append(line).append("\n");
    words.remove_prefix(end);
  }
  return kept;
}

}  // namespace

Result<Map> parse_map(std::string_view words, std::string_view file_name) {
  Document document = TRY(parse_yaml(words, file_name));
  if (document.value.is_null())
    return Error{Code::invalid, format("{}: the file is empty; write a map with 'pods', or run "
                                       "without one to use this machine",
                                       file_name)};
  return finish(TRY(from_document<Map>(document)), Place(document));
}

std::string dump_map(const Map& map) { return dump_yaml(pruned(to_json(map))); }

Result<RewrittenMap> rewrite_measured(std::string_view words, std::string_view file_name,
                                      const Measured& measured) {
  Map map = TRY(parse_map(words, file_name));
  map.measured = measured;
  const std::string block = dump_yaml(pruned(Json{{"measured", to_json(measured)}}));
  std::string edited = without_measured(words) + block;
  if (const auto read = parse_map(edited, file_name); read && *read == map)
    return RewrittenMap{std::move(edited), true};
  return RewrittenMap{dump_map(map), false};
}

Json map_to_json(const Map& map) { return to_json(map); }

Result<Map> map_from_json(const Json& json) { return finish(TRY(from_json<Map>(json)), Place()); }

}  // namespace lockstep
