#include "platform/host_setup/set_up.h"

#include "base/format.h"
#include "platform/host_service/health.h"
#include "platform/host_setup/probe.h"
#include "platform/host_setup/scripts.h"
#include "text/convert.h"
#include "text/json.h"
#include "text/shell_words.h"

namespace lockstep::host_setup {
namespace {

class HostSetUp {
 public:
  HostSetUp(RemoteShell& shell, const std::string& target, const SetUpOptions& options,
            const Clock& clock, const OnStep& on_step)
      : shell_(shell), target_(target), options_(options), clock_(clock), on_step_(on_step) {}

  Result<InstalledHost> run() {
    on_step_("asks what it is");
    const HostFacts facts = TRY(parse_probe(TRY(answer(probe_script()))));
    const Package package = TRY(choose_package(options_.packages, facts));
    TRY(install(package, facts));
    on_step_("asks for its inventory");
    const std::string program = installed_program(package, facts);
    return InstalledHost{program, TRY(inventory(program))};
  }

 private:
  Result<std::string> answer(const std::string& script) {
    return shell_.run({target_, script, std::nullopt, options_.answer_limit});
  }

  Result<void> install(const Package& package, const HostFacts& facts) {
    if (is_installed(package, facts)) return {};
    on_step_(format("copies {}", text(package.size)));
    TRY(shell_.run({target_, install_script(package, facts), package.path, options_.copy_limit}));
    return {};
  }

  Result<api::HostReport> inventory(const std::string& program) {
    const Time asked = clock_.now();
    const std::string output = TRY(answer(shell_words({program, "host", "inventory", "--json"})));
    const host_service::ClockReference reference{asked, clock_.now()};
    auto report = read_report(output);
    if (!report) return std::move(report).error().with_context("reading its inventory");
    if (report->inventory.version != options_.version)
      return Error{Code::invalid,
                   format("{} there is Lockstep {}, and not {} as its package says: remove it, "
                          "then add the host again",
                          program, report->inventory.version, options_.version)};
    report->problems = host_service::check_health(report->inventory, reference);
    return report;
  }

  static Result<api::HostReport> read_report(const std::string& output) {
    return from_json<api::HostReport>(TRY(parse_json(output)), UnknownFields::ignore);
  }

  RemoteShell& shell_;
  const std::string& target_;
  const SetUpOptions& options_;
  const Clock& clock_;
  const OnStep& on_step_;
};

std::string without_end(std::string output) {
  while (output.ends_with('\n') || output.ends_with(' ')) output.pop_back();
  return output;
}

}  // namespace

Result<InstalledHost> set_up(RemoteShell& shell, const std::string& target,
                             const SetUpOptions& options, const Clock& clock,
                             const OnStep& on_step) {
  return HostSetUp(shell, target, options, clock, on_step).run();
}

Result<std::string> join(RemoteShell& shell, const std::string& target, const JoinOrder& order,
                         Duration limit) {
  const auto said = TRY(shell.run({.target = target,
                                   .script = join_script(order.program, order.url, order.address),
                                   .input = std::nullopt,
                                   .limit = limit,
                                   .secret = order.token}));
  return without_end(said);
}

std::string service_log(RemoteShell& shell, const std::string& target, Duration limit) {
  return without_end(
      shell.run({target, service_log_script(), std::nullopt, limit}).value_or(std::string()));
}

Result<void> take_down(RemoteShell& shell, const std::string& target, Duration limit) {
  const std::string said =
      without_end(TRY(shell.run({target, remove_script(), std::nullopt, limit})));
  if (said == "nothing")
    return Error{Code::not_found, "Lockstep is not installed there by this user"};
  if (said.starts_with("running"))
    return Error{Code::invalid, format("Lockstep runs there (process {}): end its runs with "
                                       "`lockstep host drain`, then remove it",
                                       said.substr(8))};
  return {};
}

}  // namespace lockstep::host_setup
