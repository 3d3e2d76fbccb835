#include "text/convert.h"

#include <algorithm>
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

Error expected(std::string_view what, const Json& json, const JsonLocation& location) {
  return location.error(format("expected {}, got {}", what, summarize_json(json)));
}

std::vector<std::string_view> names_of(std::span<const convert_detail::AnyField> fields) {
  std::vector<std::string_view> names;
  for (const auto& field : fields) names.push_back(field.name);
  return names;
}

}  // namespace

std::string JsonLocation::path() const {
  if (parent_ == nullptr) return {};
  std::string before = parent_->path();
  if (is_index()) return format("{}[{}]", before, index_);
  return before.empty() ? std::string(key_) : format("{}.{}", before, key_);
}

std::string JsonLocation::pointer() const {
  if (parent_ == nullptr) return {};
  return format("{}/{}", parent_->pointer(), is_index() ? format("{}", index_) : escaped(key_));
}

std::string JsonLocation::file_and_line() const {
  if (document_ == nullptr) return {};
  auto line = document_->line_of(pointer());
  return document_->name + (line ? format(":{}: ", *line) : ": ");
}

Error JsonLocation::error(std::string_view what) const {
  std::string where = path();
  return Error{Code::invalid,
               format("{}{}{}{}", file_and_line(), where, where.empty() ? "" : ": ", what)};
}

