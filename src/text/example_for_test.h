// example<T>(): a value of a record, in which each field has a value that is not its default.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "text/convert.h"

namespace lockstep {

template <class T>
T example();

namespace example_detail {

template <class T>
T example_number(const std::optional<Range>& range) {
  return static_cast<T>(range ? range->most : 7);
}

template <class T, class Value>
Value example_of_field(const Field<T, Value>& field) {
  if constexpr (OptionalNumber<Value>)
    return example_number<typename Value::value_type>(field.range);
  else if constexpr (Number<Value>)
    return example_number<Value>(field.range);
  else
    return example<Value>();
}

template <Record T>
T example_record() {
  T value{};
  for_each_field<T>([&](const auto& field) { value.*field.member = example_of_field(field); });
  return value;
}

}  // namespace example_detail

template <class T>
T example() {
  using namespace convert_detail;
  if constexpr (std::is_same_v<T, Json>)
    return Json{{"key", "value"}};
  else if constexpr (std::is_same_v<T, bool>)
    return true;
  else if constexpr (std::is_same_v<T, std::string>)
    return "text";
  else if constexpr (Number<T>)
    return static_cast<T>(7);
  else if constexpr (NamedEnum<T>)
    return enum_names(T{}).back().value;
  else if constexpr (Optional<T>)
    return example<Inner<T>>();
  else if constexpr (Vector<T>)
    return T{example<Inner<T>>()};
  else if constexpr (StringMap<T>)
    return T{{"key", example<Inner<T>>()}};
  else if constexpr (ExactQuantity<T>)
    return parse_exact<T>(example_of(static_cast<const T*>(nullptr))).value();
  else
    return example_detail::example_record<T>();
}

}  // namespace lockstep
