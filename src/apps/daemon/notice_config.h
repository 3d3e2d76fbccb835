// How notices leave the daemon: the options of `lockstep serve`, and the file that one of them
// names.
#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "apps/daemon/serve_config.h"
#include "base/result.h"
#include "platform/notifier/notifier.h"

namespace lockstep::cli {

struct NotifierFlags {
  std::vector<std::string> networks;
  std::string commands;
  std::string smtp, smtp_from, smtp_user, smtp_password_file;
};

// Returns the options.
std::vector<CLI::Option*> add_notice_options(CLI::App& command, NotifierFlags& flags);
// Checks them with their files, and puts them into the configuration.
Result<void> read_notices(const NotifierFlags& flags, ServeConfig& config);
// The words that a detached daemon gets.
void add_notice_words(const ServeConfig& served, std::vector<std::string>& words);

// The password is read now.
Result<notifier::NotifierSetup> notifier_setup(const ServeConfig& served);

}  // namespace lockstep::cli
