#include <filesystem>
#include <memory>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/login/hidden_input.h"
#include "apps/login/log_in.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "net/http/url.h"
#include "platform/api/json.h"
#include "platform/client/chosen_daemon.h"
#include "platform/client/profile.h"
#include "platform/host/home.h"
#include "platform/identity/token.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kTokenMax = 4096;
constexpr std::size_t kAuthoritiesMax = 1 << 20;

struct LoginFlags {
  std::string url;
  std::string name = client::kDefaultProfile;
  std::string token_file, ca_file;
  PasswordLoginFlags password;
  bool oidc = false;
  bool insecure = false;
  bool list = false;
  bool json = false;
};

// A profile without its token.
struct ListedProfile {
  std::string name, url;

  static constexpr auto fields() {
    return record<ListedProfile>(field("name", &ListedProfile::name, "the profile"),
                                 field("url", &ListedProfile::url, "the daemon's address"));
  }
};

Result<client::Profiles> own_profiles() { return client::Profiles::of_user(own_environment()); }

Result<std::string> given_token(const LoginFlags& flags) {
  const bool from_file = !flags.token_file.empty() && flags.token_file != "-";
  std::string token =
      from_file ? TRY(read_file(flags.token_file, kTokenMax))
                : hidden_line(format("The token of the daemon at {} (one that `lockstep token "
                                     "create` made, or the file `token` in its folder):",
                                     host::without_fingerprint(flags.url)));
  while (!token.empty() && std::isspace(static_cast<unsigned char>(token.back())) != 0)
    token.pop_back();
  if (!token.empty()) return token;
  return Error{Code::invalid,
               "the token is empty: type it, pipe it in, or name its file by --token-file"};
}

// Without TLS each machine on the way reads the token.
Result<void> check_url(const LoginFlags& flags) {
  const net::Url url = TRY(net::parse_url(flags.url));
  if (url.scheme == net::Scheme::https || net::is_loopback(url.host) || flags.insecure) return {};
  return Error{Code::invalid,
               format("{} is not encrypted, so that machines on the way could read the token; use "
                      "the https:// address that the daemon prints, or --insecure",
                      flags.url)};
}

// By a password or OIDC the daemon makes a token.
Result<std::string> token_of(const LoginFlags& flags, const std::string& authorities) {
  if (flags.password.user.empty() && !flags.oidc) return given_token(flags);
  client::Client client = client::Client::without_token(flags.url, authorities);
  const api::LoginAnswer answer =
      flags.oidc ? TRY(log_in_by_oidc(client)) : TRY(log_in_by_password(client, flags.password));
  return answer.token;
}

// A daemon of version 0.1 has no users.
std::string user_of(client::Client& client) {
  const auto self = client.call(api::kWhoAmI);
  return self ? " as " + self->user : "";
}

std::string success_text(const LoginFlags& flags, const std::string& user,
                         const std::string& version) {
  const std::string use =
      flags.name == client::kDefaultProfile
          ? "commands use it from now on"
          : format("commands use it by `lockstep --profile {} ...`", flags.name);
  return format("logged in{} to the daemon at {}, version {}; {}", user,
                host::without_fingerprint(flags.url), version, use);
}

// Commands would go on using another daemon.
void warn_of_other_choice(const LoginFlags& flags) {
  if (flags.name != client::kDefaultProfile) return;
  for (const char* name : {"LOCKSTEP_PROFILE", "LOCKSTEP_URL", "LOCKSTEP_HOME"})
    if (const auto all = own_environment(); all.contains(name) && !all.at(name).empty())
      return print_to_stderr(
          format("lockstep: {} is set and comes first; unset it to use this daemon", name));
}

// Keeps nothing unless the daemon accepts the token.
Result<int> login(const LoginFlags& flags) {
  TRY(check_url(flags));
  const client::Profiles profiles = TRY(own_profiles());
  client::Profile profile{.url = flags.url, .token = {}};
  if (!flags.ca_file.empty()) profile.authorities = TRY(read_file(flags.ca_file, kAuthoritiesMax));
  profile.token = TRY(token_of(flags, profile.authorities.value_or("")));
  client::Client client = TRY(client::open_remote({.source = "login", .profile = profile}));
  const auto daemon = TRY(client.call(api::kVersion));
  TRY(profiles.write(flags.name, profile));
  print(success_text(flags, user_of(client), daemon.version));
  warn_of_other_choice(flags);
  return kDone;
}

