// joined(): a record of many fields from parts, each of which has a part of them.
//
//   static constexpr auto fields() { return joined(needs_fields(), limit_fields()); }
#pragma once

#include <cstddef>
#include <utility>

#include "text/record.h"

namespace lockstep {

template <std::size_t... first, class... F, std::size_t... second, class... G>
constexpr Fields<std::index_sequence_for<F..., G...>, F..., G...> joined(
    const Fields<std::index_sequence<first...>, F...>& front,
    const Fields<std::index_sequence<second...>, G...>& back) {
  return {{field_at<first>(front)}..., {field_at<second>(back)}...};
}

}  // namespace lockstep
