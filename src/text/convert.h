// Records to and from Json, and their schema. The forms, the same in files and in the API:
//   Bytes "4 GiB", Bandwidth "10 Gbit/s", Duration "1h 30m", Time "2026-11-21T10:00:00Z":
//     exact text (text/exact.h); a field for programs that compute is a number with its unit in its
//     name.
//   double: a number, or one of the strings "NaN", "Infinity", "-Infinity".
//   enums by name, Id<Tag> as integer, an empty std::optional as null (null or absent when read).
// Reading refuses unknown fields and wrong types; the error names the file's line or the field's
// path, what was expected and what was there: "run.yaml:12: nodes: expected an integer, got "two"".
// Data that another version of Lockstep has written is read with UnknownFields::ignore.
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/id.h"
#include "base/result.h"
#include "base/units.h"
#include "text/document.h"
#include "text/exact.h"
#include "text/json.h"
#include "text/record.h"

namespace lockstep {

// Fields that a record does not have, at any depth of it.
enum class UnknownFields {
  reject,  // for text from users: it may be a mistake
  ignore,  // from a newer version, which has more fields than this one
};

template <class T>
Json to_json(const T& value);

// Reads a value from the network; errors begin with the field's path.
template <class T>
Result<T> from_json(const Json& json, UnknownFields unknown = UnknownFields::reject);

// Reads a file's value; errors begin with the file's name and line.
template <class T>
Result<T> from_document(const Document& document);

// Reads a record from text values by name, as in a URL's query; its fields are bool, numbers, text,
// enums and optionals of these. Errors name the field.
template <Record T>
Result<T> from_query(const std::map<std::string, std::string>& parameters,
                     UnknownFields unknown = UnknownFields::reject);

// The same text values again, in the record's order; empty optionals are omitted.
template <Record T>
std::vector<std::pair<std::string, std::string>> to_query(const T& value);

// JSON Schema 2020-12, for OpenAPI 3.1; nested records are written inline.
template <class T>
Json json_schema();
// The schema of one field, with its range and its meaning.
template <class T, class Value>
Json json_schema(const Field<T, Value>& field);

// The location of a value, for messages: a chain of keys up to the root, on the reader's stack.
class JsonLocation {
 public:
  JsonLocation() = default;
  explicit JsonLocation(UnknownFields unknown) : unknown_fields_(unknown) {}
  explicit JsonLocation(const Document& document) : document_(&document) {}
  JsonLocation at(std::string_view key) const { return JsonLocation(this, key, 0); }
  JsonLocation at(std::size_t index) const { return JsonLocation(this, {}, index); }
  // How unknown fields are handled here.
  UnknownFields unknown_fields() const { return unknown_fields_; }

  // "pods[0].leaves[1].bandwidth"; empty for the root.
  std::string path() const;
  // "cluster.yaml:14: ", the known part.
  std::string file_and_line() const;
  // "cluster.yaml:14: pods[0].bandwidth: what".
  Error error(std::string_view what) const;

 private:
  JsonLocation(const JsonLocation* parent, std::string_view key, std::size_t index)
      : document_(parent->document_),
        unknown_fields_(parent->unknown_fields_),
        parent_(parent),
        key_(key),
        index_(index) {}
  bool is_index() const { return key_.data() == nullptr; }
  std::string pointer() const;

