#include "apps/daemon/notice_config.h"

#include <filesystem>
#include <optional>

#include <sys/stat.h>

#include "apps/cli/subcommand.h"
#include "base/format.h"
#include "base/os/files.h"
#include "net/http/url.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kPasswordMax = 4096;

Result<std::string> read_smtp_password(const std::string& file) {
  struct stat info{};
  if (::stat(file.c_str(), &info) == 0 && (info.st_mode & 077) != 0)
    return Error{Code::denied, format("--smtp-password-file: {} may be read by others; take it "
                                      "back with 'chmod 600 {}'",
                                      file, file)};
  auto password = read_file(file, kPasswordMax);
  if (!password) return std::move(password).error().with_context("--smtp-password-file");
  while (password->ends_with('\n') || password->ends_with('\r')) password->pop_back();
  return password;
}

Result<void> check_smtp_url(const std::string& url) {
  for (const std::string scheme : {"smtp://", "smtps://"})
    if (url.starts_with(scheme) && net::host_of(url.substr(scheme.size()))) return {};
  return Error{Code::invalid, format("--smtp: '{}' is no server of mail such as "
                                     "smtp://mail.example.com:587 or smtps://mail.example.com",
                                     url)};
}

Result<notifier::MailServer> mail_server_of(const ServeConfig& served) {
  TRY(check_smtp_url(*served.smtp));
  notifier::MailServer server{.url = *served.smtp,
                              .from = served.smtp_from.value_or(""),
                              .user = served.smtp_user.value_or("")};
  if (auto checked = notifier::check_mail_address(server.from); !checked)
    return std::move(checked).error().with_context("--smtp-from");
  if (served.smtp_password_file)
    server.password = TRY(read_smtp_password(*served.smtp_password_file));
  return server;
}

}  // namespace

std::vector<CLI::Option*> add_notice_options(CLI::App& command, NotifierFlags& flags) {
  const auto add = [&](const char* name, auto& into, const char* type, const char* help) {
    return command.add_option(name, into, help)->type_name(type)->allow_extra_args(false);
  };
  return {add("--notice-network", flags.networks, "CIDR",
              "a network such as 10.1.0.0/16 that webhooks may reach, besides public addresses; "
              "may be repeated"),
          add("--notice-commands", flags.commands, kFolderValue,
              "the folder of programs that `lockstep notice add command` may name"),
          add("--smtp", flags.smtp, "URL",
              "the server that takes mails, such as smtp://mail.example.com:587"),
          add("--smtp-from", flags.smtp_from, "ADDRESS", "the address from which mails come"),
          add("--smtp-user", flags.smtp_user, "NAME",
              "the user at that server (default: it asks for none)"),
          add("--smtp-password-file", flags.smtp_password_file, kFileValue,
              "the file with the password of that user")};
}

// The daemon may be started again from another folder.
Result<void> read_notices(const NotifierFlags& flags, ServeConfig& config) {
  const auto text = [](const std::string& value) {
    return value.empty() ? std::nullopt : std::optional(value);
  };
  const auto path = [](const std::string& name) {
    return name.empty() ? std::nullopt : std::optional(std::filesystem::absolute(name).string());
  };
  if (flags.smtp.empty() != flags.smtp_from.empty())
    return Error{Code::invalid, "--smtp and --smtp-from belong together: give both, or neither"};
  if (flags.smtp_user.empty() != flags.smtp_password_file.empty())
    return Error{Code::invalid,
                 "--smtp-user and --smtp-password-file belong together: give both, or neither"};
  if (flags.smtp.empty() && !flags.smtp_user.empty())
    return Error{Code::invalid, "--smtp-user needs --smtp"};
  if (!flags.networks.empty()) config.notice_networks = flags.networks;
  config.notice_commands = path(flags.commands);
  config.smtp = text(flags.smtp);
  config.smtp_from = text(flags.smtp_from);
  config.smtp_user = text(flags.smtp_user);
  config.smtp_password_file = path(flags.smtp_password_file);
  TRY(notifier_setup(config));
  return {};
}

void add_notice_words(const ServeConfig& served, std::vector<std::string>& words) {
  const auto add = [&](const char* option, const std::optional<std::string>& value) {
    if (value) words.insert(words.end(), {option, *value});
  };
  for (const std::string& one : served.notice_networks.value_or(std::vector<std::string>()))
    words.insert(words.end(), {"--notice-network", one});
  add("--notice-commands", served.notice_commands);
  add("--smtp", served.smtp);
  add("--smtp-from", served.smtp_from);
  add("--smtp-user", served.smtp_user);
  add("--smtp-password-file", served.smtp_password_file);
}

Result<notifier::NotifierSetup> notifier_setup(const ServeConfig& served) {
  notifier::NotifierSetup setup;
  for (const std::string& one : served.notice_networks.value_or(std::vector<std::string>())) {
    auto network = notifier::parse_network(one);
    if (!network) return std::move(network).error().with_context("--notice-network");
    setup.allowed.push_back(*network);
  }
  if (served.notice_commands) {
    setup.commands = *served.notice_commands;
    std::error_code ignored;
    if (!std::filesystem::is_directory(setup.commands, ignored))
      return Error{Code::not_found,
                   format("--notice-commands: there is no folder {}", *served.notice_commands)};
  }
  if (served.smtp) setup.mail = TRY(mail_server_of(served));
  return setup;
}

}  // namespace lockstep::cli
