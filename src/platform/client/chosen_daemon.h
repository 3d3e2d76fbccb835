// The daemon that a program of the user calls, as its environment says: the first of
// 1. the profile LOCKSTEP_PROFILE,
// 2. the address LOCKSTEP_URL with the token in the file LOCKSTEP_TOKEN_FILE, else with that of a
//    profile with the same address,
// 3. the folder LOCKSTEP_HOME,
// 4. the profile `default`,
// 5. the user's own daemon on this machine.
#pragma once

#include <optional>
#include <string>

#include "base/os/environment.h"
#include "base/result.h"
#include "platform/client/client.h"
#include "platform/client/profile.h"

namespace lockstep::client {

struct RemoteDaemon {
  std::string source;  // for messages: "the profile 'default'"
  Profile profile;
};

// Nothing: the daemon of the home (3 and 5). Errors name the variable or the file.
Result<std::optional<RemoteDaemon>> chosen_remote(const Environment& environment);

// The second of the list: LOCKSTEP_URL must be set.
Result<RemoteDaemon> remote_at_url(const Environment& environment);

// Its client, once it has answered. Its errors say what to do: log in again, or ask the operator.
Result<Client> open_remote(const RemoteDaemon& daemon, WhenLate when_late = {});

// The client of the chosen daemon, wherever it is. Never starts one.
Result<Client> open_chosen(const Environment& environment);

}  // namespace lockstep::client
