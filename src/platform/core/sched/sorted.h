// SortedItems: a sorted array to which many items are added at little cost: those that came since
// the last look are sorted by themselves and merged in. Equal items are one item's mistake: `Less`
// is a total order. Its member prefix(item) is a number that comes first in that order.
//
// Whoever starts stands near the front, mostly, and whoever comes goes near the back. So an item is
// taken out by moving whichever of the two sides is shorter, and ahead of the first item there may
// be a gap, no longer than the items are.
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

  // So many will be added.
  void reserve(std::size_t count) { fresh_.reserve(fresh_.size() + count); }
  void add(const Item& item) { fresh_.push_back(item); }
  // It is there.
  void remove(const Item& item) {
    settle();
    const auto found = std::lower_bound(begin(), all_.end(), item, less_);
    LS_CHECK(found != all_.end() && !less_(item, *found));
    const auto position = static_cast<std::size_t>(found - begin());
    remove_at({&position, 1});
  }
  // Those at these positions, ascending.
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
  // Until the next call.
  std::span<const Item> items() {
    settle();
    return std::span(all_).subspan(gap_);
  }
  // Changes any of them in place, and sorts them anew.
  template <class Change>
  void rearrange(Change change) {
    settle();
    std::for_each(begin(), all_.end(), change);
    std::sort(begin(), all_.end(), less_);
  }

 private:
  using Place = typename std::vector<Item>::iterator;

  Place begin() { return at(0); }
  Place at(std::size_t position) {
    return all_.begin() + static_cast<std::ptrdiff_t>(gap_ + position);
  }

  void close_up_from_back(std::span<const std::size_t> gone) {
    Place kept = at(gone.front());
    for (std::size_t i = 0; i < gone.size(); ++i)
      kept = std::move(at(gone[i] + 1), i + 1 < gone.size() ? at(gone[i + 1]) : all_.end(), kept);
    all_.erase(kept, all_.end());
  }
  void close_up_from_front(std::span<const std::size_t> gone) {
    Place kept = at(gone.back() + 1);
    for (std::size_t i = gone.size(); i > 0; --i)
      kept = std::move_backward(i > 1 ? at(gone[i - 2] + 1) : begin(), at(gone[i - 1]), kept);
    gap_ += gone.size();
  }

  void settle() {
    if (fresh_.empty()) return;
    if (fresh_.size() < kFew)
      for (const Item& item : fresh_) insert(item);
    else
      merge();
    fresh_.clear();
  }

  void insert(const Item& item) {
    if (all_.size() == gap_ || less_(all_.back(), item)) return all_.push_back(item);
    const Place place = std::upper_bound(begin(), all_.end(), item, less_);
    const bool is_in_front = place - begin() < all_.end() - place;
    if (gap_ == 0 || !is_in_front) {
      all_.insert(place, item);
      return;
    }
    *std::move(begin(), place, begin() - 1) = item;
    --gap_;
  }

  void merge() {
    sort_by_prefix(fresh_, [this](const Item& item) { return less_.prefix(item); }, less_);
    if (all_.empty()) return all_.swap(fresh_);
    const auto from = std::upper_bound(begin(), all_.end(), fresh_.front(), less_) - all_.begin();
    const auto middle = std::ssize(all_);
    all_.insert(all_.end(), fresh_.begin(), fresh_.end());
    std::inplace_merge(all_.begin() + from, all_.begin() + middle, all_.end(), less_);
  }

  // So many are put in one by one: that moves memory, where a merge compares.
  static constexpr std::size_t kFew = 8;

  Less less_;
  std::vector<Item> all_;    // behind the gap
  std::size_t gap_ = 0;      // items that are none
  std::vector<Item> fresh_;  // not yet among them
};

}  // namespace lockstep
