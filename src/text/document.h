// Document: a configuration file as a value that remembers its lines, so that whoever reads it can
// say "run.yaml:12: nodes: expected an integer".
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
  // Line, from 1, of each JSON pointer (RFC 6901); a field's is that of its key.
  std::map<std::string, int, std::less<>> lines;

  // Line of the value at the pointer, or of the nearest that encloses it.
  std::optional<int> line_of(std::string_view pointer) const;
};

struct YamlLimits {
  Bytes size = 4_MiB;
  std::size_t depth = 64;
  std::size_t values = 1'000'000;  // with every alias counted as what it stands for
};

// One YAML 1.2 document; JSON is one too. Plain scalars are null, bool, integer, float or string by
// the core schema; quoted ones are strings. .nan and .inf become the strings that read as a double.
// Refused: duplicate keys, keys that are not scalars, numbers out of range, tags other than !!str.
Result<Document> parse_yaml(std::string_view words, std::string_view name,
                            const YamlLimits& limits = {});

// Block style, in the value's order, without fields that are null. Reads back as the same value.
std::string dump_yaml(const Json& value);

}  // namespace lockstep
