// SortedItems: a sorted array to which many items are added at little cost: those that came since
// the last look are sorted by themselves and merged in. Equal items are one item's mistake: `Less`
// is a total order. Its member prefix(item) is a number that comes first in that order.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/radix.h"

namespace lockstep {

template <class Item, class Less>
class SortedItems {
 public:
  explicit SortedItems(Less less) : less_(less) {}

  // So many will be added.
  void reserve(std::size_t count) { fresh_.reserve(fresh_.size() + count); }
  void add(const Item& item) { fresh_.push_back(item); }
  // It is there.
  void remove(const Item& item) {
    settle();
    const auto found = std::ranges::lower_bound(items_, item, less_);
    LS_CHECK(found != items_.end() && !less_(item, *found));
    items_.erase(found);
  }
  // Those at these positions, ascending.
  void remove_at(const std::vector<std::size_t>& positions) {
    if (positions.empty()) return;
    const auto at = [&](std::size_t i) {
      return items_.begin() + (i < positions.size() ? static_cast<std::ptrdiff_t>(positions[i])
                                                    : std::ssize(items_));
    };
    auto kept = at(0);
    for (std::size_t i = 0; i < positions.size(); ++i)
      kept = std::move(std::next(at(i)), at(i + 1), kept);
    items_.erase(kept, items_.end());
  }
  const std::vector<Item>& items() {
    settle();
    return items_;
  }
  // Changes any of them in place, and sorts them anew.
  template <class Change>
  void rearrange(Change change) {
    settle();
    for (Item& item : items_) change(item);
    std::ranges::sort(items_, less_);
  }

 private:
  void settle() {
    if (fresh_.size() < kFew)
      for (const Item& item : fresh_) insert(item);
    else
      merge();
    fresh_.clear();
  }

  void insert(const Item& item) {
    if (items_.empty() || less_(items_.back(), item)) return items_.push_back(item);
    items_.insert(std::ranges::upper_bound(items_, item, less_), item);
  }

  void merge() {
    sort_by_prefix(fresh_, [this](const Item& item) { return less_.prefix(item); }, less_);
    if (items_.empty()) return items_.swap(fresh_);
    const auto from = std::ranges::upper_bound(items_, fresh_.front(), less_) - items_.begin();
    const auto middle = std::ssize(items_);
    items_.insert(items_.end(), fresh_.begin(), fresh_.end());
    std::inplace_merge(items_.begin() + from, items_.begin() + middle, items_.end(), less_);
  }

  // So many are put in one by one: that moves memory, where a merge compares.
  static constexpr std::size_t kFew = 8;

  Less less_;
  std::vector<Item> items_;
  std::vector<Item> fresh_;  // not yet among them
};

}  // namespace lockstep
