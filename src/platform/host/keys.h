// Keys: the daemon's key, from which the secrets of attempts derive, and the user's token.
//
// Agents' tokens and attempts' secrets are HMAC-SHA256 of a label and the attempt's whole name
// under one key: nothing has to be stored or forgotten, a restarted daemon knows them again, and no
// attempt's secret tells anything of another's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"
#include "platform/core/model/ids.h"

namespace lockstep {

class Keys {
 public:
  // Reads `key` and `token` in the daemon's folder; makes the folder and the files (0600) where
  // they are missing. Refuses files that others may read, and a folder that others may write to.
  static Result<Keys> open(const std::filesystem::path& folder);
  // From values that are there already, without files.
  static Keys of(const Secret& key, std::string user_token);

  // What the attempt's agents show with every call; 64 hex digits.
  std::string agent_token(const AttemptName& attempt) const;
  // What the attempt's ranks share: LOCKSTEP_SECRET_FILE; 64 hex digits.
  std::string attempt_secret(const AttemptName& attempt) const;

  const std::string& user_token() const { return user_token_; }
  // Both take the same time wherever the token differs.
  bool is_agent_token(const AttemptName& attempt, std::string_view token) const;
  bool is_user_token(std::string_view token) const;

 private:
  Keys(Secret key, std::string user_token) : key_(key), user_token_(std::move(user_token)) {}

  Secret key_;
  std::string user_token_;
};

}  // namespace lockstep
