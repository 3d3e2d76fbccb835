#include "apps/external/attach.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fcntl.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/terminal.h"
#include "apps/external/launched_job.h"
#include "apps/run/origin.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/log.h"
#include "base/os/environment.h"
#include "base/os/file_limit.h"
#include "base/os/files.h"
#include "comm/collective/start/launched_rank.h"
#include "platform/agent/external/external_agent.h"
#include "platform/agent/external/job_folder.h"
#include "platform/client/chosen_daemon.h"
#include "text/json.h"

namespace lockstep::cli {
namespace {

// For an agent that another rank is starting, or that is about to end.
constexpr Duration kAgentWait = std::chrono::seconds(10);
constexpr unsigned kAgentPollPause = 10'000;  // microseconds

// The rank reads one line, and then the end of the file.
void print_line(const Json& json) { print(dump_json(json)); }

// The agent has no file of the rank, and no signal of its terminal.
Result<void> leave_rank(const agent::JobFolder& folder) {
  ::setsid();
  Fd log = TRY(open_file(folder.log(), O_WRONLY | O_CREAT | O_APPEND));
  Fd null = TRY(open_file("/dev/null", O_RDONLY));
  if (::dup2(null.get(), 0) < 0 || ::dup2(log.get(), 1) < 0 || ::dup2(log.get(), 2) < 0 ||
      ::chdir("/") != 0)
    return os_error("leaving the rank", errno);
  ::prctl(PR_SET_NAME, "lockstep");
  set_log_name("agent");
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGHUP, SIG_IGN);
  sigset_t set;
  sigemptyset(&set);
  for (int number : {SIGTERM, SIGINT}) sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  if (auto raised = raise_file_limit(); !raised) LS_LOG(warning, "{}", raised.error().message);
  return {};
}

struct StartedAgent {
  LaunchedJob job;
  client::Profile daemon;
  agent::AgentStart start;
};

Result<int> run_external_agent(agent::ExternalAgent& agent, StartedAgent started) {
  api::ExternalNodeRequest request = std::move(started.job.request);
  request.incarnation = started.start.incarnation;
  request.machine = started.start.machine;
  request.agent_started = started.start.at;
  LS_LOG(info, "pid {} for {}, started by {}", ::getpid(), request.spec.name, request.launcher);
  // git may take seconds.
  agent::ExternalLink link(std::move(started.daemon), [request = std::move(request), &agent] {
    auto complete = request;
    complete.origin = origin_of(complete.spec.working_folder);
    complete.ranks = agent.known_ranks();
    return complete;
  });
  auto ended = agent.run(
      link, [&link] { return link.status(); }, [&link] { return link.media_destination(); }, {});
  if (ended) return kDone;
  LS_LOG(error, "{}", ended.error().message);
  return std::move(ended).error();
}

// Empty if another rank's agent holds the folder.
Result<std::optional<int>> become_agent(const agent::JobFolder& folder, const LaunchedJob& job,
                                        const client::Profile& daemon, const Json& answer) {
  const auto lock = TRY(folder.try_become_agent());
  if (!lock) return std::optional<int>();
  StartedAgent started{.job = job, .daemon = daemon, .start = agent::this_start()};
  auto agent = TRY(agent::ExternalAgent::open(folder, started.start, daemon.url));
  const pid_t child = ::fork();
  if (child < 0) return os_error("starting the agent", errno);
  if (child > 0) {
    print_line(answer);
    return std::optional<int>(kDone);
  }
  TRY(leave_rank(folder));
  return std::optional<int>(TRY(run_external_agent(*agent, std::move(started))));
}

Result<int> find_agent(const LaunchedJob& job, const client::Profile& daemon) {
  const auto folder = TRY(agent::JobFolder::open(job.folder));
  Json answer = {{"socket", folder.presence_socket().string()}, {"rank", job.rank}};
  if (job.local_rank) answer["local_rank"] = *job.local_rank;
  for (const auto end = Deadline::after(kAgentWait); !end.passed(); ::usleep(kAgentPollPause)) {
    if (folder.has_agent()) {
      print_line(answer);
      return kDone;
    }
    if (const auto code = TRY(become_agent(folder, job, daemon, answer))) return *code;
  }
  return Error{Code::timeout,
               format("the agent in {} accepts no connection", folder.path().string())};
}

}  // namespace

Result<int> attach_rank() {
  const Environment environment = comm::without_meeting(own_environment());
  int rank = 0;
  const auto attached = [&]() -> Result<int> {
    const LaunchedJob job = TRY(launched_job_of(::getppid(), environment));
    rank = job.rank;
    const auto remote = TRY(client::remote_at_url(environment));
    return find_agent(job, remote.profile);
  }();
  if (attached) return *attached;
  print_line({{"error", attached.error().message}, {"rank", rank}});
  return exit_code_for(attached.error());
}

}  // namespace lockstep::cli
