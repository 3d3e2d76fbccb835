#include <cerrno>
#include <filesystem>
#include <system_error>
#include <vector>

#include <unistd.h>

#include "apps/daemon/own_daemon.h"
#include "apps/host/host_actions.h"
#include "apps/host/host_cluster.h"
#include "base/format.h"
#include "base/os/environment.h"
#include "platform/host_setup/package.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

namespace fs = std::filesystem;

constexpr auto kPlaybook = "add_hosts.yml";

// In a checkout, and in an installation.
Result<fs::path> playbook() {
  const fs::path program = fs::path(TRY(own_program())).parent_path();
  std::error_code failed;
  for (const char* folder : {"../../packaging/ansible", "../share/lockstep/ansible"})
    if (fs::path found = (program / folder / kPlaybook).lexically_normal();
        fs::exists(found, failed))
      return found;
  return Error{Code::not_found,
               "host add: the Ansible role is not beside this program: install "
               "Lockstep from its package, or run the role in packaging/ansible"};
}

// The role takes one for all hosts: a tarball fits each distribution.
Result<fs::path> package_for_all(const fs::path& path) {
  const auto packages = TRY(host_setup::packages_at(path, LOCKSTEP_VERSION));
  for (const host_setup::Package& package : packages)
    if (package.kind == host_setup::PackageKind::tarball) return fs::absolute(package.path);
  return fs::absolute(packages.front().path);
}

}  // namespace

// Becomes ansible-playbook, which may ask for passwords.
Result<int> add_inventory(const HostFlags& flags) {
  if (!find_program("ansible-playbook", own_environment(), fs::current_path()))
    return Error{Code::not_found,
                 "host add --inventory: there is no ansible-playbook here: install "
                 "it with `apt install ansible-core` or `pip install ansible-core`"};
  if (std::error_code failed; !fs::exists(flags.inventory, failed))
    return Error{Code::not_found, format("there is no inventory {}", flags.inventory)};
  Json variables = Json::object();
  variables["lockstep_host_package"] = TRY(package_for_all(TRY(package_path(flags)))).string();
  variables["lockstep_host_control_command"] = TRY(own_program());
  if (!flags.only_copy) variables["lockstep_host_url"] = TRY(HostCluster::find(flags.url)).url();
  if (!flags.labels.empty())
    return Error{Code::invalid,
                 "host add --inventory: the labels are variables of the inventory's hosts, such as "
                 "rack: a3; leave --label out"};
  if (!flags.pod.empty()) variables["lockstep_host_pod"] = flags.pod;
  std::vector<std::string> words = {"ansible-playbook", "--inventory",
                                    fs::absolute(flags.inventory).string(), "--extra-vars",
                                    dump_json(variables)};
  if (!flags.hosts.empty()) words.insert(words.end(), {"--limit", joined(flags.hosts, ",")});
  words.push_back(TRY(playbook()).string());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return os_error("starting ansible-playbook", errno);
}

}  // namespace lockstep::cli
