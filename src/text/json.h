// Json, and its text form. Every other layer uses this Json; nothing here throws.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "base/units.h"

namespace lockstep {

// Keeps the insertion order of fields. Key look-up is linear: objects are small.
using Json = nlohmann::ordered_json;

struct JsonLimits {
  Bytes size = 64_MiB;
  std::size_t depth = 64;  // nesting of arrays and objects
};

// Strict RFC 8259 on UTF-8: also refuses input on which parsers disagree: duplicate keys, numbers
// too large for a double, lone surrogates and anything after the value. The error names line and
// column, counted from 1 and in bytes.
Result<Json> parse_json(std::string_view input, const JsonLimits& limits = {});

enum class Indent { none, two };

// The text of a value; bytes that are not UTF-8 become U+FFFD. JSON has no NaN: a bare non-finite
// number in `value` is written as null, so convert numbers with to_json(double) of text/convert.h.
std::string dump_json(const Json& value, Indent indent = Indent::none);

// Without the members of objects that are null, at any depth: fields without a value.
Json without_nulls(const Json& value);

// A value on one short line, for messages: "two", 12, an object, a list, null.
std::string summarize_json(const Json& value);

}  // namespace lockstep
