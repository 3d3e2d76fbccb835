// Keys: the daemon's key, from which the secrets of attempts derive, and the user's token.
//
// Agents' tokens and attempts' secrets are HMAC-SHA256 of a label and the attempt's full name under
// one key. So nothing has to be stored or deleted, a restarted daemon derives them again, and an
// attempt's secret reveals nothing of another's.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "net/crypto.h"
#include "platform/core/model/ids.h"
#include "platform/host/join_token.h"
#include "platform/host/rank_token.h"

namespace lockstep::host {

class Keys {
 public:
  // Reads `key` and `token` in the daemon's folder; creates the folder and the files (0600) if
  // missing. Fails if others may read the files or write to the folder.
  static Result<Keys> open(const std::filesystem::path& folder);
  // From existing values, without files.
  static Keys from_values(const net::Secret& key, std::string user_token);

  // The token that the attempt's agents send with every call; 64 hex digits.
  std::string agent_token(const model::AttemptName& attempt) const;
  // The secret that the attempt's ranks share: LOCKSTEP_SECRET_FILE; 64 hex digits.
  std::string attempt_secret(const model::AttemptName& attempt) const;

  // With which records of attempts are sealed where others may read them.
  net::Secret record_secret() const;

  // The credential of a host's service, which starts agents there; 64 hex digits. A higher number
  // makes the one before void.
  std::string host_token(std::string_view host, int number) const;
  // The key under which the value of a project's secret is encrypted in the store.
  net::Secret sealing_key(std::string_view project, std::string_view secret) const;
  // The key under which the places of targets of notices are encrypted in the store.
  net::Secret notice_key() const;
  // Tells whether two runs have the same value of a variable; 16 hex digits. The key keeps the
  // value from being guessed, and the variable's name from being compared with another's.
  std::string variable_digest(std::string_view variable, std::string_view value) const;
  // With which a host gets the credential after the token's number; 64 hex digits.
  std::string join_proof(const JoinToken& token) const;

  const std::string& user_token() const { return user_token_; }
  // With which a rank logs to MLflow's API.
  std::string rank_token(const RankName& name) const;
  // They take the same time wherever the token differs.
  bool is_agent_token(const model::AttemptName& attempt, std::string_view token) const;
  bool is_host_token(std::string_view host, int number, std::string_view token) const;
  bool is_join_token(const JoinToken& token) const;
  bool is_user_token(std::string_view token) const;

 private:
  Keys(net::Secret key, std::string user_token) : key_(key), user_token_(std::move(user_token)) {}

  net::Secret key_;
  std::string user_token_;
};

}  // namespace lockstep::host
