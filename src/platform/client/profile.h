// Profiles: the daemons of other machines to which a user has logged in. Each is a file of mode
// 0600 in ~/.config/lockstep/profiles.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/os/environment.h"
#include "base/result.h"
#include "text/record.h"

namespace lockstep::client {

inline constexpr auto kDefaultProfile = "default";

struct Profile {
  std::string url;                           // "https://head:7070#sha256:..."
  std::string token;                         // the user's
  std::optional<std::string> authorities{};  // as net::TlsTrust has them

  static constexpr auto fields() {
    return record<Profile>(
        required(field("url", &Profile::url, "the daemon's address")),
        required(field("token", &Profile::token, "the user's token")),
        field("authorities", &Profile::authorities, "the certificates of authorities, PEM"));
  }
};

class Profiles {
 public:
  explicit Profiles(std::filesystem::path folder) : folder_(std::move(folder)) {}
  // $XDG_CONFIG_HOME/lockstep/profiles, else ~/.config/lockstep/profiles.
  static Result<Profiles> of_user(const Environment& environment);

  // Sorted; empty if there are none.
  Result<std::vector<std::string>> names() const;
  // not_found: the message names the command that makes it. denied: others may read its file.
  Result<Profile> read(const std::string& name) const;
  // Replaces one of that name. invalid: that is no name.
  Result<void> write(const std::string& name, const Profile& profile) const;
  // not_found: there is none.
  Result<void> remove(const std::string& name) const;

 private:
  Result<std::filesystem::path> file_of(const std::string& name) const;

  std::filesystem::path folder_;
};

}  // namespace lockstep::client
