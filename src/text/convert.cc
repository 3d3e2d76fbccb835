#include "text/convert.h"

#include <cmath>

#include "base/format.h"
#include "text/nearest.h"

namespace lockstep {
namespace {

std::string escaped(std::string_view key) {
  std::string result;
  for (char c : key) result += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  return result;
}

Error expected(std::string_view what, const Json& json, const Place& place) {
  return place.error(format("expected {}, got {}", what, brief(json)));
}

}  // namespace

std::string Place::path() const {
  if (parent_ == nullptr) return {};
  std::string before = parent_->path();
  if (is_index()) return format("{}[{}]", before, index_);
  return before.empty() ? std::string(key_) : format("{}.{}", before, key_);
}

std::string Place::pointer() const {
  if (parent_ == nullptr) return {};
  return format("{}/{}", parent_->pointer(), is_index() ? format("{}", index_) : escaped(key_));
}

std::string Place::source() const {
  if (document_ == nullptr) return {};
  auto line = document_->line_of(pointer());
  return document_->name + (line ? format(":{}: ", *line) : ": ");
}

Error Place::error(std::string_view what) const {
  std::string where = path();
  return Error{Code::invalid, format("{}{}{}{}", source(), where, where.empty() ? "" : ": ", what)};
}

namespace convert_detail {

Json double_to_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Result<bool> read_bool(const Json& json, const Place& place) {
  if (json.is_boolean()) return json.get<bool>();
  return expected("true or false", json, place);
}

Result<double> read_double(const Json& json, const Place& place) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  return expected("a number", json, place);
}

Result<std::string> read_string(const Json& json, const Place& place) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_number() && !json.is_boolean()) return expected("text", json, place);
  return place.error(format("expected text, got {0}; write \"{0}\"", brief(json)));
}

Result<std::string> read_words(const Json& json, std::string_view example, const Place& place) {
  if (json.is_string()) return json.get<std::string>();
  return expected(format("text such as \"{}\"", example), json, place);
}

Result<std::int64_t> read_integer(const Json& json, std::int64_t least, std::int64_t most,
                                  const Place& place) {
  if (!json.is_number_integer()) return expected("an integer", json, place);
  bool fits = json.is_number_unsigned()
                  ? std::cmp_less_equal(json.get<std::uint64_t>(), most) &&
                        std::cmp_greater_equal(json.get<std::uint64_t>(), least)
                  : json.get<std::int64_t>() >= least && json.get<std::int64_t>() <= most;
  if (fits) return json.get<std::int64_t>();
  return expected(format("an integer from {} to {}", least, most), json, place);
}

Result<std::uint64_t> read_unsigned(const Json& json, std::uint64_t most, const Place& place) {
  if (!json.is_number_integer()) return expected("an integer", json, place);
  bool is_negative = !json.is_number_unsigned() && json.get<std::int64_t>() < 0;
  if (!is_negative && json.get<std::uint64_t>() <= most) return json.get<std::uint64_t>();
  return expected(format("an integer from 0 to {}", most), json, place);
}

Result<void> expect_object(const Json& json, const Place& place) {
  if (json.is_object()) return {};
  return expected("an object with named fields", json, place);
}

Result<void> expect_array(const Json& json, const Place& place) {
  if (json.is_array()) return {};
  return expected("a list", json, place);
}

Error unknown_field(std::string_view name, const std::vector<std::string_view>& known,
                    const Place& place) {
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = format("; known are {}", joined(known, ", "));
  std::string where = place.path();
  return Error{Code::invalid, format("{}{}{}unknown field '{}'{}", place.at(name).source(), where,
                                     where.empty() ? "" : ": ", name, hint)};
}

Error missing_field(std::string_view name, std::string_view help, const Place& place) {
  return place.error(format("the field '{}' is missing ({})", name, help));
}

Error out_of_range(const Json& json, const Range& range, const Place& place) {
  return expected(format("a number from {} to {}", range.least, range.most), json, place);
}

Json json_of_words(const std::string& words) {
  auto value = parse_json(words);
  if (value && (value->is_number() || value->is_boolean())) return *std::move(value);
  return words;
}

Json integer_schema(Json least, Json most) {
  return {{"type", "integer"}, {"minimum", std::move(least)}, {"maximum", std::move(most)}};
}

Json double_schema() {
  Json words = {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}};
  return {{"anyOf", Json::array({Json{{"type", "number"}}, std::move(words)})}};
}

Json nullable_schema(Json schema) {
  return {{"anyOf", Json::array({std::move(schema), Json{{"type", "null"}}})}};
}

void narrow_schema(Json& schema, const Range& range) {
  if (!schema.contains("anyOf")) {
    schema["minimum"] = range.least;
    schema["maximum"] = range.most;
    return;
  }
  Json& number = schema["anyOf"][0];
  narrow_schema(number, range);
  if (schema["anyOf"][1].contains("enum")) schema = Json(number);  // NaN is in no range
}

std::string_view duration_pattern() { return R"(^-?([0-9]+(\.[0-9]+)? *(d|h|m|s|ms|us) *)+$)"; }

std::string_view amount_pattern() { return R"(^-?[0-9]+(\.[0-9]+)? *[A-Za-z/]+$)"; }

}  // namespace convert_detail
}  // namespace lockstep
