#include "apps/login/log_in.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "apps/cli/terminal.h"
#include "apps/login/hidden_input.h"
#include "base/clock.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

// An argon2 hash, and 16 that wait.
constexpr Duration kLoginTime = std::chrono::seconds(60);

void print_code(const api::DeviceLogin& begun) {
  print_to_stderr(format("open {} in a browser, on any machine, and type the code {}",
                         begun.verification_uri, begun.user_code));
  if (begun.verification_uri_complete)
    print_to_stderr(format("or open {}", *begun.verification_uri_complete));
  print_to_stderr(format("the code ends in {}; waiting for you ...",
                         text(Duration(std::chrono::seconds(begun.expires_seconds)))));
}

}  // namespace

Result<api::LoginAnswer> log_in_by_password(client::Client& client,
                                            const PasswordLoginFlags& flags) {
  api::LoginRequest request{.user = flags.user};
  request.password =
      TRY(file_or_hidden_line("--password-file", flags.password_file,
                              format("The password of {} at {}:", flags.user, client.url())));
  if (request.password.empty())
    return Error{Code::invalid,
                 "the password is empty: type it, or name its file by --password-file"};
  if (!flags.new_password_file.empty())
    request.new_password = TRY(new_password("--new-password-file", flags.new_password_file));
  const auto call = [&] {
    return client.call(api::kLogin, {.request = request}, Deadline::after(kLoginTime));
  };
  api::LoginAnswer answer = TRY(call());
  if (!answer.needs_new_password) return answer;
  print_to_stderr("this password is for one log-in: choose your own");
  request.new_password = TRY(new_password("--new-password-file", ""));
  return call();
}

Result<api::LoginAnswer> log_in_by_oidc(client::Client& client) {
  const api::DeviceLogin begun = TRY(client.call(api::kDeviceLogin));
  print_code(begun);
  const Deadline end = Deadline::after(std::chrono::seconds(begun.expires_seconds));
  Duration pause = std::chrono::seconds(begun.interval_seconds);
  while (!end.passed()) {
    std::this_thread::sleep_for(std::min(pause, end.remaining()));
    auto poll = client.call(api::kDevicePoll, {.request = {.login = begun.login}});
    // The daemon or the issuer may be back in a moment; the code is still good.
    if (!poll && poll.error().code == Code::unavailable) continue;
    const api::DevicePollAnswer answer = TRY(std::move(poll));
    if (answer.login) return *answer.login;
    pause = std::chrono::seconds(std::max(answer.interval_seconds, 1));
  }
  return Error{Code::timeout, "the code has ended; log in again"};
}

}  // namespace lockstep::cli
