#include "platform/agent/agent.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/log_copy.h"
#include "base/os/environment.h"
#include "base/os/file_limit.h"
#include "base/os/file_lock.h"
#include "base/os/files.h"
#include "platform/agent/agent_loop.h"
#include "platform/agent/link/http_daemon_link.h"
#include "platform/agent/link/media_sender.h"
#include "platform/agent/slurm_step.h"
#include "platform/host/node_files.h"
#include "text/convert.h"

namespace lockstep::agent {
namespace {

using std::filesystem::path;

Result<host::LaunchSpec> read_launch(const path& file) {
  auto read = [&]() -> Result<host::LaunchSpec> {
    return from_json<host::LaunchSpec>(TRY(parse_json(TRY(read_file(file)))));
  };
  auto launch = read();
  if (!launch) return std::move(launch).error().with_context(file.string());
  return launch;
}

Result<void> check(const host::LaunchSpec& launch) {
  if (launch.command.empty()) return Error{Code::invalid, "the launch names no command"};
  if (launch.devices.empty()) return Error{Code::invalid, "the launch has no devices"};
  return {};
}

Result<void> redirect(const path& log) {
  Fd file = TRY(open_file(log, O_WRONLY | O_CREAT | O_APPEND));
  Fd null = TRY(open_file("/dev/null", O_RDONLY));
  if (::dup2(null.get(), 0) < 0 || ::dup2(file.get(), 1) < 0 || ::dup2(file.get(), 2) < 0)
    return os_error("opening the log " + log.string(), errno);
  return {};
}

// Standard output is redirected later, together with standard error.
Result<void> print_log() {
  const int output = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  if (output < 0) return os_error("printing the log to standard output", errno);
  copy_log_to(output);
  return {};
}

// The loop reads signals from a file descriptor; all threads inherit the mask.
void set_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGCHLD, SIGTERM, SIGINT}) sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

// The engine sets the token in the agent's environment; an agent started by hand uses the node's
// folder.
std::string token_of(const host::LaunchSpec& launch) {
  const char* token = std::getenv(std::string(host::kNodeToken).c_str());
  return token != nullptr && *token != '\0' ? token : launch.node_folder;
}

Result<void> become_agent(const host::LaunchSpec& launch) {
  ::setsid();  // fails if the engine did so already
  TRY(redirect(host::NodeFiles{launch.node_folder}.agent_log()));
  set_log_name("agent " + launch.node);
  set_signals();
  if (auto raised = raise_file_limit(); !raised) LS_LOG(warning, "{}", raised.error().message);
  if (::prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return os_error("becoming a subreaper", errno);
  return {};
}

Result<void> serve(const host::LaunchSpec& launch, const model::NodeId& node, DaemonLink& link) {
  LS_LOG(info, "pid {} on host {}", ::getpid(), launch.host);
  const auto find_daemon = [&]() -> Result<MediaSender::Destination> {
    const model::NodeName name{launch.generation, node};
    const auto found = host::read_daemon_file(launch.daemon_file);
    if (!found) return Error{Code::unavailable, found.error().message};
    return MediaSender::Destination{
        std::make_unique<client::Client>(found->url, launch.token,
                                         client::TokenOwner{.attempt = name.attempt()}),
        name};
  };
  MediaSender media(find_daemon, host::NodeFiles{launch.node_folder}.media());
  auto loop = TRY(AgentLoop::open(launch, node, token_of(launch), link));
  loop->run();
  return {};
}

}  // namespace

Result<int> run_agent(const host::LaunchSpec& launch, DaemonLink& link) {
  TRY(check(launch));
  model::NodeId node = TRY(model::parse_node_id(launch.node));
  TRY(make_folders(launch.node_folder));
  Fd lock = TRY(try_lock(host::NodeFiles{launch.node_folder}.lock()));
  if (!lock) return 0;
  TRY(become_agent(launch));
  if (auto served = serve(launch, node, link); !served) {
    LS_LOG(error, "{}", served.error().message);
    return std::move(served).error();
  }
  return 0;
}

Result<int> run_agent(const path& launch_file, const AgentPlace& place) {
  host::LaunchSpec launch = TRY(read_launch(launch_file));
  if (!place.address.empty()) launch.address = place.address;
  if (place.prints_log) TRY(print_log());
  if (!place.make_folder.empty()) TRY(make_folders(place.make_folder));
  use_place_of_slurm_step(launch, own_environment());
  model::NodeId node = TRY(model::parse_node_id(launch.node));
  HttpDaemonLink link(launch.daemon_file, {launch.generation, node}, launch.token);
  return run_agent(launch, link);
}

}  // namespace lockstep::agent
