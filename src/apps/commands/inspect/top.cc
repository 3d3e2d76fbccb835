#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>

#include <poll.h>
#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/device_readings.h"
#include "apps/run/follow.h"
#include "apps/run/run_display.h"
#include "apps/run/start_estimate.h"
#include "base/clock.h"
#include "platform/api/json.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr int kRunsMax = 50;
constexpr std::size_t kNodesMax = 64;  // whose telemetry is read: each is a call

struct TopFlags {
  std::string project;
  bool devices = false;
  bool once = false;
  int every = 2;
  bool json = false;
};

// The output of `lockstep top --json`.
struct ClusterUse {
  Time time{};
  int hosts = 0;
  int hosts_in_use = 0;
  int devices = 0;
  int devices_free = 0;
  std::int64_t waiting = 0;
  std::vector<api::RunView> runs;
  std::vector<DeviceReading> readings;
  std::vector<std::string> problems;

  static constexpr auto fields() {
    return record<ClusterUse>(
        field("time", &ClusterUse::time, "of the daemon's clock"),
        field("hosts", &ClusterUse::hosts, "of the cluster"),
        field("hosts_in_use", &ClusterUse::hosts_in_use, "on which runs hold devices"),
        field("devices", &ClusterUse::devices, "of all hosts"),
        field("devices_free", &ClusterUse::devices_free, "of them held by no run"),
        field("waiting", &ClusterUse::waiting, "runs that wait"),
        field("runs", &ClusterUse::runs, "that run, newest first"),
        field("readings", &ClusterUse::readings, "of their devices; nodes beyond 64 are left out"),
        field("problems", &ClusterUse::problems, "of the daemon"));
  }
};

Result<ClusterUse> read_use(client::Client& client, const TopFlags& flags) {
  ClusterUse use;
  const auto queue = TRY(client.call(api::kQueue, {.query = {}}));
  use.time = queue.time;
  use.waiting = static_cast<std::int64_t>(queue.waiting.size()) + queue.left_out;
  use.problems = queue.problems;
  for (const api::HostView& host : TRY(client.call(api::kHosts, {})).hosts) {
    use.hosts += 1;
    use.hosts_in_use += host.runs.empty() ? 0 : 1;
    use.devices += host.devices;
    use.devices_free += host.free;
  }
  api::RunsQuery query;
  query.state = model::RunState::running;
  query.limit = kRunsMax;
  if (!flags.project.empty()) query.project = flags.project;
  std::size_t nodes_left = kNodesMax;
  for (const api::RunView& listed : TRY(client.call(api::kRuns, {.query = query})).runs) {
    use.runs.push_back(TRY(client.call(api::kRun, {.path = TRY(run_argument(listed.id))})));
    const api::RunView& run = use.runs.back();
    for (DeviceReading& each : TRY(read_devices(client, run, nodes_left)))
      use.readings.push_back(std::move(each));
    const std::size_t nodes = run.attempts.empty() ? 0 : run.attempts.back().nodes.size();
    nodes_left -= std::min(nodes_left, nodes);
  }
  return use;
}

// Over the devices whose value is known.
struct Summary {
  double sum = 0, most = 0;
  int known = 0;

  void add(const std::optional<double>& value) {
    if (!value) return;
    sum += *value;
    most = known == 0 ? *value : std::max(most, *value);
    known += 1;
  }
};

std::string percent_text(const Summary& use) {
  return use.known == 0 ? "-" : format("{:.0f}%", use.sum / use.known);
}
std::string watts_text(const Summary& power) {
  if (power.known == 0) return "-";
  return power.sum < 1000 ? format("{:.0f} W", power.sum) : format("{:.2f} kW", power.sum / 1000);
}
std::string celsius_text(const Summary& temperature) {
  return temperature.known == 0 ? "-" : format("{:.0f} C", temperature.most);
}
std::string memory_text(const Summary& used, const Summary& total) {
  constexpr double kGiB = 1 << 30;
  if (used.known == 0) return "-";
  return total.known < used.known ? format("{:.1f} GiB", used.sum / kGiB)
                                  : format("{:.1f}/{:.0f} GiB", used.sum / kGiB, total.sum / kGiB);
}

struct Readings {
  Summary use, used, total, power, temperature;

  void add(const DeviceReading& each) {
    use.add(each.utilization);
    used.add(each.memory_used);
    total.add(each.memory_total);
    power.add(each.power);
    temperature.add(each.temperature);
  }
  std::vector<std::string> cells() const {
    return {percent_text(use), memory_text(used, total), watts_text(power),
            celsius_text(temperature)};
  }
};

std::string step_text(const api::RunView& run) {
  if (!run.progress) return "-";
  return run.progress->steps > 0 ? format("{}/{}", run.progress->step, run.progress->steps)
                                 : format("{}", run.progress->step);
}

std::string remark(const api::RunView& run, Time now) {
  if (!run.unreachable.empty()) return unreachable_text(run, now);
  const auto silent = without_progress(run, now);
  return silent
             ? format("no progress for {}", text(std::chrono::floor<std::chrono::seconds>(*silent)))
             : "";
}

