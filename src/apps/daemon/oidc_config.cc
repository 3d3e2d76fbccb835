#include "apps/daemon/oidc_config.h"

#include <filesystem>

#include <sys/stat.h>

#include "apps/cli/subcommand.h"
#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kOidcFileMax = 1 << 20;

Result<std::string> read_option_file(const char* option, const std::string& file) {
  auto content = read_file(file, kOidcFileMax);
  if (!content) return std::move(content).error().with_context(option);
  return content;
}

Result<std::string> read_client_secret(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
    return Error{Code::denied, format("--oidc-secret-file: {} may be read by others; take it back "
                                      "with 'chmod 600 {}'",
                                      file, file)};
  std::string secret = TRY(read_option_file("--oidc-secret-file", file));
  while (secret.ends_with('\n') || secret.ends_with('\r')) secret.pop_back();
  return secret;
}

}  // namespace

std::vector<CLI::Option*> add_oidc_options(CLI::App& command, OidcFlags& flags) {
  auto* issuer = command
                     .add_option("--oidc-issuer", flags.issuer,
                                 "users log in at this OpenID Connect issuer, by `lockstep login "
                                 "--oidc`")
                     ->type_name("URL");
  auto* client =
      command
          .add_option("--oidc-client", flags.client, "the id that the issuer gave to this daemon")
          ->type_name("ID");
  auto* secret = command
                     .add_option("--oidc-secret-file", flags.secret_file,
                                 "the file with the secret of that id (default: it has none)")
                     ->type_name(kFileValue);
  auto* roles = command
                    .add_option("--oidc-roles", flags.roles_file,
                                "the file with the roles of the issuer's groups (default: all its "
                                "users log in, without roles)")
                    ->type_name(kFileValue);
  auto* authorities = command
                          .add_option("--oidc-ca-file", flags.ca_file,
                                      "authorities of the issuer's certificate (default: the "
                                      "system's)")
                          ->type_name(kFileValue);
  return {issuer, client, secret, roles, authorities};
}

// The daemon may be started again from another folder.
Result<void> read_oidc(const OidcFlags& flags, ServeConfig& config) {
  const auto file = [](const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(std::filesystem::absolute(name).string());
  };
  if (flags.issuer.empty() != flags.client.empty())
    return Error{Code::invalid,
                 "--oidc-issuer and --oidc-client belong together: give both, or neither"};
  if (flags.issuer.empty() && !(flags.secret_file + flags.roles_file + flags.ca_file).empty())
    return Error{Code::invalid, "the other options --oidc-... need --oidc-issuer"};
  if (flags.issuer.empty()) return {};
  config.oidc_issuer = flags.issuer;
  config.oidc_client = flags.client;
  config.oidc_secret_file = file(flags.secret_file);
  config.oidc_roles = file(flags.roles_file);
  config.oidc_ca_file = file(flags.ca_file);
  TRY(oidc_setup(config));
  return {};
}

void add_oidc_words(const ServeConfig& served, std::vector<std::string>& words) {
  const auto add = [&](const char* option, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {option, *value});
  };
  add("--oidc-issuer", served.oidc_issuer);
  add("--oidc-client", served.oidc_client);
  add("--oidc-secret-file", served.oidc_secret_file);
  add("--oidc-roles", served.oidc_roles);
  add("--oidc-ca-file", served.oidc_ca_file);
}

Result<std::optional<server::OidcSetup>> oidc_setup(const ServeConfig& served) {
  if (!served.oidc_issuer) return std::optional<server::OidcSetup>();
  TRY(identity::check_issuer_url("--oidc-issuer", *served.oidc_issuer));
  server::OidcSetup setup{.issuer = {.url = *served.oidc_issuer,
                                     .client = served.oidc_client.value_or(""),
                                     .secret = {}},
                          .roles_file = served.oidc_roles.value_or("")};
  if (served.oidc_secret_file)
    setup.issuer.secret = TRY(read_client_secret(*served.oidc_secret_file));
  if (served.oidc_ca_file)
    setup.authorities = TRY(read_option_file("--oidc-ca-file", *served.oidc_ca_file));
  if (served.oidc_roles)
    TRY(identity::parse_role_table(TRY(read_option_file("--oidc-roles", *served.oidc_roles)),
                                   *served.oidc_roles));
  return std::optional(setup);
}

}  // namespace lockstep::cli
