#include "base/radix.h"

#include <limits>
#include <tuple>

#include <gtest/gtest.h>

#include "base/random.h"

namespace lockstep {
namespace {

struct Item {
  std::int64_t key = 0;
  int tie = 0;
  bool operator==(const Item&) const = default;
};

bool less(const Item& a, const Item& b) { return std::tie(a.key, a.tie) < std::tie(b.key, b.tie); }

void expect_sorted(std::vector<Item> items) {
  std::vector<Item> expected = items;
  std::ranges::sort(expected, less);
  sort_by_prefix(items, [](const Item& item) { return ordered_bits(item.key); }, less);
  EXPECT_EQ(items, expected);
}

TEST(SortByPrefix, SortsAsComparingDoesWhateverTheNumbers) {
  Random random(5);
  for (const std::size_t count : {0u, 1u, 2u, 499u, 500u, 5'000u})
    for (const std::int64_t width : {std::int64_t{1}, std::int64_t{7}, std::int64_t{1} << 40,
                                     std::numeric_limits<std::int64_t>::max()}) {
      std::vector<Item> items;
      for (std::size_t i = 0; i < count; ++i) {
        const auto key = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(width)));
        items.push_back({key - width / 2, static_cast<int>(random.below(1'000'000))});
      }
      expect_sorted(items);
    }
}

TEST(SortByPrefix, NegativeNumbersComeFirst) {
  const auto low = std::numeric_limits<std::int64_t>::min();
  const auto high = std::numeric_limits<std::int64_t>::max();
  std::vector<Item> items(600, Item{high, 1});
  items[7] = {low, 2};
  items[300] = {-1, 3};
  items[301] = {0, 4};
  expect_sorted(items);
}

}  // namespace
}  // namespace lockstep
