// StoredPassword: what a user's row has of a password. One that an administrator chose is for one
// log-in.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::identity {

struct StoredPassword {
  std::string hash;  // empty: there is none
  bool is_first = false;

  static StoredPassword parse(std::string_view text) {
    if (text.starts_with(kFirst)) return {std::string(text.substr(kFirst.size())), true};
    return {std::string(text), false};
  }
  std::string text() const { return (is_first ? std::string(kFirst) : "") + hash; }

 private:
  static constexpr std::string_view kFirst = "first:";
};

}  // namespace lockstep::identity
