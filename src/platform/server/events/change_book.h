// ChangeBook: which subjects have changed, each with the number of its latest change. A reader is
// one number: what it has seen. So a slow reader costs nothing, and misses no change.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "platform/core/model/ids.h"

namespace lockstep::server {

enum class ChangeKind { run, points, lines, queue, hosts, budgets };

struct Subject {
  ChangeKind kind = ChangeKind::run;
  model::RunId run{};  // of the first three kinds

  auto operator<=>(const Subject&) const = default;
};

class ChangeBook {
 public:
  // Holds at most so many subjects, those that changed last.
  explicit ChangeBook(std::size_t subjects_max) : subjects_max_(subjects_max) {}

  void add(const Subject& subject);
  // The number of the latest change.
  std::int64_t newest() const { return newest_; }
  // The subjects that changed later, oldest first; none: the book may have forgotten some of them.
  std::optional<std::vector<Subject>> since(std::int64_t number) const;
  // Forgets all, also that nothing has changed since any number.
  void clear();

 private:
  const std::size_t subjects_max_;
  std::int64_t newest_ = 0;
  std::int64_t forgotten_ = 0;  // changes up to this number may be missing
  std::map<std::int64_t, Subject> by_number_;
  std::map<Subject, std::int64_t> numbers_;
};

}  // namespace lockstep::server
