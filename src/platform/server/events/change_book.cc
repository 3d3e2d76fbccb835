#include "platform/server/events/change_book.h"

namespace lockstep::server {

void ChangeBook::add(const Subject& subject) {
  std::int64_t& number = numbers_[subject];
  if (number != 0) by_number_.erase(number);
  number = ++newest_;
  by_number_.emplace(number, subject);
  if (by_number_.size() <= subjects_max_) return;
  const auto oldest = by_number_.begin();
  forgotten_ = oldest->first;
  numbers_.erase(oldest->second);
  by_number_.erase(oldest);
}

std::optional<std::vector<Subject>> ChangeBook::since(std::int64_t number) const {
  if (number < forgotten_ || number > newest_) return std::nullopt;
  std::vector<Subject> found;
  for (auto it = by_number_.upper_bound(number); it != by_number_.end(); ++it)
    found.push_back(it->second);
  return found;
}

void ChangeBook::clear() {
  forgotten_ = ++newest_;
  by_number_.clear();
  numbers_.clear();
}

}  // namespace lockstep::server
