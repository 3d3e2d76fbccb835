// FirstError: what first went wrong inside forward and backward, where torch calls us and nothing
// can be returned. It is told by the next call that can, and by every one after that.
#pragma once

#include <optional>

#include "base/result.h"

namespace lockstep {

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

}  // namespace lockstep
