// The names of secrets, and the values that they may have.
#pragma once

#include <cstddef>
#include <string_view>

#include "base/result.h"

namespace lockstep::model {

inline constexpr std::size_t kSecretValueMax = 64 << 10;  // bytes

// 1 to 64 letters, digits, '.', '_' and '-', and a letter or digit in front. The error does not
// quote the name.
Result<void> check_secret_name(std::string_view name);
// Text without a NUL, as a variable of a program has it. The error does not quote the value.
Result<void> check_secret_value(std::string_view value);

}  // namespace lockstep::model
