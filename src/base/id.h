// Id<Tag>: a number that identifies one kind of object. Explicit construction, ordered, no
// arithmetic, so that a run's number is never passed as a node's.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>

#include "base/format.h"

namespace lockstep {

template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(std::int64_t value) : value_(value) {}
  constexpr std::int64_t value() const { return value_; }
  friend constexpr auto operator<=>(Id, Id) = default;

 private:
  std::int64_t value_ = 0;
};

}  // namespace lockstep

template <class Tag>
struct std::hash<lockstep::Id<Tag>> {
  std::size_t operator()(lockstep::Id<Tag> id) const noexcept {
    return std::hash<std::int64_t>{}(id.value());
  }
};

template <class Tag>
struct fmt::formatter<lockstep::Id<Tag>> : fmt::formatter<std::int64_t> {
  template <class Context>
  auto format(lockstep::Id<Tag> id, Context& context) const {
    return fmt::formatter<std::int64_t>::format(id.value(), context);
  }
};
