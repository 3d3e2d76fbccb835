#include <filesystem>
#include <optional>
#include <system_error>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/host/each_host.h"
#include "apps/host/host_actions.h"
#include "apps/host/host_cluster.h"
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
  std::optional<std::string> host;  // after it joined
  std::optional<api::HostReport> report;
  std::optional<std::string> unavailable;
  std::optional<std::string> error;

  static constexpr auto fields() {
    return record<AddedHost>(
        field("target", &AddedHost::target, "as it was named"),
        field("host", &AddedHost::host, "its id on the map; null: it has not joined"),
        field("report", &AddedHost::report, "what it is; null: it failed"),
        field("unavailable", &AddedHost::unavailable,
              "why it takes no run now; null: it does, or has not joined"),
        field("error", &AddedHost::error, "why it failed; null: it did not"));
  }
};

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
  Table table({"TARGET", "HOST", "SYSTEM", "CORES", "MEMORY", "DEVICES", "NETWORK", "PROBLEMS"});
  for (const AddedHost& one : hosts) {
    if (!one.report) continue;
    const api::HostInventory& host = one.report->inventory;
    std::vector<std::string> problems;
    for (const api::HostProblem& problem : one.report->problems)
      problems.emplace_back(name_of(problem.kind));
    table.add({one.target, one.host.value_or("-"), host.distribution, format("{}", host.cores),
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
  for (const AddedHost& one : hosts)
    if (one.unavailable) print(format("{}: takes no run now: {}", one.target, *one.unavailable));
}

// Copies Lockstep to hosts and joins them, several at a time.
class HostAdder {
 public:
  static Result<HostAdder> open(const HostFlags& flags) {
    HostAdder adder(flags);
    adder.options_.answer_limit = TRY(duration_option("--timeout", flags.timeout));
    adder.options_.packages =
        TRY(host_setup::packages_at(TRY(package_path(flags)), adder.options_.version));
    adder.labels_ = TRY(map::parse_labels(flags.labels));
    TRY(map::check_labels(adder.labels_));
    if (!flags.only_copy) adder.cluster_ = TRY(HostCluster::find(flags.url));
    return adder;
  }

  Result<void> add(AddedHost& host, const PrintStep& print_step) {
    auto set_up = TRY(host_setup::set_up(ssh_, host.target, options_, SystemClock(), print_step));
    host.report = std::move(set_up.report);
    if (cluster_) TRY(join(host, set_up.program, print_step));
    print_step(cluster_ ? format("has joined as {}", *host.host)
                        : format("has Lockstep {}", options_.version));
    return {};
  }

 private:
  explicit HostAdder(const HostFlags& flags)
      : flags_(flags), options_{.packages = {}, .version = LOCKSTEP_VERSION} {}

  Result<void> join(AddedHost& host, const std::string& program, const PrintStep& print_step) {
    const std::string id =
        flags_.name.empty() ? TRY(host_id(host.target, host.report->inventory.name)) : flags_.name;
    print_step("joins the cluster, and starts its service");
    const host_setup::JoinOrder order{.program = program,
                                      .url = cluster_->url(),
                                      .token = TRY(cluster_->token(id, flags_.pod)),
                                      .address = flags_.address};
    print_step(TRY(host_setup::join(ssh_, host.target, order, options_.answer_limit)));
    if (!labels_.empty()) TRY(set_labels(id, labels_));
    const auto view = cluster_->await_service(id, options_.answer_limit);
    if (!view) return error_with_log(view.error(), host.target);
    host.host = id;
    if (!view->unavailable.empty()) host.unavailable = view->unavailable;
    return {};
  }

  Error error_with_log(Error error, const std::string& target) {
    const std::string log = host_setup::service_log(ssh_, target, options_.answer_limit);
    if (!log.empty()) error.message += format("; it printed:\n{}", log);
    return error;
  }

  const HostFlags& flags_;
  host_setup::SetUpOptions options_;
  host_setup::OpenSsh ssh_;
  std::optional<HostCluster> cluster_;
  map::Labels labels_;
};

}  // namespace

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

Result<int> add_hosts(const HostFlags& flags) {
  if (!flags.inventory.empty()) return add_inventory(flags);
  TRY(check_targets(flags.action, flags.hosts));
  if (!flags.name.empty() && flags.hosts.size() != 1)
    return Error{Code::invalid, "host add: --as names one host"};
  HostAdder adder = TRY(HostAdder::open(flags));
  std::vector<AddedHost> hosts;
  for (const std::string& target : flags.hosts) hosts.push_back({target, {}, {}, {}, {}});
  const std::size_t failures = for_each_host(
      flags.hosts, [&](std::size_t index, const PrintStep& print_step) -> Result<void> {
        auto added = adder.add(hosts[index], print_step);
        if (!added) hosts[index].error = added.error().message;
        return added;
      });
  show(hosts, flags.json);
  return failures == 0 ? kDone : kFailed;
}

}  // namespace lockstep::cli
