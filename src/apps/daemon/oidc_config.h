// The issuer of OIDC at which users log in: the options of `lockstep serve`, and the files that
// they name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/daemon/serve_config.h"
#include "base/result.h"
#include "platform/server/login/oidc_login.h"

namespace lockstep::cli {

struct OidcFlags {
  std::string issuer, client, secret_file, roles_file, ca_file;
};

// Returns the options.
std::vector<CLI::Option*> add_oidc_options(CLI::App& command, OidcFlags& flags);
// Checks them with their files, and puts them into the configuration.
Result<void> read_oidc(const OidcFlags& flags, ServeConfig& config);
// The words that a detached daemon gets.
void add_oidc_words(const ServeConfig& served, std::vector<std::string>& words);

// None: there is no issuer. The secret and the authorities are read now, the roles at each log-in.
Result<std::optional<server::OidcSetup>> oidc_setup(const ServeConfig& served);

}  // namespace lockstep::cli
