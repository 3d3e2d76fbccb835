// SeededRandom: the random choices of one part of the simulation. Each part has its own sequence,
// made from the seed and the part's name, so that more choices of one part do not change the
// others.
#pragma once

#include <string_view>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/units.h"

namespace lockstep::sim {

class SeededRandom {
 public:
  SeededRandom(std::uint64_t seed, std::string_view part)
      : random_(fnv1a(part, Fnv1a::kStart ^ seed)) {}

  // From 0 to bound - 1; bound > 0.
  int below(int bound) {
    return static_cast<int>(random_.below(static_cast<std::uint64_t>(bound)));
  }
  int from_to(int least, int most) { return least + below(most - least + 1); }
  bool percent(int chance) { return below(100) < chance; }
  Duration from_to(Duration least, Duration most) {
    const auto width = static_cast<std::uint64_t>((most - least).count()) + 1;
    return least + Duration(static_cast<std::int64_t>(random_.below(width)));
  }
  // The container is not empty.
  template <class Container>
  auto& one_of(Container& container) {
    LS_CHECK(!container.empty());
    return *std::next(container.begin(), below(static_cast<int>(container.size())));
  }

 private:
  Random random_;
};

}  // namespace lockstep::sim
