#include "platform/core/sched/capacity/sorted_items.h"

#include <algorithm>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep {
namespace {

struct Ascending {
  bool operator()(int a, int b) const { return a < b; }
  static std::uint64_t prefix(int number) { return static_cast<std::uint64_t>(number); }
};

TEST(SortedItems, AreWhatWasAddedAndNotTakenOutInOrder) {
  Random random(3);
  SortedItems<int, Ascending> sorted{Ascending{}};
  std::set<int> plain;
  const auto add = [&](int number) {
    if (plain.insert(number).second) sorted.add(number);
  };
  for (int round = 0; round < 4'000; ++round) {
    // In waves, so that the gap in front grows and is filled again; near either end, or anywhere.
    const int near =
        static_cast<int>(random.below(3)) * 1'000 + static_cast<int>(random.below(500));
    if (random.below(10) < (round / 500 % 2 == 0 ? 7u : 2u)) {
      add(near);
    } else if (random.below(100) == 0) {
      for (int i = 0; i < 600; ++i) add(static_cast<int>(random.below(3'000)));
    } else if (!plain.empty() && random.below(2) == 0) {
      const auto found = plain.lower_bound(near);
      const int gone = found == plain.end() ? *plain.begin() : *found;
      sorted.remove(gone);
      plain.erase(gone);
    } else {
      std::vector<std::size_t> positions;
      std::size_t position = 0;
      for (auto item = plain.begin(); item != plain.end(); ++position) {
        const bool goes = random.below(8) == 0 && position < 40;
        if (goes) positions.push_back(position);
        item = goes ? plain.erase(item) : std::next(item);
      }
      sorted.items();
      sorted.remove_at(positions);
    }
    ASSERT_TRUE(std::ranges::equal(sorted.items(), plain)) << "in round " << round;
  }
}

}  // namespace
}  // namespace lockstep
