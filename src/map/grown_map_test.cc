#include "map/grown_map.h"

#include <gtest/gtest.h>

#include "map/query.h"

namespace lockstep::map {
namespace {

Host host_of(const std::string& id, int cores) {
  Host host;
  host.id = id;
  host.islands.emplace_back();
  for (int number = 0; number < cores; ++number)
    host.islands.back().devices.push_back(
        {.kind = DeviceKind::core, .number = number, .memory = std::nullopt});
  return host;
}

ClusterMap map_of(std::vector<Host> hosts) {
  ClusterMap map;
  map.name = "slurm";
  map.pods.push_back({"spine", {}, {{"leaf1", std::move(hosts)}}});
  return map;
}

bool used(const std::string&) { return true; }
bool unused(const std::string&) { return false; }

TEST(GrownMap, NewHostsAreAdded) {
  const auto grown =
      grown_map(map_of({host_of("n1", 4)}), map_of({host_of("n1", 4), host_of("n2", 4)}), used);
  EXPECT_EQ(hosts(grown).size(), 2u);
  EXPECT_TRUE(check(grown));
}

TEST(GrownMap, AHostThatIsNoLongerSeenStays) {
  const auto grown =
      grown_map(map_of({host_of("n1", 4), host_of("n2", 4)}), map_of({host_of("n1", 4)}), used);
  EXPECT_NE(find_host(grown, "n2"), nullptr);
  ASSERT_EQ(grown.pods.size(), 1u);
  EXPECT_EQ(grown.pods[0].leaves.size(), 1u);
}

TEST(GrownMap, AHostThatIsNoLongerSeenStaysWithItsEngine) {
  ClusterMap before = map_of({host_of("n1", 4)});
  before.pods.push_back(map_of({host_of("here", 4)}).pods[0]);
  before.pods[0].engine = "slurm";
  before.pods[1].engine = "local";
  ClusterMap seen = before;
  seen.pods.erase(seen.pods.begin());
  const auto grown = grown_map(before, seen, used);
  EXPECT_EQ(engine_of(grown, "n1"), "slurm");
  EXPECT_EQ(engine_of(grown, "here"), "local");
}

TEST(GrownMap, AHostThatNothingUsesTakesItsNewDevices) {
  const auto grown = grown_map(map_of({host_of("n1", 4)}), map_of({host_of("n1", 8)}), unused);
  EXPECT_EQ(device_count(*find_host(grown, "n1")), 8u);
}

TEST(GrownMap, AHostKeepsItsGpusWhileNoneIsSeen) {
  Host gpus = host_of("n1", 2);
  for (Device& device : gpus.islands[0].devices) device.kind = DeviceKind::gpu;
  const auto kept = grown_map(map_of({gpus}), map_of({host_of("n1", 64)}), unused);
  EXPECT_EQ(device_count(*find_host(kept, "n1")), 2u);
  gpus.islands[0].devices.push_back(gpus.islands[0].devices.back());
  const auto more = grown_map(kept, map_of({gpus}), unused);
  EXPECT_EQ(device_count(*find_host(more, "n1")), 3u);
}

TEST(GrownMap, AHostKeepsItsDevicesWhileTheyAreUsedAndTakesNewLabels) {
  ClusterMap seen = map_of({host_of("n1", 8)});
  seen.pods[0].leaves[0].hosts[0].labels["feature/ib"] = "yes";
  const auto grown = grown_map(map_of({host_of("n1", 4)}), seen, used);
  EXPECT_EQ(device_count(*find_host(grown, "n1")), 4u);
  EXPECT_EQ(find_host(grown, "n1")->labels.size(), 1u);
}

TEST(GrownMap, TheSameHostsMakeTheSameMap) {
  const ClusterMap map = map_of({host_of("n1", 4), host_of("n2", 4)});
  EXPECT_EQ(grown_map(map, map, used), map);
}

}  // namespace
}  // namespace lockstep::map
