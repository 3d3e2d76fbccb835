// SlotIndex: finds the slot of an item by its hash: open addressing over pairs of 32 bits. A
// hundred thousand items take a megabyte, and a lookup mostly reads one cache line. It is used only
// for lookups by name; no decision depends on its order.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "platform/core/model/ids.h"

namespace lockstep {

// Names are short, and std::hash is a function call for each.
inline std::size_t hash_of(std::string_view name) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;
  const auto word_at = [&](std::size_t at, auto word) {
    std::memcpy(&word, name.data() + at, sizeof word);
    return std::uint64_t{word};
  };
  const std::size_t size = name.size();
  std::uint64_t hash = size;
  const auto mix = [&](std::uint64_t word) {
    hash = (hash ^ word) * kGolden;
    hash ^= hash >> 32;
  };
  for (std::size_t at = 0; at + 8 < size; at += 8) mix(word_at(at, std::uint64_t{}));
  if (size >= 8)
    mix(word_at(size - 8, std::uint64_t{}));
  else if (size >= 4)
    mix(word_at(0, std::uint32_t{}) << 32 | word_at(size - 4, std::uint32_t{}));
  else
    for (char letter : name) mix(static_cast<unsigned char>(letter));
  return hash * kGolden;
}
// The hash of a number within a family, such as a run's within its project.
inline std::size_t hash_of(std::size_t family, std::uint64_t number) {
  // Eight neighbouring numbers share a cache line, and the groups of eight are far apart (Fibonacci
  // hashing). Otherwise the consecutive numbers of two projects could collide.
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15, kInLine = std::uint64_t{7} << 32;
  const std::uint64_t mixed = (family ^ (number >> 3)) * kGolden;
  return (mixed & ~kInLine) | ((number << 32) & kInLine);
}
inline std::size_t hash_of(const RunId& run) {
  return hash_of(hash_of(run.project), static_cast<std::uint64_t>(run.number));
}

class SlotIndex {
 public:
  // The item with this hash for which is_it(slot) is true.
  template <class IsIt>
  std::optional<int> find(std::size_t hash, IsIt is_it) const {
    if (cells_.empty()) return std::nullopt;
    const std::uint32_t folded = fold(hash);
    for (std::size_t i = home(folded); cells_[i].slot != kNone; i = after(i))
      if (cells_[i].hash == folded && is_it(cells_[i].slot)) return cells_[i].slot;
    return std::nullopt;
  }

  // Reserves capacity for so many more items.
  void reserve(std::size_t more) {
    if (2 * (count_ + more) > cells_.size()) grow(std::bit_ceil(2 * (count_ + more)));
  }

  // The item must not be there; slot >= 0.
  void add(std::size_t hash, int slot) {
    add_new(hash, slot, [](int) { return false; });
  }
  // Adds the item unless is_it(slot) is true for one with this hash; returns whether it was added.
  template <class IsIt>
  bool add_new(std::size_t hash, int slot, IsIt is_it) {
    if (2 * (count_ + 1) > cells_.size()) grow(2 * cells_.size());
    const Cell cell{fold(hash), slot};
    std::size_t i = home(cell.hash);
    for (; cells_[i].slot != kNone; i = after(i))
      if (cells_[i].hash == cell.hash && is_it(cells_[i].slot)) return false;
    cells_[i] = cell;
    ++count_;
    return true;
  }
  // The first item with this hash.
  std::optional<int> first_candidate(std::size_t hash) const {
    return find(hash, [](int) { return true; });
  }
  // One with this hash will be looked up soon; the index must not be empty.
  void prefetch(std::size_t hash) const { __builtin_prefetch(&cells_[home(fold(hash))]); }

  // The item must be there.
  void remove(std::size_t hash, int slot) {
    LS_CHECK(!cells_.empty());
    std::size_t hole = home(fold(hash));
    for (; cells_[hole].slot != slot; hole = after(hole)) LS_CHECK(cells_[hole].slot != kNone);
    // Moves up later items that were displaced from their home cell.
    for (std::size_t i = after(hole); cells_[i].slot != kNone; i = after(i)) {
      if (distance(home(cells_[i].hash), i) < distance(hole, i)) continue;
      cells_[hole] = cells_[i];
      hole = i;
    }
    cells_[hole] = {};
    --count_;
  }

 private:
  static constexpr int kNone = -1;
  static constexpr std::size_t kFirst = 16;  // cells; their number is a power of two

  struct Cell {
    std::uint32_t hash = 0;
    int slot = kNone;
  };

  static std::uint32_t fold(std::size_t hash) { return static_cast<std::uint32_t>(hash >> 32); }
  std::size_t home(std::uint32_t hash) const { return hash & (cells_.size() - 1); }
  std::size_t after(std::size_t cell) const { return (cell + 1) & (cells_.size() - 1); }
  // Steps from one cell to the other.
  std::size_t distance(std::size_t from, std::size_t to) const {
    return (to - from) & (cells_.size() - 1);
  }

  void put(Cell cell) {
    std::size_t i = home(cell.hash);
    while (cells_[i].slot != kNone) i = after(i);
    cells_[i] = cell;
  }

  void grow(std::size_t cells) {
    std::vector<Cell> before(std::max(kFirst, cells));
    before.swap(cells_);
    for (const Cell& cell : before)
      if (cell.slot != kNone) put(cell);
  }

  std::vector<Cell> cells_;
  std::size_t count_ = 0;
};

}  // namespace lockstep
