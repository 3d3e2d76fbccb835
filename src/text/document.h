// Document: a configuration file as a value that remembers its lines, so that its reader can report
// "run.yaml:12: nodes: expected an integer".
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "text/json.h"

namespace lockstep {

struct Document {
  Json value;
  std::string name;  // of the file, for messages
  // Line, from 1, for each JSON pointer (RFC 6901); a field's line is that of its key.
  std::map<std::string, int, std::less<>> lines;

  // Line of the value at the pointer, or of the nearest enclosing one.
  std::optional<int> line_of(std::string_view pointer) const;
};

struct YamlLimits {
  Bytes size = 4_MiB;
  std::size_t depth = 64;
  std::size_t values = 1'000'000;  // every alias counts as the value that it refers to
};

// One YAML 1.2 document; JSON is one too. Plain scalars are null, bool, integer, float or string by
// the core schema; quoted ones are strings. .nan and .inf become the strings that read as a double.
// Refused: duplicate keys, keys that are not scalars, numbers out of range, tags other than !!str.
Result<Document> parse_yaml(std::string_view input, std::string_view name,
                            const YamlLimits& limits = {});

// Block style, in the value's order, without fields that are null. Parses back to the same value.
std::string dump_yaml(const Json& value);

}  // namespace lockstep