Result<int> list_profiles(const LoginFlags& flags) {
  const client::Profiles profiles = TRY(own_profiles());
  std::vector<ListedProfile> all;
  for (const std::string& name : TRY(profiles.names()))
    all.push_back({name, TRY(profiles.read(name)).url});
  if (flags.json) {
    print(dump_json(to_json(all), Indent::two));
    return kDone;
  }
  Table table({"profile", "daemon"});
  for (const ListedProfile& one : all) table.add({one.name, host::without_fingerprint(one.url)});
  if (all.empty())
    print("there are no profiles; `lockstep login URL` makes one");
  else
    print_buffered(table.text(0));
  flush();
  return kDone;
}

Result<int> run_login(const LoginFlags& flags) {
  if (flags.list) return list_profiles(flags);
  if (!flags.url.empty()) return login(flags);
  return Error{Code::invalid,
               "login: name the address that `lockstep serve --listen` printed, such as "
               "https://head:7070#sha256:..."};
}

// A token that a log-in made ends. The one of the daemon's folder stays, for others use it.
void revoke_token(const client::Profile& profile) {
  if (!identity::parse_token(profile.token)) return;
  auto client = client::open_remote({.source = "logout", .profile = profile});
  const auto revoked = client ? client->call(api::kLogout) : client.error();
  if (!revoked)
    print_to_stderr(
        format("lockstep: the token was not revoked and ends by itself ({}); an "
               "administrator can revoke it",
               revoked.error().message));
}

Result<int> logout(const std::string& name) {
  const client::Profiles profiles = TRY(own_profiles());
  if (const auto profile = profiles.read(name)) revoke_token(*profile);
  TRY(profiles.remove(name));
  print(format("removed the profile '{}' with its token", name));
  return kDone;
}

// Without one of them a token is asked for.
void add_ways(CLI::App& command, LoginFlags& flags, CLI::Option* token) {
  auto* user = command
                   .add_option("--user", flags.password.user,
                               "log in as this user, by its password; the token ends after 30 days")
                   ->type_name("NAME")
                   ->excludes(token);
  command
      .add_option("--password-file", flags.password.password_file,
                  "the file with the password; - is standard input (default: ask for it)")
      ->type_name(kFileValue)
      ->needs(user);
  command
      .add_option("--new-password-file", flags.password.new_password_file,
                  "the file with a new password, which replaces one that is for one log-in")
      ->type_name(kFileValue)
      ->needs(user);
  command
      .add_flag("--oidc", flags.oidc,
                "log in at the issuer of the daemon's administrators, in a browser on any machine")
      ->excludes(token)
      ->excludes(user);
}

}  // namespace

// `lockstep login URL [NAME] [--user NAME | --oidc | --token-file FILE]`: keeps the address and the
// token of a daemon of another machine.
void add_login(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("login", "Use the daemon of another machine from here on");
  auto flags = std::make_shared<LoginFlags>();
  command
      ->add_option("url", flags->url,
                   "the address that the daemon prints at its start, with its fingerprint")
      ->type_name("URL");
  command
      ->add_option("name", flags->name,
                   "the profile that keeps it; `default` is used without --profile")
      ->type_name("NAME")
      ->capture_default_str();
  auto* token =
      command
          ->add_option("--token-file", flags->token_file,
                       "the file with the token; - is standard input (default: ask for it)")
          ->type_name(kFileValue);
  add_ways(*command, *flags, token);
  command
      ->add_option("--ca-file", flags->ca_file,
                   "authorities to trust instead of the system's, for an address without "
                   "fingerprint")
      ->type_name(kFileValue);
  command->add_flag("--insecure", flags->insecure,
                    "accept http:// for another machine: each machine on the way can read tokens "
                    "and passwords");
  command->add_flag("--list", flags->list, "list the profiles");
  command->add_flag("--json", flags->json, "with --list: print JSON");
  command->footer(
      "Examples:\n"
      "  lockstep login https://head:7070#sha256:9f2c... --user ann\n"
      "  lockstep login https://head:7070#sha256:9f2c... --oidc\n"
      "  lockstep login https://head:7070#sha256:9f2c... --token-file token\n"
      "  lockstep login https://head:7070#sha256:9f2c... cluster\n"
      "  lockstep login --list");
  command->callback([&action, flags] { action = [flags] { return run_login(*flags); }; });
}

// `lockstep logout [NAME]`: forgets it.
void add_logout(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("logout", "Remove a profile with its token");
  auto name = std::make_shared<std::string>(client::kDefaultProfile);
  command->add_option("name", *name, "the profile")->type_name("NAME")->capture_default_str();
  command->footer("Example:\n  lockstep logout cluster");
  command->callback([&action, name] { action = [name] { return logout(*name); }; });
}

}  // namespace lockstep::cli
