#include "sim/simulation.h"

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::sim {
namespace {

// The end of the trace; lockstep-sim prints all of it.
std::string last_lines(std::uint64_t seed) {
  constexpr std::size_t kLines = 40;
  std::deque<std::string> lines;
  const auto keep = [&](std::string_view line) {
    lines.emplace_back(line);
    if (lines.size() > kLines) lines.pop_front();
  };
  Simulation({.seed = seed, .trace = keep}).run();
  return joined(lines, "\n");
}

class Seeds : public testing::TestWithParam<int> {};

TEST_P(Seeds, KeepWhatThePlatformPromises) {
  for (int i = 1; i <= 25; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam()) * 25 + static_cast<std::uint64_t>(i);
    const SimulationOutcome verdict = Simulation({.seed = seed}).run();
    ASSERT_FALSE(verdict.violation)
        << *verdict.violation << "\nthe whole trace: build/bin/lockstep-sim --seed " << seed
        << "\nits end:\n"
        << last_lines(seed);
  }
}
// A third of them replaces the store; `./dev bench seeds` tries ten thousand.
INSTANTIATE_TEST_SUITE_P(TwentyFive, Seeds, testing::Range(0, 8));

struct FoundSeed {
  std::uint64_t seed = 0;
  std::optional<bool> hosts_join{};
  std::string_view fault{};  // that it found
  std::optional<ChosenBy> chosen_by{};
};

constexpr FoundSeed kFoundSeeds[] = {
    {5777,
     {},
     "a late report of an adopted attempt made its time-out a failed launch",
     ChosenBy::lockstep},
    {9147,
     {},
     "a late report shows a rank as stopped, and it has been resumed",
     ChosenBy::lockstep},
    {126, true, "a node found again while its attempt drains held its devices too briefly"},
    {605, true, "a node found again held devices by their former numbers"},
    {2052, true, "a given-up node of an adopted attempt held its devices without end"},
    {4538, true, "a large debug run waits behind a small one of the debug share"},
    {5001, true, "an operator stops an orphan, and removes its host as lost"},
    {7169, true, "the store is replaced between the start command and the start"},
    {86,
     {},
     "a job's first host fails after its ranks ended, and another host is blamed",
     ChosenBy::engine},
    {92, {}, "a run is extended while its agent ends it at its time limit", ChosenBy::engine},
    {143,
     {},
     "a job's first host fails after its ranks ended, and is not blamed",
     ChosenBy::engine},
    {1722,
     {},
     "an older store is put back while an attempt waits to be submitted",
     ChosenBy::engine},
    {2400,
     {},
     "a job's first host fails after its ranks ended and another agent stopped",
     ChosenBy::engine},
    {191,
     {},
     "a debug run becomes a job after one of the debug share has started here",
     ChosenBy::both},
};

// The options of lockstep-sim.
std::string options_of(const FoundSeed& found) {
  return format("--seed {}{}{}", found.seed, found.hosts_join ? " --hosts-join" : "",
                found.chosen_by ? format(" --engine-places {}", name_of(*found.chosen_by)) : "");
}

TEST(World, HoldsForSeedsThatFoundAFault) {
  for (const FoundSeed& found : kFoundSeeds) {
    const SimulationOutcome verdict =
        Simulation(
            {.seed = found.seed, .hosts_join = found.hosts_join, .chosen_by = found.chosen_by})
            .run();
    EXPECT_FALSE(verdict.violation) << "build/bin/lockstep-sim " << options_of(found) << ": "
                                    << *verdict.violation << "\nit once found: " << found.fault;
  }
}

// Byte for byte, within one process; tests/tools/test_sim.py compares processes.
TEST(World, IsTheSameForTheSameSeed) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<std::string> traces(2);
    for (std::string& trace : traces)
      Simulation({.seed = seed, .trace = [&](std::string_view line) { trace += line; }}).run();
    EXPECT_GT(traces[0].size(), 1000u);
    EXPECT_EQ(traces[0], traces[1]) << "seed " << seed;
  }
}

TEST(World, IsTheSameWhetherItsTraceIsReadOrNot) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed)
    EXPECT_EQ(Simulation({.seed = seed}).run(),
              Simulation({.seed = seed, .trace = [](std::string_view) {}}).run())
        << "seed " << seed;
}

TEST(World, ReachesDeepIntoWhatCanHappen) {
  int deaths = 0, attempts = 0, succeeded = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const SimulationOutcome verdict = Simulation({.seed = seed}).run();
    deaths += verdict.crashes;
    attempts += verdict.attempts;
    succeeded += verdict.succeeded;
  }
  EXPECT_GT(deaths, 50);
  EXPECT_GT(attempts, 200);
  EXPECT_GT(succeeded, 50);
}

}  // namespace
}  // namespace lockstep::sim
