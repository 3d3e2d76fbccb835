// NameMap: values by name, for lookups alone. No decision may depend on its order.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <boost/unordered/unordered_flat_map.hpp>

namespace lockstep::sched {

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const {
    return std::hash<std::string_view>{}(name);
  }
};
template <class Value>
using NameMap = boost::unordered_flat_map<std::string, Value, NameHash, std::equal_to<>>;

}  // namespace lockstep::sched
