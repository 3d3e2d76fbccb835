#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "apps/cli/subcommand.h"
#include "apps/host/host_actions.h"

namespace lockstep::cli {
namespace {

constexpr auto kHostActions =
    "ls|cordon|drain|release|dead|label|add|rm|inventory|token|join|serve";

struct Change {
  std::string_view name;
  model::HostState state;
};
constexpr std::array<Change, 3> kChanges = {{{"cordon", model::HostState::closed},
                                             {"drain", model::HostState::drained},
                                             {"release", model::HostState::open}}};

struct OtherAction {
  std::string_view name;
  Result<int> (*run)(const HostFlags& flags);
};
constexpr std::array<OtherAction, 9> kOthers = {{{"ls", list_hosts},
                                                 {"dead", declare_hosts_dead},
                                                 {"label", label_hosts},
                                                 {"add", add_hosts},
                                                 {"rm", remove_hosts},
                                                 {"inventory", print_inventory},
                                                 {"token", make_host_token},
                                                 {"join", join_host},
                                                 {"serve", serve_host}}};

Result<int> act_on(const HostFlags& flags) {
  const auto* const change = std::ranges::find(kChanges, flags.action, &Change::name);
  if (change != kChanges.end()) return change_hosts(flags, change->state);
  const auto* const other = std::ranges::find(kOthers, flags.action, &OtherAction::name);
  if (other == kOthers.end())
    return Error{Code::invalid, format("host: there is no action '{}': write one of {}",
                                       flags.action, kHostActions)};
  if (!flags.reason.empty())
    return Error{Code::invalid,
                 format("host {}: --reason is for cordon, drain and release", flags.action)};
  return other->run(flags);
}

constexpr auto kHostFooter =
    "cordon: no run starts there any more, those that are there go on to their end. drain:\n"
    "the same, but runs that write checkpoints move elsewhere. release: it is given to runs\n"
    "again. dead: its machine is off, so its nodes count as gone and their runs start again\n"
    "elsewhere. label: sets labels, for which runs may ask. add: copies Lockstep to machines\n"
    "by SSH, lets them join the cluster, starts their services, and prints what they have. An\n"
    "added host gets the new package. rm: takes a host off the map, and removes Lockstep\n"
    "there. inventory: what this machine has; it needs no daemon.\n\n"
    "token: a secret with which a machine joins once, within an hour. join: on that machine,\n"
    "takes the token and keeps its credential. serve: runs there from then on, reports the\n"
    "machine and starts agents; agents and ranks go on without it.\n\n"
    "Examples:\n"
    "  lockstep host ls\n"
    "  lockstep host drain node-3 --reason \"its fan is loud\"\n"
    "  lockstep host dead node-3\n"
    "  lockstep host label node-3 node-4 --label rack=a3\n"
    "  lockstep host add ann@gpu1 ann@gpu2 --package lockstep-0.1.0-Linux.tar.gz\n"
    "  lockstep host add --inventory hosts.yml\n"
    "  lockstep host inventory --json\n"
    "  lockstep host token gpu1 | ssh gpu1 lockstep host join https://head:7070#sha256:...";

// The options of join and serve, which run on the host itself.
void add_joining_options(CLI::App& command, HostFlags& flags) {
  command
      .add_option("--token-file", flags.token_file,
                  "of join: has the token; else it is read from standard input")
      ->type_name(kFileValue);
  command
      .add_option("--address", flags.address,
                  "of add and join: where other hosts reach it; else that of its way to the daemon")
      ->type_name("ADDRESS");
  command.add_flag("--install", flags.install,
                   "of serve: let systemd run the service, also after a reboot");
  command.add_flag("--uninstall", flags.uninstall,
                   "of serve: end the service; it starts no more, and its credential is removed");
}

}  // namespace

// `lockstep host ACTION [HOST...]`: which hosts accept runs; sets up machines; describes this one.
void add_host(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("host", "List hosts, keep runs from them, set up new ones");
  auto flags = std::make_shared<HostFlags>();
  command->add_option("action", flags->action, "what to do")->required()->type_name(kHostActions);
  command
      ->add_option("host", flags->hosts,
                   "hosts by their ids in the map; for add and rm as ssh names them")
      ->type_name(kHostValue);
  command
      ->add_option("--reason", flags->reason,
                   "why; shown with the host and with runs that wait for it")
      ->type_name("TEXT");
  command
      ->add_option("--package", flags->package,
                   "of add: the package to copy, or a folder with several; else those beside this "
                   "program")
      ->type_name(kFileValue);
  command
      ->add_option("--pod", flags->pod,
                   "of add and token: in which the map has the host; else default")
      ->type_name("NAME");
  command
      ->add_option("--label", flags->labels,
                   "of add and label: sets a label, for which runs may ask with --constraint; KEY= "
                   "removes it; repeatable")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
  command
      ->add_option("--as", flags->name,
                   "of add and rm: the host's id on the map; else the name of the target")
      ->type_name("NAME");
  command
      ->add_option("--url", flags->url,
                   "of add: the daemon's address for hosts; else the one that the daemon prints")
      ->type_name("URL");
  command
      ->add_option("--inventory", flags->inventory,
                   "of add: set up the hosts of this Ansible inventory; a HOST limits it to some")
      ->type_name(kFileValue);
  command->add_flag("--no-join", flags->only_copy, "of add: copy Lockstep, and join no cluster");
  add_joining_options(*command, *flags);
  command->add_flag(
      "--lost", flags->lost,
      "of rm: the machine does not come back; takes the host off the map alone, by its "
      "id, and its runs start again elsewhere");
  command->add_flag("--yes", flags->yes, "of dead: the machine is off, though its host answers");
  command->add_option("--timeout", flags->timeout, "of add and rm: for an answer of a host")
      ->type_name("DURATION")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "print JSON");
  command->footer(kHostFooter);
  command->callback([&action, flags] { action = [flags] { return act_on(*flags); }; });
}

}  // namespace lockstep::cli
