// Keys and certificates of OpenSSH, made by its ssh-keygen: its format has no second
// implementation here.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "base/units.h"

namespace lockstep::host {

// Makes an Ed25519 key `file` (0600) and `file`.pub, unless it is there. Two callers at once end
// with the same key. Returns the public key: one line of its type and its bytes, without a comment.
// Code::not_found: this machine has no ssh-keygen.
Result<std::string> open_ssh_key(const std::filesystem::path& file);

// Accepts one line "ssh-ed25519 BASE64", as open_ssh_key() returns it.
Result<void> check_ssh_public_key(const std::string& key);

struct SshCertificate {
  std::filesystem::path authority;  // the key that signs
  std::string public_key;           // checked
  std::string id;                   // for the log of the other side
  std::string principal;            // for which it is valid: a host's name, or what a host accepts
  bool is_host = false;
  Duration lifetime{};
};

// The certificate, in one line. Takes a few milliseconds, at most 10 s. It is valid from always on,
// because the clocks of machines differ.
Result<std::string> sign_ssh_key(const SshCertificate& certificate);

}  // namespace lockstep::host
