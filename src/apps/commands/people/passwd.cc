#include <memory>
#include <string>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/login/hidden_input.h"
#include "base/clock.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

constexpr Duration kHashTime = std::chrono::seconds(60);

struct PasswdFlags {
  std::string old_file, new_file;
};

Result<int> change_password(const PasswdFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  const api::WhoAmI self = TRY(client.call(api::kWhoAmI));
  api::PasswordRequest request;
  const std::string old_password =
      TRY(file_or_hidden_line("--old-password-file", flags.old_file,
                              format("The password of {} now (empty: it has none):", self.user)));
  if (!old_password.empty()) request.old_password = old_password;
  request.new_password = TRY(new_password("--new-password-file", flags.new_file));
  const auto changed =
      TRY(client.call(api::kPassword, {.request = request}, Deadline::after(kHashTime)));
  print(format("changed the password of {}{}", changed.user,
               changed.ended_tokens == 0
                   ? std::string()
                   : format("; {} other log-in{} by the old one ended", changed.ended_tokens,
                            changed.ended_tokens == 1 ? "" : "s")));
  return kDone;
}

}  // namespace

// `lockstep passwd`: changes the own password.
void add_passwd(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("passwd", "Change your password");
  auto flags = std::make_shared<PasswdFlags>();
  command
      ->add_option("--old-password-file", flags->old_file,
                   "the file with the password of now; - is standard input (default: ask for it)")
      ->type_name(kFileValue);
  command
      ->add_option("--new-password-file", flags->new_file,
                   "the file with the new one (default: ask for it)")
      ->type_name(kFileValue);
  command->footer(
      "Other log-ins by the old password end. `lockstep user passwd NAME` is for "
      "administrators.\n\n"
      "Example:\n  lockstep passwd --old-password-file old --new-password-file new");
  command->callback([&action, flags] { action = [flags] { return change_password(*flags); }; });
}

}  // namespace lockstep::cli
