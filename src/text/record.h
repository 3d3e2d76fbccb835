// A struct's fields, described once. JSON, YAML, schemas, tables and help texts are derived from
// that (text/convert.h); this header is light, so that models may include it.
//
//   struct Order {
//     std::string item;
//     int count = 1;
//     std::optional<Bytes> memory;
//     static constexpr auto fields() {
//       return record<Order>(required(field("item", &Order::item, "what to buy")),
//                            between(1, 99, field("count", &Order::count, "how many")),
//                            field("memory", &Order::memory, "how much it needs"));
//     }
//   };
//
// A field that is absent keeps the default value of its struct. Types: bool, integers, double,
// std::string, Bytes, Bandwidth, Duration, Time, Id<Tag>, enums with names, other records, Json,
// and std::optional, std::vector and std::map<std::string, T> of these.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep {

struct Range {
  std::int64_t least = 0;
  std::int64_t most = 0;
};

template <class T, class Value>
struct Field {
  using value_type = Value;
  std::string_view name;
  Value T::* member;
  std::string_view help;
  bool is_required = false;
  std::optional<Range> range{};  // of a number; both ends are included
};

template <class T, class Value>
constexpr Field<T, Value> field(std::string_view name, Value T::* member, std::string_view help) {
  return {name, member, help};
}

// The same field; reading a value without it is an error.
template <class T, class Value>
constexpr Field<T, Value> required(Field<T, Value> field) {
  field.is_required = true;
  return field;
}

template <class T>
concept Number = std::is_arithmetic_v<T> && !std::same_as<T, bool>;
template <class T>
concept OptionalNumber =
    Number<typename T::value_type> && std::same_as<T, std::optional<typename T::value_type>>;

// The same field; reading a number outside of the range (NaN too) is an error.
template <class T, class Value>
  requires Number<Value> || OptionalNumber<Value>
constexpr Field<T, Value> between(std::int64_t least, std::int64_t most, Field<T, Value> field) {
  field.range = Range{least, most};
  return field;
}

// The result of record(): all fields, accessible by index. Not std::tuple, which costs compile time
// in every source that includes a record.
template <std::size_t index, class F>
struct FieldAt {
  F field;
};
template <class Indices, class... F>
struct Fields;
template <std::size_t... index, class... F>
struct Fields<std::index_sequence<index...>, F...> : FieldAt<index, F>... {
  static constexpr std::size_t size = sizeof...(F);
};
template <std::size_t index, class F>
constexpr const F& field_at(const FieldAt<index, F>& fields) {
  return fields.field;
}

template <class T, class... Values>
constexpr Fields<std::index_sequence_for<Values...>, Field<T, Values>...> record(
    Field<T, Values>... fields) {
  return {{fields}...};
}

template <class T>
concept Record = requires { T::fields(); };

// Calls visit(field) for each field of T, in their order.
template <Record T, class Visit>
constexpr void for_each_field(Visit&& visit) {
  constexpr auto fields = T::fields();
  [&]<std::size_t... index>(std::index_sequence<index...>) {
    (visit(field_at<index>(fields)), ...);
  }(std::make_index_sequence<fields.size>());
}

template <class T>
concept Formed = requires(const T& value, typename T::Form form) {
  { value.form() } -> std::same_as<typename T::Form>;
  { T::from_form(std::move(form)) } -> std::same_as<Result<T>>;
};

// The names of an enum's values, found by argument-dependent lookup:
//   constexpr auto enum_names(Color) {
//     return names<Color>({{Color::red, "red"}, {Color::green, "green"}});
//   }
template <class E>
struct EnumName {
  E value;
  std::string_view name;
};

template <class E, std::size_t N>
constexpr std::array<EnumName<E>, N> names(const EnumName<E> (&table)[N]) {
  return std::to_array(table);
}

template <class E>
concept NamedEnum = std::is_enum_v<E> && requires(E value) { enum_names(value); };

template <NamedEnum E>
constexpr std::string_view name_of(E value) {
  for (const auto& entry : enum_names(E{}))
    if (entry.value == value) return entry.name;
  return "?";
}

template <NamedEnum E>
std::vector<std::string_view> all_names() {
  std::vector<std::string_view> all;
  for (const auto& entry : enum_names(E{})) all.push_back(entry.name);
  return all;
}

// "'amber' is none of red, green": the message of a name that is not in the list, with the nearest.
Error unknown_name(std::string_view name, const std::vector<std::string_view>& known);

template <NamedEnum E>
Result<E> parse_name(std::string_view name) {
  for (const auto& entry : enum_names(E{}))
    if (entry.name == name) return entry.value;
  return unknown_name(name, all_names<E>());
}

}  // namespace lockstep
