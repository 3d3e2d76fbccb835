#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

#include "apps/access/node_argument.h"
#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/shell/held_run.h"
#include "apps/shell/shell_target.h"
#include "apps/shell/ssh_access.h"
#include "base/format.h"
#include "base/mutex.h"
#include "base/os/environment.h"
#include "base/os/spawn.h"

namespace lockstep::cli {
namespace {

constexpr int kSessionsAtOnce = 16;

struct ExecFlags {
  std::string run;
  std::vector<std::string> command;
  bool all = false;
};

std::vector<std::string> exec_arguments(const SshAccess& access,
                                        const std::vector<std::string>& command) {
  return {"-T", access.alias, shell_quoted(command)};
}

Result<int> run_on_node(const ExecFlags& flags) {
  const ShellTarget target = TRY(shell_target(flags.run));
  const SshAccess access = TRY(prepare_ssh(target));
  return execute(ssh_command("ssh", access, exec_arguments(access, flags.command)));
}

// --- On all nodes at once ---

class NodeLines {
 public:
  void print_line(int node, const std::string& line) LS_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    print(format("[{}] {}", node, escaped_for(STDOUT_FILENO, line)));
  }
  void print_error(int node, const std::string& line) LS_EXCLUDES(mutex_) {
    const Lock lock(mutex_);
    print_to_stderr(format("[{}] lockstep: {}", node, line));
  }

 private:
  Mutex mutex_;
};

void copy_lines(int node, const Fd& pipe, NodeLines& lines) {
  std::string rest;
  char buffer[1 << 14];
  for (;;) {
    const ssize_t n = ::read(pipe.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    rest.append(buffer, static_cast<std::size_t>(n));
    for (std::size_t end = 0; (end = rest.find('\n')) != std::string::npos; rest.erase(0, end + 1))
      lines.print_line(node, rest.substr(0, end));
  }
  if (!rest.empty()) lines.print_line(node, rest);
}

// The exit code of the command. The ssh ends with this thread.
Result<int> run_with_prefix(const ShellTarget& target, const std::vector<std::string>& command,
                            NodeLines& lines) {
  const SshAccess access = TRY(prepare_ssh(target));
  Pipe output = TRY(make_pipe());
  const pid_t pid =
      TRY(spawn({.command = ssh_command("ssh", access, exec_arguments(access, command)),
                 .environment = own_environment(),
                 .folder = "/",
                 .output = output.write.get()},
                ProcessLifetime::ends_with_thread));
  output.write.reset();
  copy_lines(target.node, output.read, lines);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<int> run_on_all_nodes(const ExecFlags& flags) {
  const ShellTarget first = TRY(shell_target(flags.run));
  client::Client client = TRY(connect_to_daemon());
  const api::RunView run = TRY(client.call(api::kRun, {.path = first.run}));
  const int nodes = model::node_count(run.spec);
  std::vector<int> codes(static_cast<std::size_t>(nodes), kConnectionLost);
  NodeLines lines;
  std::atomic<int> next = 0;
  const auto work = [&] {
    for (int node = next++; node < nodes; node = next++) {
      const auto code = run_with_prefix({.run = first.run, .node = node}, flags.command, lines);
      if (!code) lines.print_error(node, code.error().message);
      codes[static_cast<std::size_t>(node)] = code ? *code : kConnectionLost;
    }
  };
  {
    std::vector<std::jthread> sessions;
    for (int i = 0; i < std::min(nodes, kSessionsAtOnce); ++i) sessions.emplace_back(work);
  }
  const auto failed = std::ranges::find_if(codes, [](int code) { return code != 0; });
  return failed == codes.end() ? kDone : *failed;
}

}  // namespace

// `lockstep exec RUN[/NODE] -- COMMAND`.
void add_exec(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("exec", "Run a command on a node of a running run");
  auto flags = std::make_shared<ExecFlags>();
  add_node_argument(*command, flags->run);
  command->add_option("command", flags->command, "after --: the command and its arguments")
      ->required()
      ->type_name(kProgramValue);
  command->add_flag("--all", flags->all,
                    "on each node, with the node's number before each line; input is empty");
  command->footer(
      "Its exit code is that of the command, with --all of the first node where it is not 0; 255 "
      "if\n"
      "there is no connection. It gets standard input, and no terminal.\n\n"
      "Examples:\n"
      "  lockstep exec demo/42 -- nvidia-smi\n"
      "  lockstep exec demo/42 --all -- df -h /tmp");
  command->callback([&action, flags] {
    action = [flags] { return flags->all ? run_on_all_nodes(*flags) : run_on_node(*flags); };
  });
}

}  // namespace lockstep::cli
