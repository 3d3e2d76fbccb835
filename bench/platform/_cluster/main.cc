// Measures a daemon with many simulated agents: a JSON line a measurement.
//
//   bench_cluster FOLDER RUNS NODES SECONDS [WAITING]
//
// A daemon process serves FOLDER. This process submits RUNS runs of NODES nodes and plays their
// agents over real sockets. Each node sends 2 lines of 100 bytes and 2 values a second.
//
// With WAITING, so many further runs wait for devices, and the nodes send nothing: no run changes.
// After the measurement the daemon goes on until standard input ends, for calls of others.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agents.h"
#include "base/clock.h"
#include "base/format.h"
#include "base/os/file_limit.h"
#include "daemon.h"
#include "platform/client/client.h"
#include "platform/host/home.h"
#include "platform/store/database.h"

namespace lockstep::bench {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr auto kStep = milliseconds(50);
constexpr int kStepsBetweenReports = 10;  // 2 reports a second
constexpr auto kStartMax = seconds(300), kDeliveryMax = seconds(60);

struct Load {
  std::filesystem::path folder;
  int runs = 1, nodes = 1, seconds = 10;
  int waiting = 0;  // more runs, for which there are no devices
  bool idle = false;

  int submissions() const { return runs + waiting; }
  double cpu_allowed() const { return idle ? 5 : 60; }        // % of a core
  double memory_allowed() const { return idle ? 200 : 500; }  // MB
};

void show(const Load& load, std::string_view what, std::string_view unit, double ours,
          double allowed = 0) {
  std::string row = format(
      "{{\"bench\": \"cluster\", \"case\": \"{}\", \"runs\": {}, \"nodes\": {}, \"unit\": \"{}\", "
      "\"ours\": {:.6g}",
      what, load.submissions(), load.nodes, unit, ours);
  if (allowed > 0)
    row += format(", \"peer\": {:.6g}, \"peer_name\": \"allowed\", \"ratio\": {:.4g}, \"bar\": 1.0",
                  allowed, ours > 0 ? allowed / ours : 1000.0);
  std::printf("%s}\n", row.c_str());
  std::fflush(stdout);
}

// The process of the daemon. It ends with this one.
pid_t fork_daemon(const Load& load) {
  const pid_t pid = ::fork();
  if (pid == 0 && ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0)
    ::_exit(run_daemon(load.folder, load.runs * load.nodes));
  return pid;
}

Result<client::Client> connect(const Load& load) {
  for (const Deadline end = Deadline::after(seconds(20));; std::this_thread::sleep_for(kStep)) {
    auto client = client::Client::open({.folder = load.folder});
    if (client || end.passed()) return client;
  }
}

// Seconds of CPU of the process so far.
double cpu_of(pid_t pid) {
  std::ifstream file(format("/proc/{}/stat", pid));
  std::string word;
  for (int i = 0; i < 13; ++i) file >> word;
  double user = 0, system = 0;
  file >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

// The largest main memory of the process so far, in MB.
double memory_of(pid_t pid) {
  std::ifstream file(format("/proc/{}/status", pid));
  for (std::string word; file >> word;)
    if (double kib = 0; word == "VmHWM:" && file >> kib) return kib * 1024 / 1e6;
  return 0;
}

model::RunSpec spec_of(const Load& load) {
  model::RunSpec spec;
  spec.project = "bench";
  spec.name = "load";
  spec.command = {"train"};
  spec.nodes = load.nodes;
  spec.working_folder = "/";
  return spec;
}

// Seconds from the first submission until all ranks run.
Result<double> start_runs(const Load& load, client::Client& client, SimulatedAgents& agents) {
  const auto begin = std::chrono::steady_clock::now();
  const Deadline end = Deadline::after(kStartMax);
  int submitted = 0;
  while (agents.running() < load.runs * load.nodes || submitted < load.submissions()) {
    for (int i = 0; i < 20 && submitted < load.submissions(); ++i, ++submitted)
      TRY(client.submit({.spec = spec_of(load), .origin = {"bench", "", false}}));
    TRY(agents.update());
    if (end.passed())
      return Error{Code::timeout, format("{} of {} ranks run after {} s", agents.running(),
                                         load.runs * load.nodes, kStartMax.count())};
    if (submitted == load.submissions()) std::this_thread::sleep_for(milliseconds(5));
  }
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Result<void> report_for(const Load& load, SimulatedAgents& agents) {
  const auto begin = std::chrono::steady_clock::now();
  for (auto next = begin; next < begin + seconds(load.seconds);) {
    if (!load.idle) agents.report(kStepsBetweenReports);
    TRY(agents.update());
    next += kStep;
    std::this_thread::sleep_until(next);
  }
  return {};
}

bool input_has_ended() {
  pollfd input{STDIN_FILENO, POLLIN, 0};
  char byte = 0;
  return ::poll(&input, 1, 0) > 0 && ::read(STDIN_FILENO, &byte, 1) <= 0;
}

Result<void> serve_others(SimulatedAgents& agents) {
  for (; !input_has_ended(); std::this_thread::sleep_for(kStep)) TRY(agents.update());
  return {};
}

void await_delivery(const SimulatedAgents& agents) {
  for (const Deadline end = Deadline::after(kDeliveryMax);
       !agents.all_delivered() && !end.passed();)
    std::this_thread::sleep_for(kStep);
}

// Lines and values of the store, after the daemon's end.
Result<std::pair<double, double>> stored(const Load& load) {
  const auto database = TRY(store::Database::open(host::Home{load.folder}.store()));
  const auto lines =
      TRY(database->rows<std::int64_t>("select coalesce(sum(next - 1), 0) from run_counters"));
  const auto values = TRY(database->rows<std::int64_t>("select count(*) from points"));
  return std::pair(static_cast<double>(std::get<0>(lines.at(0))),
                   static_cast<double>(std::get<0>(values.at(0))));
}

void end(pid_t daemon) {
  ::kill(daemon, SIGTERM);
  ::waitpid(daemon, nullptr, 0);
}

Result<double> measure(const Load& load, pid_t daemon) {
  client::Client client = TRY(connect(load));
  SimulatedAgents agents = TRY(SimulatedAgents::open(load.folder));
  show(load, "all ranks run after", "s", TRY(start_runs(load, client, agents)));
  const double before = cpu_of(daemon);
  TRY(report_for(load, agents));
  const double cpu = cpu_of(daemon) - before;
  show(load, "CPU of the daemon", "%", 100 * cpu / load.seconds, load.cpu_allowed());
  show(load, "memory of the daemon", "MB", memory_of(daemon), load.memory_allowed());
  show(load, "longest delay in the daemon's loop", "ms",
       1e3 * TRY(client.call(api::kVersion)).loop_lag_seconds, 100);
  if (load.idle) TRY(serve_others(agents));
  const auto sent = static_cast<double>(agents.reports());
  await_delivery(agents);
  if (!agents.all_delivered()) std::fprintf(stderr, "not all items were acknowledged\n");
  end(daemon);
  return sent;
}

Result<void> run(const Load& load) {
  const pid_t daemon = fork_daemon(load);
  const auto sent = measure(load, daemon);
  if (!sent) {
    end(daemon);
    return sent.error();
  }
  if (load.idle) return {};
  const auto [lines, values] = TRY(stored(load));
  show(load, "lines and values sent", "items", 2 * *sent);
  show(load, "lines and values lost", "items", 2 * *sent - lines - values);
  return {};
}

}  // namespace
}  // namespace lockstep::bench

int main(int argc, char** argv) {
  using namespace lockstep;
  if (argc != 5 && argc != 6) {
    std::fprintf(stderr, "bench_cluster FOLDER RUNS NODES SECONDS [WAITING]\n");
    return 2;
  }
  ::setenv("LOCKSTEP_LOG", "error", 0);  // each agent reports the end of the daemon
  (void)raise_file_limit();
  const auto done = bench::run({.folder = argv[1],
                                .runs = std::atoi(argv[2]),
                                .nodes = std::atoi(argv[3]),
                                .seconds = std::atoi(argv[4]),
                                .waiting = argc == 6 ? std::atoi(argv[5]) : 0,
                                .idle = argc == 6});
  if (!done) std::fprintf(stderr, "bench_cluster: %s\n", done.error().message.c_str());
  return done ? 0 : 1;
}
