// For tests: messages of this version against examples that another version left as files.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/format.h"
#include "text/convert.h"
#include "text/example_for_test.h"

namespace lockstep {

struct Message {
  std::string name;
  Json example;                            // of this version, with all fields
  Result<Json> (*read)(const Json& json);  // strictly, and written again
};

template <class T>
Message message(std::string name) {
  return {std::move(name), to_json(example<T>()),
          [](const Json& json) -> Result<Json> { return to_json(TRY(from_json<T>(json))); }};
}

inline bool of_same_type(const Json& one, const Json& other) {
  return one.type() == other.type() || (one.is_number() && other.is_number());
}
inline bool equal(const Json& one, const Json& other) {
  return one.is_structured() ? of_same_type(one, other) : one == other;
}
using SameJson = bool (*)(const Json& one, const Json& other);

// Where `newer` lacks a member of `older`, at any depth, or has another one.
inline void list_lost(const Json& older, const Json& newer, SameJson same, const std::string& path,
                      std::vector<std::string>& lost) {
  if (!same(older, newer)) return lost.push_back(path);
  if (older.is_array() && !older.empty() && !newer.empty())
    list_lost(older[0], newer[0], same, path + "[0]", lost);
  if (!older.is_object()) return;
  for (const auto& [name, value] : older.items())
    newer.contains(name) ? list_lost(value, newer[name], same, path + "." + name, lost)
                         : lost.push_back(path + "." + name);
}

inline std::string lost_between(const Json& older, const Json& newer,
                                SameJson same = of_same_type) {
  std::vector<std::string> lost;
  list_lost(older, newer, same, "", lost);
  return joined(lost, ", ");
}

}  // namespace lockstep
