// ClusterAccess: where an API server is, what proves its identity, and what proves ours.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep::engine {

// Text that is there, or in a file whose content may change.
struct TextOrFile {
  std::string text;
  std::filesystem::path file;  // absolute; empty: none

  bool empty() const { return text.empty() && file.empty(); }
  Result<std::string> read() const;
};

// A program that prints a credential: client.authentication.k8s.io.
struct CredentialPlugin {
  std::string api_version;
  std::vector<std::string> command;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::string install_hint;
  bool wants_cluster = false;
};

struct ClusterAccess {
  std::string server;           // "https://10.0.0.1:6443", also with a path; no '/' at the end
  TextOrFile authority;         // certificates in PEM form; empty: those of this machine
  std::string tls_server_name;  // instead of the server's host
  bool is_unverified = false;   // any certificate is accepted
  std::string proxy;            // empty: as the environment has it
  std::string in_namespace;     // empty: none is given

  TextOrFile token;
  TextOrFile certificate, key;  // of the client, in PEM form
  std::optional<CredentialPlugin> plugin;

  // Headers with which each call acts as another user; empty: as the one of the credential.
  std::vector<std::pair<std::string, std::string>> impersonation;

  std::string source;  // for messages: "context 'a' of /home/me/.kube/config"
};

}  // namespace lockstep::engine