std::vector<std::string> with_cells(std::vector<std::string> row, const Readings& readings) {
  for (std::string& cell : readings.cells()) row.push_back(std::move(cell));
  return row;
}

std::string table_of_runs(const ClusterUse& use) {
  Table table({"RUN", "NAME", "USER", "STEP", "DEVICES", "USE", "MEMORY", "POWER", "HOTTEST",
               "RUNNING", "REMARK"});
  for (const api::RunView& run : use.runs) {
    Readings readings;
    for (const DeviceReading& each : use.readings)
      if (each.run == run.id) readings.add(each);
    auto row = with_cells({run.id, run.name, run.origin.user, step_text(run),
                           format("{}", run.spec.nodes * run.spec.devices + run.spec.remainder)},
                          readings);
    row.push_back(text(from_seconds(std::floor(run.running_seconds))));
    row.push_back(remark(run, use.time));
    table.add(std::move(row));
  }
  return fit_to_terminal(table);
}

std::string table_of_devices(const ClusterUse& use) {
  Table table({"HOST", "DEVICE", "RUN", "USE", "MEMORY", "POWER", "TEMPERATURE"});
  for (const DeviceReading& each : use.readings) {
    Readings readings;
    readings.add(each);
    table.add(with_cells({each.host, format("{}", each.device), each.run}, readings));
  }
  return fit_to_terminal(table);
}

std::string use_text(const ClusterUse& use, bool with_devices) {
  Readings all;
  for (const DeviceReading& each : use.readings) all.add(each);
  std::string lines = trouble_lines(use.problems);
  lines += format("{}   {} of {} devices in use, on {} of {} hosts   {} run, {} wait",
                  moment_text(use.time), use.devices - use.devices_free, use.devices,
                  use.hosts_in_use, use.hosts, use.runs.size(), use.waiting);
  if (all.use.known > 0) lines += format("   use {}", percent_text(all.use));
  if (all.power.known > 0) lines += format("   {}", watts_text(all.power));
  lines += "\n\n";
  lines +=
      use.runs.empty() ? "no run runs; `lockstep run -- PROGRAM` starts one" : table_of_runs(use);
  if (with_devices)
    lines += "\n\n" + (use.readings.empty()
                           ? std::string("no device of a run has readings; CPUs have none")
                           : table_of_devices(use));
  return lines;
}

// A second screen of the terminal, so that the output before it comes back.
class Screen {
 public:
  Screen() { write("\033[?1049h\033[?25l"); }
  ~Screen() { write("\033[?25h\033[?1049l"); }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  // Lines that do not fit are left out: the first ones say most.
  void show(const std::string& lines) {
    std::string drawn = "\033[H";
    int left = std::max(terminal_height() - 1, 1);
    for (std::size_t start = 0; start <= lines.size() && left > 0; --left) {
      const std::size_t end = std::min(lines.find('\n', start), lines.size());
      drawn += lines.substr(start, end - start) + "\033[K\n";
      start = end + 1;
    }
    write(drawn + "\033[J");
  }

 private:
  static void write(const std::string& words) {
    std::fputs(words.c_str(), stdout);
    std::fflush(stdout);
  }
};

Result<int> show_live(client::Client& client, const TopFlags& flags) {
  InterruptHandler interrupt("");
  Screen screen;
  while (!InterruptHandler::requested()) {
    screen.show(use_text(TRY(retry_while_away(client, [&] { return read_use(client, flags); })),
                         flags.devices));
    ::poll(nullptr, 0, flags.every * 1000);  // Ctrl-C ends it
  }
  return kDone;
}

Result<int> top(const TopFlags& flags) {
  client::Client client = TRY(connect_to_daemon());
  if (is_terminal(STDOUT_FILENO) && !flags.once && !flags.json) return show_live(client, flags);
  const ClusterUse use = TRY(read_use(client, flags));
  print(flags.json ? dump_json(to_json(use), Indent::two) : use_text(use, flags.devices));
  return kDone;
}

}  // namespace

// `lockstep top`: runs, devices and power, live.
void add_top(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("top", "Show runs, use of devices and power, live");
  auto flags = std::make_shared<TopFlags>();
  command->add_option("--project", flags->project, "only runs of this project")
      ->type_name("PROJECT");
  command->add_flag("--devices", flags->devices, "a line for each device, too");
  command->add_option("--every", flags->every, "seconds between two pictures")
      ->capture_default_str()
      ->check(whole_number(1, 3600));
  command->add_flag("--once", flags->once, "print it once, as without a terminal");
  command->add_flag("--json", flags->json, "print JSON, once");
  command->footer(
      "USE and HOTTEST are the mean and the greatest value over the devices of a run, POWER and\n"
      "MEMORY the sums. Ctrl-C ends it.\n\n"
      "Example:\n  lockstep top --devices");
  command->callback([&action, flags] { action = [flags] { return top(*flags); }; });
}

}  // namespace lockstep::cli