namespace convert_detail {

Json double_to_json(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "Infinity" : "-Infinity";
  return value;
}

Result<bool> read_bool(const Json& json, const JsonLocation& location) {
  if (json.is_boolean()) return json.get<bool>();
  return expected("true or false", json, location);
}

Result<double> read_double(const Json& json, const JsonLocation& location) {
  if (json.is_number()) return json.get<double>();
  if (json == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (json == "Infinity") return std::numeric_limits<double>::infinity();
  if (json == "-Infinity") return -std::numeric_limits<double>::infinity();
  return expected("a number", json, location);
}

Result<std::string> read_string(const Json& json, const JsonLocation& location) {
  if (json.is_string()) return json.get<std::string>();
  if (!json.is_number() && !json.is_boolean()) return expected("text", json, location);
  return location.error(format("expected text, got {0}; write \"{0}\"", summarize_json(json)));
}

Result<std::string> read_encoded_text(const Json& json, std::string_view example,
                                      const JsonLocation& location) {
  if (json.is_string()) return json.get<std::string>();
  return expected(format("text such as \"{}\"", example), json, location);
}

Result<std::int64_t> read_integer(const Json& json, std::int64_t least, std::int64_t most,
                                  const JsonLocation& location) {
  if (!json.is_number_integer()) return expected("an integer", json, location);
  bool fits = json.is_number_unsigned()
                  ? std::cmp_less_equal(json.get<std::uint64_t>(), most) &&
                        std::cmp_greater_equal(json.get<std::uint64_t>(), least)
                  : json.get<std::int64_t>() >= least && json.get<std::int64_t>() <= most;
  if (fits) return json.get<std::int64_t>();
  return expected(format("an integer from {} to {}", least, most), json, location);
}

Result<std::uint64_t> read_unsigned(const Json& json, std::uint64_t most,
                                    const JsonLocation& location) {
  if (!json.is_number_integer()) return expected("an integer", json, location);
  bool is_negative = !json.is_number_unsigned() && json.get<std::int64_t>() < 0;
  if (!is_negative && json.get<std::uint64_t>() <= most) return json.get<std::uint64_t>();
  return expected(format("an integer from 0 to {}", most), json, location);
}

Result<void> expect_object(const Json& json, const JsonLocation& location) {
  if (json.is_object()) return {};
  return expected("an object with named fields", json, location);
}

Result<void> expect_array(const Json& json, const JsonLocation& location) {
  if (json.is_array()) return {};
  return expected("a list", json, location);
}

Error unknown_field(std::string_view name, const std::vector<std::string_view>& known,
                    const JsonLocation& location) {
  std::string hint = did_you_mean(name, known);
  if (hint.empty()) hint = format("; known are {}", joined(known, ", "));
  std::string where = location.path();
  return Error{Code::invalid,
               format("{}{}{}unknown field '{}'{}", location.at(name).file_and_line(), where,
                      where.empty() ? "" : ": ", name, hint)};
}

Error missing_field(std::string_view name, std::string_view help, const JsonLocation& location) {
  return location.error(format("the field '{}' is missing ({})", name, help));
}

Error out_of_range(const Json& json, const Range& range, const JsonLocation& location) {
  return expected(format("a number from {} to {}", range.least, range.most), json, location);
}

Json json_from_text(const std::string& input) {
  auto value = parse_json(input);
  if (value && (value->is_number() || value->is_boolean())) return *std::move(value);
  return input;
}

Json integer_schema(Json least, Json most) {
  return {{"type", "integer"}, {"minimum", std::move(least)}, {"maximum", std::move(most)}};
}

Json double_schema() {
  Json non_finite = {{"enum", Json::array({"NaN", "Infinity", "-Infinity"})}};
  return {{"anyOf", Json::array({Json{{"type", "number"}}, std::move(non_finite)})}};
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

Result<void> read_fields(std::span<const AnyField> fields, const Json& json,
                         const JsonLocation& location, void* record) {
  TRY(expect_object(json, location));
  std::vector<bool> seen(fields.size());
  for (const auto& [key, item] : json.get_ref<const Json::object_t&>()) {
    const auto field = std::ranges::find(fields, key, &AnyField::name);
    if (field == fields.end() && location.unknown_fields() == UnknownFields::ignore) continue;
    if (field == fields.end()) return unknown_field(key, names_of(fields), location);
    TRY(field->read(item, location.at(key), field->range, field->value_in(record)));
    seen[static_cast<std::size_t>(field - fields.begin())] = true;
  }
  for (std::size_t i = 0; i < fields.size(); ++i)
    if (fields[i].is_required && !seen[i])
      return missing_field(fields[i].name, fields[i].help, location);
  return {};
}

Json write_fields(std::span<const AnyField> fields, const void* record) {
  Json result = Json::object();
  for (const AnyField& field : fields)
    result[std::string(field.name)] = field.write(field.value_in(const_cast<void*>(record)));
  return result;
}

Json schema_of_fields(std::span<const AnyField> fields) {
  Json properties = Json::object(), needed = Json::array();
  for (const AnyField& field : fields) {
    properties[std::string(field.name)] = schema_of_field(field.schema(), field.help, field.range);
    if (field.is_required) needed.push_back(std::string(field.name));
  }
  Json result = {{"type", "object"}, {"properties", std::move(properties)}};
  if (!needed.empty()) result["required"] = std::move(needed);
  result["additionalProperties"] = false;
  return result;
}

Json schema_of_field(Json value, std::string_view help, const std::optional<Range>& range) {
  if (range) narrow_schema(value, *range);
  value["description"] = std::string(help);
  return value;
}

Json json_from_query(std::span<const AnyField> fields,
                     const std::map<std::string, std::string>& parameters) {
  Json json = Json::object();
  for (const auto& [name, value] : parameters) {
    const auto field = std::ranges::find(fields, name, &AnyField::name);
    json[name] = field == fields.end() ? Json(value) : field->from_text(value);
  }
  return json;
}

std::vector<std::pair<std::string, std::string>> query_from_fields(std::span<const AnyField> fields,
                                                                   const void* record) {
  std::vector<std::pair<std::string, std::string>> parameters;
  for (const AnyField& field : fields) {
    const Json word = field.write(field.value_in(const_cast<void*>(record)));
    if (word.is_null()) continue;
    parameters.emplace_back(field.name,
                            word.is_string() ? word.get<std::string>() : dump_json(word));
  }
  return parameters;
}

}  // namespace convert_detail
}  // namespace lockstep