  const Document* document_ = nullptr;
  UnknownFields unknown_fields_ = UnknownFields::reject;
  const JsonLocation* parent_ = nullptr;
  std::string_view key_;  // data() is null: an index
  std::size_t index_ = 0;
};

// Implementation of the templates below; not for use elsewhere.
namespace convert_detail {

template <class T>
struct ContainerTraits {};
template <class T>
struct ContainerTraits<std::optional<T>> {
  static constexpr bool is_optional = true;
  using Inner = T;
};
template <class T>
struct ContainerTraits<std::vector<T>> {
  static constexpr bool is_vector = true;
  using Inner = T;
};
template <class T>
struct ContainerTraits<std::map<std::string, T>> {
  static constexpr bool is_map = true;
  using Inner = T;
};
template <class Tag>
struct ContainerTraits<Id<Tag>> {
  static constexpr bool is_id = true;
};

template <class T>
using Inner = typename ContainerTraits<T>::Inner;
template <class T>
concept Optional = requires { ContainerTraits<T>::is_optional; };
template <class T>
concept Vector = requires { ContainerTraits<T>::is_vector; };
template <class T>
concept StringMap = requires { ContainerTraits<T>::is_map; };
template <class T>
concept Identity = requires { ContainerTraits<T>::is_id; };
template <class T>
concept ExactQuantity = std::same_as<T, Bytes> || std::same_as<T, Bandwidth> ||
                        std::same_as<T, Duration> || std::same_as<T, Time>;
template <class T>
concept Integer = std::integral<T> && !std::same_as<T, bool>;

Json double_to_json(double value);
Result<bool> read_bool(const Json& json, const JsonLocation& location);
Result<double> read_double(const Json& json, const JsonLocation& location);
Result<std::string> read_string(const Json& json, const JsonLocation& location);
// Text that encodes a value: its error shows an example.
Result<std::string> read_encoded_text(const Json& json, std::string_view example,
                                      const JsonLocation& location);
Result<std::int64_t> read_integer(const Json& json, std::int64_t least, std::int64_t most,
                                  const JsonLocation& location);
Result<std::uint64_t> read_unsigned(const Json& json, std::uint64_t most,
                                    const JsonLocation& location);
Result<void> expect_object(const Json& json, const JsonLocation& location);
Result<void> expect_array(const Json& json, const JsonLocation& location);
Error unknown_field(std::string_view name, const std::vector<std::string_view>& known,
                    const JsonLocation& location);
Error missing_field(std::string_view name, std::string_view help, const JsonLocation& location);
Error out_of_range(const Json& json, const Range& range, const JsonLocation& location);
// Reads the input as a number or a boolean; as text if they are neither.
Json json_from_text(const std::string& input);
Json integer_schema(Json least, Json most);
Json double_schema();
Json nullable_schema(Json schema);
// The least and the greatest are inserted at the number's own schema.
void narrow_schema(Json& schema, const Range& range);
// Regular expressions of what parse_exact reads.
std::string_view duration_pattern();
std::string_view amount_pattern();

constexpr std::string_view example_of(const Bytes*) { return "4 GiB"; }
constexpr std::string_view example_of(const Bandwidth*) { return "10 Gbit/s"; }
constexpr std::string_view example_of(const Duration*) { return "1h 30m"; }
constexpr std::string_view example_of(const Time*) { return "2026-01-31T12:00:00Z"; }

template <class T>
Result<T> read(const Json& json, const JsonLocation& location);

template <Integer T>
Result<T> read_number(const Json& json, const JsonLocation& location) {
  using Extremes = std::numeric_limits<T>;
  if constexpr (std::is_signed_v<T>)
    return static_cast<T>(TRY(read_integer(json, Extremes::min(), Extremes::max(), location)));
  else
    return static_cast<T>(TRY(read_unsigned(json, Extremes::max(), location)));
}

template <ExactQuantity T>
Result<T> read_exact(const Json& json, const JsonLocation& location) {
  std::string input =
      TRY(read_encoded_text(json, example_of(static_cast<const T*>(nullptr)), location));
  auto result = parse_exact<T>(input);
  return result ? std::move(result) : location.error(result.error().message);
}

template <NamedEnum T>
Result<T> read_name(const Json& json, const JsonLocation& location) {
  std::string input = TRY(read_encoded_text(json, all_names<T>().front(), location));
  auto result = parse_name<T>(input);
  return result ? std::move(result) : location.error(result.error().message);
}

template <Vector T>
Result<T> read_vector(const Json& json, const JsonLocation& location) {
  TRY(expect_array(json, location));
  T result;
  result.reserve(json.size());
  for (const Json& item : json)
    result.push_back(TRY(read<Inner<T>>(item, location.at(result.size()))));
  return result;
}

template <StringMap T>
Result<T> read_map(const Json& json, const JsonLocation& location) {
  TRY(expect_object(json, location));
  T result;
  for (const auto& [key, item] : json.get_ref<const Json::object_t&>())
    result.emplace(key, TRY(read<Inner<T>>(item, location.at(key))));
  return result;
}

template <Formed T>
Result<T> read_form(const Json& json, const JsonLocation& location) {
  auto result = T::from_form(TRY(read<typename T::Form>(json, location)));
  return result ? std::move(result) : location.error(result.error().message);
}

constexpr bool is_within(double value, const Range& range) {
  return value >= static_cast<double>(range.least) && value <= static_cast<double>(range.most);
}
template <Integer T>
constexpr bool is_within(T value, const Range& range) {
  return std::cmp_greater_equal(value, range.least) && std::cmp_less_equal(value, range.most);
}
template <Optional T>
constexpr bool is_within(const T& value, const Range& range) {
  return !value || is_within(*value, range);
}

// A field with its types erased. The code for a record's fields is compiled once, and the code for
// a value once for its type. Code for each field would take seconds of compile time a record.
struct AnyField {
  std::string_view name;
  std::string_view help;
  bool is_required;
  std::optional<Range> range;
  void* (*value_in)(void* record);
  Result<void> (*read)(const Json&, const JsonLocation&, const std::optional<Range>&, void* value);
  Json (*write)(const void* value);
  Json (*schema)();
  Json (*from_text)(const std::string&);
};

template <Record T>
inline constexpr auto kFields = T::fields();

template <Record T, std::size_t index>
void* value_in(void* record) {
  return &(static_cast<T*>(record)->*field_at<index>(kFields<T>).member);
}

template <class Value>
Result<void> read_into(const Json& json, const JsonLocation& location,
                       const std::optional<Range>& range, void* value) {
  Value found = TRY(read<Value>(json, location));
  if constexpr (Number<Value> || OptionalNumber<Value>)
    if (range && !is_within(found, *range)) return out_of_range(json, *range, location);
  *static_cast<Value*>(value) = std::move(found);
  return {};
}

template <class Value>
Json write_from(const void* value) {
  return to_json(*static_cast<const Value*>(value));
}

// Text stays text, even if it looks like a number.
template <class T>
Json json_from_text_as(const std::string& input) {
  if constexpr (Optional<T>)
    return json_from_text_as<Inner<T>>(input);
  else if constexpr (Number<T> || std::same_as<T, bool>)
    return json_from_text(input);
  else
    return input;
}

template <Record T, std::size_t index>
constexpr AnyField any_field() {
  const auto& field = field_at<index>(kFields<T>);
  using Value = typename std::remove_cvref_t<decltype(field)>::value_type;
  return {field.name,        field.help,         field.is_required,
          field.range,       value_in<T, index>, read_into<Value>,
          write_from<Value>, json_schema<Value>, json_from_text_as<Value>};
}

template <Record T>
std::span<const AnyField> any_fields() {
  static constexpr auto all = []<std::size_t... index>(std::index_sequence<index...>) {
    return std::array<AnyField, sizeof...(index)>{any_field<T, index>()...};
  }(std::make_index_sequence<kFields<T>.size>());
  return all;
}

Result<void> read_fields(std::span<const AnyField> fields, const Json& json,
                         const JsonLocation& location, void* record);
Json write_fields(std::span<const AnyField> fields, const void* record);
Json schema_of_fields(std::span<const AnyField> fields);
// The schema of one field from the schema of its value.
Json schema_of_field(Json value, std::string_view help, const std::optional<Range>& range);
// The contents of a URL's query; each field converts its text.
Json json_from_query(std::span<const AnyField> fields,
                     const std::map<std::string, std::string>& parameters);
std::vector<std::pair<std::string, std::string>> query_from_fields(std::span<const AnyField> fields,
                                                                   const void* record);

template <Record T>
Result<T> read_record(const Json& json, const JsonLocation& location) {
  T result{};
  TRY(read_fields(any_fields<T>(), json, location, &result));
  return result;
}

template <class T>
Result<T> read(const Json& json, const JsonLocation& location) {
  if constexpr (std::same_as<T, Json>) {
    return json;
  } else if constexpr (std::same_as<T, bool>) {
    return read_bool(json, location);
  } else if constexpr (Integer<T>) {
    return read_number<T>(json, location);
  } else if constexpr (std::same_as<T, double>) {
    return read_double(json, location);
  } else if constexpr (std::same_as<T, std::string>) {
    return read_string(json, location);
  } else if constexpr (ExactQuantity<T>) {
    return read_exact<T>(json, location);
  } else if constexpr (Identity<T>) {
    return T(TRY(read_number<std::int64_t>(json, location)));
  } else if constexpr (NamedEnum<T>) {
    return read_name<T>(json, location);
  } else if constexpr (Optional<T>) {
    if (json.is_null()) return T();
    return T(TRY(read<Inner<T>>(json, location)));
  } else if constexpr (Vector<T>) {
    return read_vector<T>(json, location);
  } else if constexpr (StringMap<T>) {
    return read_map<T>(json, location);
  } else if constexpr (Formed<T>) {
    return read_form<T>(json, location);
  } else {
    static_assert(Record<T>, "a record holds the types that text/record.h lists");
    return read_record<T>(json, location);
  }
}

}  // namespace convert_detail

template <class T>
Json to_json(const T& value) {
  using namespace convert_detail;
  if constexpr (std::same_as<T, double>) {
    return double_to_json(value);
  } else if constexpr (std::same_as<T, Json> || std::same_as<T, bool> || Integer<T> ||
                       std::same_as<T, std::string>) {
    return Json(value);
  } else if constexpr (ExactQuantity<T>) {
    return exact_text(value);
  } else if constexpr (Identity<T>) {
    return value.value();
  } else if constexpr (NamedEnum<T>) {
    return std::string(name_of(value));
  } else if constexpr (Optional<T>) {
    return value ? to_json(*value) : Json();
  } else if constexpr (Vector<T>) {
    Json result = Json::array();
    for (const auto& item : value) result.push_back(to_json(item));
    return result;
  } else if constexpr (StringMap<T>) {
    Json result = Json::object();
    for (const auto& [key, item] : value) result[key] = to_json(item);
    return result;
  } else if constexpr (Formed<T>) {
    return to_json(value.form());
  } else {
    static_assert(Record<T>, "a record holds the types that text/record.h lists");
    return write_fields(any_fields<T>(), &value);
  }
}

template <class T>
Result<T> from_json(const Json& json, UnknownFields unknown) {
  return convert_detail::read<T>(json, JsonLocation(unknown));
}

template <class T>
Result<T> from_document(const Document& document) {
  return convert_detail::read<T>(document.value, JsonLocation(document));
}

template <Record T>
Result<T> from_query(const std::map<std::string, std::string>& parameters, UnknownFields unknown) {
  using namespace convert_detail;
  return from_json<T>(json_from_query(any_fields<T>(), parameters), unknown);
}

template <Record T>
std::vector<std::pair<std::string, std::string>> to_query(const T& value) {
  using namespace convert_detail;
  return query_from_fields(any_fields<T>(), &value);
}

template <class T, class Value>
Json json_schema(const Field<T, Value>& field) {
  return convert_detail::schema_of_field(json_schema<Value>(), field.help, field.range);
}

template <class T>
Json json_schema() {
  using namespace convert_detail;
  using Extremes = std::numeric_limits<T>;
  if constexpr (std::same_as<T, Json>) {
    return Json::object();  // anything
  } else if constexpr (std::same_as<T, bool>) {
    return {{"type", "boolean"}};
  } else if constexpr (Integer<T>) {
    return integer_schema(Extremes::min(), Extremes::max());
  } else if constexpr (std::same_as<T, double>) {
    return double_schema();
  } else if constexpr (std::same_as<T, std::string>) {
    return {{"type", "string"}};
  } else if constexpr (std::same_as<T, Time>) {
    return {{"type", "string"}, {"format", "date-time"}};
  } else if constexpr (ExactQuantity<T>) {
    const std::string pattern(std::same_as<T, Duration> ? duration_pattern() : amount_pattern());
    const std::string example(example_of(static_cast<const T*>(nullptr)));
    return {{"type", "string"}, {"pattern", pattern}, {"examples", Json::array({example})}};
  } else if constexpr (Identity<T>) {
    return json_schema<std::int64_t>();
  } else if constexpr (NamedEnum<T>) {
    Json all = Json::array();
    for (std::string_view name : all_names<T>()) all.push_back(std::string(name));
    return {{"type", "string"}, {"enum", std::move(all)}};
  } else if constexpr (Optional<T>) {
    return nullable_schema(json_schema<Inner<T>>());
  } else if constexpr (Vector<T>) {
    return {{"type", "array"}, {"items", json_schema<Inner<T>>()}};
  } else if constexpr (StringMap<T>) {
    return {{"type", "object"}, {"additionalProperties", json_schema<Inner<T>>()}};
  } else if constexpr (Formed<T>) {
    return json_schema<typename T::Form>();
  } else {
    static_assert(Record<T>, "a record holds the types that text/record.h lists");
    return schema_of_fields(any_fields<T>());
  }
}

}  // namespace lockstep

// Converting a large record costs seconds of compilation. If several sources need it, their common
// header has LS_DECLARE_CONVERSION(T) outside all namespaces, with T's full name, and one source
// has LS_DEFINE_CONVERSION(T).
#define LS_DECLARE_CONVERSION(T)                                         \
  extern template lockstep::Json lockstep::to_json<T>(const T&);         \
  extern template lockstep::Result<T> lockstep::convert_detail::read<T>( \
      const lockstep::Json&, const lockstep::JsonLocation&);             \
  extern template lockstep::Json lockstep::json_schema<T>();
#define LS_DEFINE_CONVERSION(T)                                                                  \
  template lockstep::Json lockstep::to_json<T>(const T&);                                        \
  template lockstep::Result<T> lockstep::convert_detail::read<T>(const lockstep::Json&,          \
                                                                 const lockstep::JsonLocation&); \
  template lockstep::Json lockstep::json_schema<T>();
