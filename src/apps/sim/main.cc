// lockstep-sim: replays one seed of the simulated world with a trace, or looks for seeds that break
// a promise. docs/design/sim.md tells how to read it.
#include <cstdint>
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>

#include "sim/world.h"

namespace lockstep::sim {
namespace {

void print(std::string_view line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
}

std::string summary(std::uint64_t seed, const Verdict& verdict) {
  return format(
      "seed {}: {}; {} runs, {} succeeded, {} attempts, {} deaths of the daemon, "
      "{} commits, {} events",
      seed, verdict.violation ? "VIOLATION " + *verdict.violation : "holds", verdict.runs,
      verdict.succeeded, verdict.attempts, verdict.deaths, verdict.commits, verdict.events);
}

bool replay(std::uint64_t seed) {
  const Verdict verdict = World({.seed = seed, .trace = print}).run();
  print(summary(seed, verdict));
  return !verdict.violation;
}

bool search(std::uint64_t first, int count) {
  int broken = 0;
  for (int i = 0; i < count; ++i) {
    const std::uint64_t seed = first + static_cast<std::uint64_t>(i);
    const Verdict verdict = World({.seed = seed}).run();
    if (!verdict.violation) continue;
    ++broken;
    print(summary(seed, verdict));
  }
  print(format("{} seeds from {}, {} break a promise", count, first, broken));
  return broken == 0;
}

int run(int argc, char** argv) {
  CLI::App app("Replays a seed of the simulated world with a trace, or tries many without.");
  std::uint64_t seed = 1;
  int count = 1;
  app.add_option("--seed", seed, "the seed, or the first of them")->capture_default_str();
  app.add_option("--count", count, "how many to try; only those that break a promise are shown")
      ->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return (count == 1 ? replay(seed) : search(seed, count)) ? 0 : 1;
}

}  // namespace
}  // namespace lockstep::sim

int main(int argc, char** argv) { return lockstep::sim::run(argc, argv); }
