// FirstError: the first error inside forward and backward, where torch calls us and no error can be
// returned. The next call that can return an error returns it, and so does every later one.
#pragma once

#include <optional>

#include "base/result.h"

namespace lockstep::train {

class FirstError {
 public:
  void note(const Result<void>& outcome) {
    if (!outcome && !error_) error_ = outcome.error();
  }
  bool happened() const { return error_.has_value(); }
  Result<void> outcome() const {
    if (error_) return *error_;
    return {};
  }

 private:
  std::optional<Error> error_;
};

}  // namespace lockstep::train
