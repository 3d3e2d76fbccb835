#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/shell/shell_target.h"
#include "apps/shell/ssh_access.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

struct CopyFlags {
  std::string from, to;
};

struct NodePath {
  ShellTarget target;
  std::string path;
};

// Nothing: a path of this machine.
std::optional<NodePath> node_path(const std::string& words) {
  const std::size_t colon = words.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const auto target = shell_target(words.substr(0, colon));
  if (!target) return std::nullopt;
  return NodePath{*target, words.substr(colon + 1)};
}

// scp takes what is before a colon for a host.
std::string own_path(const std::string& words) {
  return words.starts_with('/') ? words : "./" + words;
}

Result<int> copy(const CopyFlags& flags) {
  const auto from = node_path(flags.from), to = node_path(flags.to);
  if (from.has_value() == to.has_value())
    return Error{Code::invalid,
                 format("{} of {} and {} must be on a node, such as demo/42/1:out.txt",
                        from ? "only one" : "one", flags.from, flags.to)};
  const NodePath& there = from ? *from : *to;
  const SshAccess access = TRY(prepare_ssh(there.target));
  // An empty path would be the home of the user.
  const std::string remote = access.alias + ":" + (there.path.empty() ? "." : there.path);
  std::vector<std::string> arguments = {"-r"};
  if (!is_terminal(STDERR_FILENO)) arguments.emplace_back("-q");
  arguments.push_back("--");
  arguments.push_back(from ? remote : own_path(flags.from));
  arguments.push_back(to ? remote : own_path(flags.to));
  return execute(ssh_command("scp", access, arguments));
}

}  // namespace

// `lockstep cp RUN[/NODE]:PATH PATH`, or the other way.
void add_cp(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("cp", "Copy files or folders from or to a node of a run");
  auto flags = std::make_shared<CopyFlags>();
  command->add_option("from", flags->from, "what to copy: a path, or RUN[/NODE]:PATH")
      ->required()
      ->type_name(kFileValue);
  command->add_option("to", flags->to, "where to: a path, or RUN[/NODE]:PATH")
      ->required()
      ->type_name(kFileValue);
  command->footer(
      "One of the two is on a node. A path there begins in the folder of the ranks.\n\n"
      "Examples:\n"
      "  lockstep cp demo/42:out/loss.csv .\n"
      "  lockstep cp config.yaml demo/42/1:/tmp/");
  command->callback([&action, flags] { action = [flags] { return copy(*flags); }; });
}

}  // namespace lockstep::cli
