// Log-ins by a password and by OIDC, at the terminal.
#pragma once

#include <string>

#include "base/result.h"
#include "platform/client/client.h"

namespace lockstep::cli {

struct PasswordLoginFlags {
  std::string user;
  std::string password_file, new_password_file;  // empty: ask
};

Result<api::LoginAnswer> log_in_by_password(client::Client& client,
                                            const PasswordLoginFlags& flags);

// Prints the address and the code, and waits until the user has agreed or the code ends.
Result<api::LoginAnswer> log_in_by_oidc(client::Client& client);

}  // namespace lockstep::cli
