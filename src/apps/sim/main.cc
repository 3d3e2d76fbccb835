// lockstep-sim: replays one seed of the simulation with a trace, or searches for seeds that break a
// promise. docs/design/sim.md explains its output.
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "base/hash.h"
#include "sim/seed_range.h"
#include "sim/simulation.h"
#include "sim/trace_filter.h"

namespace lockstep::sim {
namespace {

void print(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

std::string summary(std::uint64_t seed, const SimulationOutcome& outcome) {
  return format(
      "seed {}: {}; {} runs, {} succeeded, {} attempts, {} deaths of the daemon, "
      "{} commits, {} events",
      seed, outcome.violation ? "VIOLATION " + *outcome.violation : "holds", outcome.runs,
      outcome.succeeded, outcome.attempts, outcome.crashes, outcome.commits, outcome.events);
}

// Absent: the seed decides.
struct Modes {
  std::optional<bool> hosts_join{};
  std::optional<ChosenBy> chosen_by{};

  SimulationSetup setup(std::uint64_t seed, TraceSink trace) const {
    return {
        .seed = seed, .trace = std::move(trace), .hosts_join = hosts_join, .chosen_by = chosen_by};
  }
  std::string options() const {
    return format("{}{}", hosts_join ? " --hosts-join" : "",
                  chosen_by ? format(" --engine-places {}", name_of(*chosen_by)) : "");
  }
};

bool replay(std::uint64_t seed, const std::string& run, const Modes& modes) {
  const TraceFilter filter(run);
  const auto trace = [&](std::string_view line) {
    if (filter.shows(line)) print(line);
  };
  const SimulationOutcome outcome = Simulation(modes.setup(seed, trace)).run();
  print(summary(seed, outcome));
  return !outcome.violation;
}

// Redrawn on a terminal; elsewhere a line for each tenth.
class Progress {
 public:
  explicit Progress(std::uint64_t all) : all_(all) {}
  void show(std::uint64_t done, int broken) const {
    const bool due = terminal_ ? done % 50 == 0 : done * 10 / all_ != (done - 1) * 10 / all_;
    if (!due && done != all_) return;
    std::fprintf(stderr, "%s%llu of %llu seeds, %d break a promise%s", terminal_ ? "\r" : "",
                 static_cast<unsigned long long>(done), static_cast<unsigned long long>(all_),
                 broken, terminal_ && done != all_ ? "" : "\n");
  }

 private:
  const std::uint64_t all_;
  const bool terminal_ = ::isatty(STDERR_FILENO) == 1;
};

bool search(const SeedRange& range, bool with_digest, const Modes& modes) {
  int broken = 0;
  Fnv1a digest;  // of the outcomes and traces
  const TraceSink sink = with_digest ? TraceSink([&](std::string_view line) {
    digest.add(line);
    digest.add("\n");
  })
                                     : TraceSink();
  const Progress progress(range.count());
  for (std::uint64_t seed = range.first; seed <= range.last; ++seed) {
    if (const SimulationOutcome outcome = Simulation(modes.setup(seed, sink)).run();
        outcome.violation) {
      ++broken;
      print(summary(seed, outcome));
      print(format("  the whole trace: lockstep-sim --seed {}{}", seed, modes.options()));
    }
    progress.show(seed - range.first + 1, broken);
  }
  print(format("seeds {}: {} break a promise", range.text(), broken));
  if (with_digest) print(format("digest of their traces: {:016x}", digest.value()));
  return broken == 0;
}

int run(int argc, char** argv) {
  CLI::App app("Replays a seed of the simulated world with a trace, or tries many without.");
  std::uint64_t seed = 1;
  std::string seeds;
  std::string only;
  bool with_digest = false;
  bool hosts_join = false;
  std::string engine_places;
  app.add_option("--seed", seed, "the seed whose trace is shown")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  app.add_option("--run", only,
                 "show of the trace what concerns this run (demo/3), and the faults");
  app.add_option("--seeds", seeds, "FROM..TO: try them all, and show those that break a promise")
      ->excludes("--seed")
      ->excludes("--run")
      ->check([](const std::string& words) {
        const auto range = parse_seed_range(words);
        return range ? std::string() : range.error().message;
      });
  app.add_flag("--digest", with_digest,
               "with --seeds: print a digest of all that happened, to compare two runs")
      ->needs("--seeds");
  app.add_flag("--hosts-join", hosts_join,
               "hosts join and leave the cluster, as they do in each fourth seed");
  app.add_option("--engine-places", engine_places,
                 "all: an engine chooses the hosts of runs, as it does in three of 20 seeds; some: "
                 "it does so on a part of them, as in three of 25; none: Lockstep chooses all")
      ->check(CLI::IsMember({"all", "some", "none"}))
      ->excludes("--hosts-join");
  CLI11_PARSE(app, argc, argv);
  Modes modes;
  if (hosts_join) modes.hosts_join = true;
  if (!engine_places.empty()) modes.chosen_by = parse_name<ChosenBy>(engine_places).value();
  const bool holds = seeds.empty() ? replay(seed, only, modes)
                                   : search(parse_seed_range(seeds).value(), with_digest, modes);
  return holds ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::run(argc, argv); }
