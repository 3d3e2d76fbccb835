// sort_by_prefix(): sorts by a number first, which needs no comparison, and sorts equal items by
// `less`. It sorts digit by digit, from the lowest (LSD radix sort), over words of 64 bits. A word
// holds the number's highest bits that differ, and below them the item's position: each pass reads
// and writes 8 bytes an item, whatever the items are. `less` also decides by bits that do not fit
// into a word, and by those below three digits.
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
constexpr int kDigits = 3;
constexpr std::uint64_t kDigitMask = (1u << kDigitBits) - 1;
constexpr std::size_t kWorthIt = 500;    // items; for fewer a comparison sort is faster
constexpr std::size_t kFetchAhead = 16;  // items; hides the memory latency while items are copied

// The form of a word: a prefix's bits [low, low + width), above the bits of the position.
struct Form {
  int low = 0;
  int width = 0;
  int position_bits = 0;

  std::uint64_t word(std::uint64_t prefix, std::size_t position) const {
    const std::uint64_t bits = (prefix >> low) & ((std::uint64_t{1} << width) - 1);
    return bits << position_bits | position;
  }
  std::uint64_t bits_of(std::uint64_t word) const { return word >> position_bits; }
  std::size_t position_of(std::uint64_t word) const {
    return word & ((std::uint64_t{1} << position_bits) - 1);
  }
};

// differing: bits in which prefixes differ.
inline Form form_of(std::uint64_t differing, std::size_t items) {
  const int position_bits = static_cast<int>(std::bit_width(items - 1));
  const int high = static_cast<int>(std::bit_width(differing));
  const int most = std::min(kDigits * kDigitBits, 64 - position_bits);
  const int low = std::max(differing == 0 ? 0 : std::countr_zero(differing), high - most);
  return {low, high - low, position_bits};
}

// Stable.
inline void sort_by_digit(const std::vector<std::uint64_t>& from, std::vector<std::uint64_t>& to,
                          int shift) {
  std::array<std::size_t, kDigitMask + 1> offsets{};
  for (std::uint64_t word : from) ++offsets[(word >> shift) & kDigitMask];
  std::size_t sum = 0;
  for (std::size_t& count : offsets) sum += std::exchange(count, sum);
  for (std::uint64_t word : from) to[offsets[(word >> shift) & kDigitMask]++] = word;
}

inline void sort(std::vector<std::uint64_t>& words, const Form& form) {
  std::vector<std::uint64_t> other(words.size());
  for (int done = 0; done < form.width; done += kDigitBits) {
    sort_by_digit(words, other, form.position_bits + done);
    words.swap(other);
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
  std::vector<std::uint64_t> words;
  words.reserve(items.size());
  std::uint64_t differing = 0;
  for (const Item& item : items) {
    words.push_back(prefix(item));
    differing |= words.back() ^ words.front();
  }
  const radix::Form form = radix::form_of(differing, items.size());
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = form.word(words[i], i);
  radix::sort(words, form);
  std::vector<Item> sorted;
  sorted.reserve(items.size());
  for (std::size_t i = 0, equal_from = 0; i < words.size(); ++i) {
    if (i + radix::kFetchAhead < words.size())
      __builtin_prefetch(&items[form.position_of(words[i + radix::kFetchAhead])]);
    sorted.push_back(items[form.position_of(words[i])]);
    if (i + 1 < words.size() && form.bits_of(words[i + 1]) == form.bits_of(words[i])) continue;
    if (i > equal_from)
      std::sort(sorted.begin() + static_cast<std::ptrdiff_t>(equal_from), sorted.end(), less);
    equal_from = i + 1;
  }
  items.swap(sorted);
}

// For a signed number: keeps its order.
inline std::uint64_t ordered_bits(std::int64_t number) {
  return static_cast<std::uint64_t>(number) ^ (std::uint64_t{1} << 63);
}

}  // namespace lockstep
