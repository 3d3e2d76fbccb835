// SortedItems: a sorted array to which many items are added at little cost. New items are
// collected, and sorted and merged at the next read. `Less` must be a total order without equal
// items. Its member prefix(item) returns a number that comes first in that order.
//
// Most starting runs are near the front, and most new ones go near the back. So the removal of an
// item moves the shorter of the two sides. There may be a gap before the first item, no longer than
// the items are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <span>
#include <vector>

#include "base/check.h"
#include "base/radix.h"

namespace lockstep {

template <class Item, class Less>
class SortedItems {
 public:
  explicit SortedItems(Less less) : less_(less) {}

  // Prepares for so many add() calls.
  void reserve(std::size_t count) { added_.reserve(added_.size() + count); }
  void add(const Item& item) { added_.push_back(item); }
  // The item must be there.
  void remove(const Item& item) {
    merge_added();
    const auto found = std::lower_bound(begin(), all_.end(), item, less_);
    LS_CHECK(found != all_.end() && !less_(item, *found));
    const auto position = static_cast<std::size_t>(found - begin());
    remove_at({&position, 1});
  }
  // Removes the items at these positions, ascending.
  void remove_at(std::span<const std::size_t> positions) {
    if (positions.empty()) return;
    const std::size_t behind_first = items().size() - positions.front();
    if (positions.back() < behind_first)
      close_up_from_front(positions);
    else
      close_up_from_back(positions);
    if (gap_ > items().size()) {
      all_.erase(all_.begin(), begin());
      gap_ = 0;
    }
  }
  // Valid until the next call.
  std::span<const Item> items() {
    merge_added();
    return std::span(all_).subspan(gap_);
  }
  // Changes any of them in place, and sorts them again.
  template <class Change>
  void update_all(Change change) {
    merge_added();
    std::for_each(begin(), all_.end(), change);
    std::sort(begin(), all_.end(), less_);
  }

 private:
  using Iterator = typename std::vector<Item>::iterator;

  Iterator begin() { return at(0); }
  Iterator at(std::size_t position) {
    return all_.begin() + static_cast<std::ptrdiff_t>(gap_ + position);
  }

  void close_up_from_back(std::span<const std::size_t> gone) {
    Iterator kept = at(gone.front());
    for (std::size_t i = 0; i < gone.size(); ++i)
      kept = std::move(at(gone[i] + 1), i + 1 < gone.size() ? at(gone[i + 1]) : all_.end(), kept);
    all_.erase(kept, all_.end());
  }
  void close_up_from_front(std::span<const std::size_t> gone) {
    Iterator kept = at(gone.back() + 1);
    for (std::size_t i = gone.size(); i > 0; --i)
      kept = std::move_backward(i > 1 ? at(gone[i - 2] + 1) : begin(), at(gone[i - 1]), kept);
    gap_ += gone.size();
  }

  void merge_added() {
    if (added_.empty()) return;
    if (added_.size() < kInsertMax)
      for (const Item& item : added_) insert(item);
    else
      merge();
    added_.clear();
  }

  void insert(const Item& item) {
    if (all_.size() == gap_ || less_(all_.back(), item)) return all_.push_back(item);
    const Iterator insertion_point = std::upper_bound(begin(), all_.end(), item, less_);
    const bool is_in_front = insertion_point - begin() < all_.end() - insertion_point;
    if (gap_ == 0 || !is_in_front) {
      all_.insert(insertion_point, item);
      return;
    }
    *std::move(begin(), insertion_point, begin() - 1) = item;
    --gap_;
  }

  void merge() {
    sort_by_prefix(added_, [this](const Item& item) { return less_.prefix(item); }, less_);
    if (all_.empty()) return all_.swap(added_);
    const auto from = std::upper_bound(begin(), all_.end(), added_.front(), less_) - all_.begin();
    const auto middle = std::ssize(all_);
    all_.insert(all_.end(), added_.begin(), added_.end());
    std::inplace_merge(all_.begin() + from, all_.begin() + middle, all_.end(), less_);
  }

  // Up to so many items are inserted one by one: that moves memory, where a merge compares.
  static constexpr std::size_t kInsertMax = 8;

  Less less_;
  std::vector<Item> all_;    // after the gap
  std::size_t gap_ = 0;      // unused entries at the front
  std::vector<Item> added_;  // not yet merged
};

}  // namespace lockstep
