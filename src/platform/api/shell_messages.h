// Messages about shells on nodes; see messages.h and docs/design/shell.md. Keys and certificates
// are lines as OpenSSH has them.
#pragma once

#include <optional>
#include <string>

#include "text/record.h"

namespace lockstep::api {

struct ShellRequest {
  std::string public_key;

  static constexpr auto fields() {
    return record<ShellRequest>(required(
        field("public_key", &ShellRequest::public_key, "of the user: ssh-ed25519 and its bytes")));
  }
};

struct ShellAccess {
  std::string user;
  std::string host_name;
  std::string certificate;
  std::string host_authority;

  static constexpr auto fields() {
    return record<ShellAccess>(
        field("user", &ShellAccess::user, "the Unix user of the ranks, as which to log in"),
        field("host_name", &ShellAccess::host_name,
              "the name for which the certificate of the node's host key is valid"),
        field("certificate", &ShellAccess::certificate,
              "of the user's key, for this attempt and 24 hours"),
        field("host_authority", &ShellAccess::host_authority,
              "the key that signs host keys of nodes"));
  }
};

struct NodeShell {
  std::string host_key;
  std::string user;
  std::optional<std::string> error = {};

  static constexpr auto fields() {
    return record<NodeShell>(
        field("host_key", &NodeShell::host_key, "the public host key of the node"),
        field("user", &NodeShell::user, "the Unix user of the ranks"),
        field("error", &NodeShell::error, "why the node can start no shell; absent: it can"));
  }
};

struct NodeShellAnswer {
  std::string certificate;
  std::string user_authority;
  std::string principal;

  static constexpr auto fields() {
    return record<NodeShellAnswer>(
        field("certificate", &NodeShellAnswer::certificate, "of the host key, for 24 hours"),
        field("user_authority", &NodeShellAnswer::user_authority, "the key that signs users' keys"),
        field("principal", &NodeShellAnswer::principal,
              "with which a user's certificate is accepted: that of the attempt"));
  }
};

}  // namespace lockstep::api
