// SshAuthorities: the daemon's two keys that sign keys of ssh: one those of users, one those of
// nodes. They are in its folder (`ssh/`, 0600) and are made when the first shell is opened.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "platform/core/model/ids.h"

namespace lockstep::server {

// A node accepts this one only: its own attempt, of its own store.
std::string ssh_principal(const model::AttemptName& attempt);
// For which the certificate of a node's host key is valid.
std::string ssh_host_name(const model::NodeId& node);

struct SignedKey {
  std::string certificate;
  std::string other_authority;  // the public key that signs the keys of the other side
};

// Both take some milliseconds: not for the daemon's thread.
class SshAuthorities {
 public:
  explicit SshAuthorities(const std::filesystem::path& home) : folder_(home / "ssh") {}

  Result<SignedKey> sign_user_key(const std::string& key, const std::string& user,
                                  const model::AttemptName& attempt) const;
  Result<SignedKey> sign_host_key(const std::string& key, const model::NodeId& node) const;

 private:
  std::filesystem::path user_authority() const { return folder_ / "user_authority"; }
  std::filesystem::path host_authority() const { return folder_ / "host_authority"; }

  const std::filesystem::path folder_;
};

}  // namespace lockstep::server
