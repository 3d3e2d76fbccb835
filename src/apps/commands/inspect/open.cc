#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "base/os/environment.h"
#include "base/os/files.h"
#include "base/os/run_program.h"
#include "net/http/url.h"

namespace lockstep::cli {
namespace {

// xdg-open runs some browsers itself, so it is left alone once it has run for 2 s.
constexpr std::string_view kStartBrowser =
    "setsid xdg-open \"$0\" </dev/null >/dev/null 2>&1 & browser=$!\n"
    "for i in 1 2 3 4 5 6 7 8 9 10; do\n"
    "  kill -0 $browser 2>/dev/null || break\n"
    "  sleep 0.2\n"
    "done\n"
    "kill -0 $browser 2>/dev/null || wait $browser";
constexpr auto kStartTime = std::chrono::seconds(20);

struct OpenFlags {
  std::string run;
  bool print = false;
};

// A fragment is sent to no server and is in no log. The page removes it from the history.
std::string address_of(const std::string& url, const std::string& code, const std::string& view) {
  return format("{}/login#code={}&next={}", url, code, net::percent_encode(view));
}

bool has_screen(const Environment& environment) {
  return environment.contains("DISPLAY") || environment.contains("WAYLAND_DISPLAY");
}

// A folder that no other user reads; empty: there is none.
std::filesystem::path private_folder(const Environment& environment) {
  const auto variable = [&](const char* name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::filesystem::path()
                                      : std::filesystem::path(found->second);
  };
  if (const auto runtime = variable("XDG_RUNTIME_DIR"); !runtime.empty())
    return runtime / "lockstep";
  if (const auto cache = variable("XDG_CACHE_HOME"); !cache.empty()) return cache / "lockstep";
  const auto home = variable("HOME");
  return home.empty() ? home : home / ".cache" / "lockstep";
}

// Other users see the arguments of a browser, so it gets a file that leads it to the address.
Result<std::filesystem::path> write_redirection(const std::filesystem::path& folder,
                                                const std::string& address) {
  TRY(make_folders(folder));
  const auto file = folder / format("open-{}.html", ::getpid());
  std::string quoted;
  for (const char character : address)
    quoted += character == '&' ? std::string("&amp;") : std::string(1, character);
  TRY(write_file(file, format("<!doctype html><meta charset=\"utf-8\"><title>Lockstep</title>"
                              "<meta http-equiv=\"refresh\" content=\"0;url={0}\">"
                              "<a href=\"{0}\">Lockstep</a>\n",
                              quoted)));
  return file;
}

// False: there is no browser that the user could see.
bool open_browser(const std::string& address) {
  const Environment environment = own_environment();
  const auto folder = private_folder(environment);
  if (!has_screen(environment) || folder.empty() || !find_program("xdg-open", environment, "/"))
    return false;
  const auto file = write_redirection(folder, address);
  if (!file) return false;
  const auto end =
      run_program({"sh", "-c", std::string(kStartBrowser), file->string()}, kStartTime);
  return end && end->status == 0;
}

Result<int> open_page(const OpenFlags& flags) {
  std::optional<model::RunId> run;
  if (!flags.run.empty()) run = TRY(run_argument(flags.run));
  client::Client client = TRY(connect_to_daemon());
  std::string view = "/";
  if (run) view = format("/runs/{}", TRY(client.call(api::kRun, {.path = *run})).id);
  const auto made = TRY(client.call(api::kSessionCode));
  const std::string address = address_of(client.url(), made.code, view);
  if (!flags.print && open_browser(address)) {
    print(format("a browser opens {}{}; if none appears, `lockstep open --print` shows the address",
                 client.url(), view));
    return kDone;
  }
  if (!flags.print)
    print_to_stderr(
        format("lockstep: there is no browser here; open this address within {} s, it "
               "works once",
               made.expires_seconds));
  print(address);
  return kDone;
}

}  // namespace

// `lockstep open [RUN]`: the page of the daemon in a browser, which is logged in by a code.
void add_open(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("open", "Open the page of the daemon, or of a run, in a browser");
  auto flags = std::make_shared<OpenFlags>();
  add_run_argument(*command, flags->run)->required(false);
  command->add_flag("--print", flags->print, "print the address instead of opening a browser");
  command->footer(
      "The address logs you in. It works once, for five minutes, and has no token.\n\n"
      "Example:\n  lockstep open demo/42");
  command->callback([&action, flags] { action = [flags] { return open_page(*flags); }; });
}

}  // namespace lockstep::cli
