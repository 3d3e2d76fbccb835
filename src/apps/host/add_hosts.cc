#include <filesystem>
#include <optional>
#include <system_error>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/host/each_host.h"
#include "apps/host/host_actions.h"
#include "apps/run/run_display.h"
#include "platform/host_setup/open_ssh.h"
#include "platform/host_setup/set_up.h"
#include "text/convert.h"
#include "text/display/table.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

// A host of `lockstep host add --json`: a report, or the reason why there is none.
struct AddedHost {
  std::string target;
  std::optional<api::HostReport> report;
  std::optional<std::string> error;

  static constexpr auto fields() {
    return record<AddedHost>(field("target", &AddedHost::target, "as it was named"),
                             field("report", &AddedHost::report, "what it is; null: it failed"),
                             field("error", &AddedHost::error, "why it failed; null: it did not"));
  }
};

// Where ./dev package leaves them, for a program of a checkout; where an installation has them.
Result<fs::path> package_path(const HostFlags& flags) {
  if (!flags.package.empty()) return fs::path(flags.package);
  std::error_code failed;
  const fs::path program = fs::read_symlink("/proc/self/exe", failed).parent_path();
  for (const char* beside : {"../package", "../share/lockstep/packages"})
    if (fs::path folder = (program / beside).lexically_normal(); fs::is_directory(folder, failed))
      return folder;
  return Error{Code::not_found,
               "host add: there is no package beside this program: name the tarball or the .deb "
               "that `./dev package` makes with --package"};
}

std::string devices_of(const api::HostInventory& host) {
  const bool gpus = !host.devices.empty() && host.devices[0].kind == map::DeviceKind::gpu;
  return gpus ? format("{} GPUs", host.devices.size()) : "no GPU";
}

std::string network_of(const api::HostInventory& host) {
  std::vector<std::string> names;
  for (const api::HostInterface& one : host.interfaces)
    if (one.up) names.push_back(one.speed ? format("{} {}", one.name, text(*one.speed)) : one.name);
  return names.empty() ? "-" : joined(names, ", ");
}

std::string hosts_table(const std::vector<AddedHost>& hosts) {
  Table table({"HOST", "SYSTEM", "CORES", "MEMORY", "DEVICES", "NETWORK", "PROBLEMS"});
  for (const AddedHost& one : hosts) {
    if (!one.report) continue;
    const api::HostInventory& host = one.report->inventory;
    std::vector<std::string> problems;
    for (const api::HostProblem& problem : one.report->problems)
      problems.emplace_back(name_of(problem.kind));
    table.add({one.target, host.distribution, format("{}", host.cores),
               host.memory ? text(*host.memory) : "-", devices_of(host), network_of(host),
               problems.empty() ? "-" : joined(problems, " ")});
  }
  return table.empty() ? "no host was added" : fit_to_terminal(table);
}

void show(const std::vector<AddedHost>& hosts, bool json) {
  if (json) return print(dump_json(to_json(hosts), Indent::two));
  print(hosts_table(hosts));
  for (const AddedHost& one : hosts)
    if (one.report)
      for (const api::HostProblem& problem : one.report->problems)
        print(format("{}: {}", one.target, problem.detail));
}

}  // namespace

Result<int> add_hosts(const HostFlags& flags) {
  TRY(check_targets(flags.action, flags.hosts));
  host_setup::SetUpOptions options{
      .packages = {},
      .version = LOCKSTEP_VERSION,
      .answer_limit = TRY(duration_option("--timeout", flags.timeout))};
  options.packages = TRY(host_setup::packages_at(TRY(package_path(flags)), options.version));
  host_setup::OpenSsh ssh;
  std::vector<AddedHost> hosts;
  for (const std::string& target : flags.hosts) hosts.push_back({target, {}, {}});
  const std::size_t failures = for_each_host(
      flags.hosts, [&](std::size_t index, const PrintStep& print_step) -> Result<void> {
        AddedHost& host = hosts[index];
        auto report = host_setup::set_up(ssh, host.target, options, SystemClock(), print_step);
        if (!report) {
          host.error = report.error().message;
          return std::move(report).error();
        }
        host.report = *std::move(report);
        print_step(format("has Lockstep {}", options.version));
        return {};
      });
  show(hosts, flags.json);
  return failures == 0 ? kDone : kFailed;
}

}  // namespace lockstep::cli
