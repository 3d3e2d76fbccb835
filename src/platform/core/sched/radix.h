// sort_by_prefix(): sorts by a number first, which needs no comparison, and what it leaves equal by
// `less`. Digit by digit, from the lowest that differs (LSD radix sort), over pairs of the number
// and a position: each pass reads and writes 16 bytes an item, whatever the items are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace lockstep {

namespace radix {

constexpr int kDigitBits = 11;
constexpr std::uint64_t kDigitMask = (1u << kDigitBits) - 1;
constexpr std::size_t kWorthIt = 500;  // items; fewer are sorted sooner by comparing

struct Tag {
  std::uint64_t prefix = 0;
  std::size_t position = 0;
};

inline std::uint64_t differing_bits(const std::vector<Tag>& tags) {
  std::uint64_t bits = 0;
  for (const Tag& tag : tags) bits |= tag.prefix ^ tags.front().prefix;
  return bits;
}

// Stable.
inline void sort_by_digit(const std::vector<Tag>& from, std::vector<Tag>& to, int shift) {
  std::array<std::size_t, kDigitMask + 1> place{};
  for (const Tag& tag : from) ++place[(tag.prefix >> shift) & kDigitMask];
  std::size_t sum = 0;
  for (std::size_t& count : place) sum += std::exchange(count, sum);
  for (const Tag& tag : from) to[place[(tag.prefix >> shift) & kDigitMask]++] = tag;
}

inline void sort(std::vector<Tag>& tags) {
  const std::uint64_t bits = differing_bits(tags);
  std::vector<Tag> other(tags.size());
  for (int shift = std::countr_zero(bits); shift < static_cast<int>(std::bit_width(bits));
       shift += kDigitBits) {
    if (((bits >> shift) & kDigitMask) == 0) continue;
    sort_by_digit(tags, other, shift);
    tags.swap(other);
  }
}

}  // namespace radix

// prefix(a) < prefix(b) implies less(a, b).
template <class Item, class Prefix, class Less>
void sort_by_prefix(std::vector<Item>& items, Prefix prefix, const Less& less) {
  if (items.size() < radix::kWorthIt) {
    std::sort(items.begin(), items.end(), less);
    return;
  }
  std::vector<radix::Tag> tags;
  tags.reserve(items.size());
  for (std::size_t i = 0; i < items.size(); ++i) tags.push_back({prefix(items[i]), i});
  radix::sort(tags);
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (const radix::Tag& tag : tags) sorted.push_back(items[tag.position]);
  for (std::size_t i = 0; i < tags.size();) {
    std::size_t end = i + 1;
    while (end < tags.size() && tags[end].prefix == tags[i].prefix) ++end;
    std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(i),
              sorted.begin() + static_cast<std::ptrdiff_t>(end), less);
    i = end;
  }
  items.swap(sorted);
}

// Of a signed number, in its order.
inline std::uint64_t ordered_bits(std::int64_t number) {
  return static_cast<std::uint64_t>(number) ^ (std::uint64_t{1} << 63);
}

}  // namespace lockstep
