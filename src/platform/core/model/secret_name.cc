#include "platform/core/model/secret_name.h"

#include <algorithm>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kSecretNameMax = 64;

bool is_alphanumeric(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

Result<void> check_secret_name(std::string_view name) {
  const auto is_permitted = [](char c) {
    return is_alphanumeric(c) || c == '.' || c == '_' || c == '-';
  };
  if (!name.empty() && name.size() <= kSecretNameMax && is_alphanumeric(name.front()) &&
      std::ranges::all_of(name, is_permitted))
    return {};
  return Error{Code::invalid,
               format("the name of a secret has 1 to {} letters, digits, '.', '_' and '-', and "
                      "begins with a letter or digit",
                      kSecretNameMax)};
}

Result<void> check_secret_value(std::string_view value) {
  if (value.empty()) return Error{Code::invalid, "the value of a secret is empty"};
  if (value.size() > kSecretValueMax)
    return Error{Code::exhausted, format("the value of a secret has at most {} bytes, got {}",
                                         kSecretValueMax, value.size())};
  if (value.find('\0') != std::string_view::npos || !is_utf8(value))
    return Error{Code::invalid, "the value of a secret is UTF-8 text without a NUL"};
  return {};
}

}  // namespace lockstep::model
