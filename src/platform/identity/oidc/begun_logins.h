// BegunLogins: log-ins that wait for a user's answer at the issuer, by a name that cannot be
// guessed. Pure: times are arguments, on a clock that does not jump.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include "base/units.h"

namespace lockstep::identity {

inline constexpr std::size_t kBegunLoginsMax = 1000;

template <class Login>
class BegunLogins {
 public:
  // Forgets those that have ended and, if there are too many, the one that ends first.
  void add(const std::string& name, Login login, Duration ends, Duration now) {
    std::erase_if(logins_, [&](const auto& entry) { return entry.second.ends <= now; });
    if (logins_.size() >= kBegunLoginsMax) erase_first();
    logins_.insert_or_assign(name, Entry{std::move(login), ends});
  }
  // Null: there is none, or it has ended.
  Login* find(const std::string& name, Duration now) {
    const auto found = logins_.find(name);
    return found == logins_.end() || found->second.ends <= now ? nullptr : &found->second.login;
  }
  void erase(const std::string& name) { logins_.erase(name); }
  std::size_t size() const { return logins_.size(); }

 private:
  struct Entry {
    Login login;
    Duration ends{};
  };

  void erase_first() {
    auto first = logins_.begin();
    for (auto each = logins_.begin(); each != logins_.end(); ++each)
      if (each->second.ends < first->second.ends) first = each;
    logins_.erase(first);
  }

  std::map<std::string, Entry> logins_;
};

}  // namespace lockstep::identity
