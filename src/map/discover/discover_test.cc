#include "map/discover/discover.h"

#include <numeric>
#include <span>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include "base/format.h"
#include "map/grid.h"
#include "map/map_file.h"
#include "map/query.h"
#include "map/tree.h"

namespace lockstep::map {
namespace {

using ::testing::HasSubstr;

TEST(Discover, ThisMachineIsOneHostWithDevicesAndMemory) {
  ClusterMap map = discover_local().value();
  EXPECT_TRUE(check(map));
  ASSERT_EQ(hosts(map).size(), 1u);
  const Host& host = *hosts(map).front();
  EXPECT_GT(device_count(host), 0u);
  EXPECT_GT(host.memory.value(), 64_MiB);
  EXPECT_GT(host.cores.value(), 0);
  EXPECT_TRUE(host.id.ends_with(boot_id().value().substr(0, 8)));
}

TEST(Discover, TwiceIsTheSame) { EXPECT_EQ(discover_local().value(), discover_local().value()); }

TEST(Discover, NoMoreCoresAreOfferedThanThisProcessMayUse) {
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  CPU_ZERO(&one);
  int first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  auto map = discover_local();
  ASSERT_EQ(::sched_setaffinity(0, sizeof before, &before), 0);
  EXPECT_EQ(hosts(map.value()).front()->cores, 1);
}

TEST(Discover, TheProcessorsOfAllCoresAreThoseThatThisProcessMayUse) {
  const ClusterMap map = discover_local().value();
  const int cores = hosts(map).front()->cores.value();
  std::vector<int> all(static_cast<std::size_t>(cores));
  std::iota(all.begin(), all.end(), 0);
  cpu_set_t usable;
  ASSERT_EQ(::sched_getaffinity(0, sizeof usable, &usable), 0);
  const auto processors = processors_of(DeviceKind::core, all).value();
  EXPECT_EQ(static_cast<int>(processors.size()), CPU_COUNT(&usable));
  for (const int processor : processors) EXPECT_TRUE(CPU_ISSET(processor, &usable)) << processor;
  const auto first = processors_of(DeviceKind::core, std::span(all).first(1)).value();
  EXPECT_FALSE(first.empty());
  EXPECT_EQ(first.size() < processors.size(), cores > 1);
  all.push_back(cores);
  const auto refused = processors_of(DeviceKind::core, all);
  EXPECT_EQ(refused.error().code, Code::not_found);
  EXPECT_THAT(refused.error().message, HasSubstr(format("core {}", cores)));
}

TEST(Discover, WhatIsFoundSurvivesItsFileAndCanBePresentedAsSeveralHosts) {
  ClusterMap map = discover_local().value();
  EXPECT_EQ(parse_map(dump_map(map), "map.yaml").value(), map) << dump_map(map);
  EXPECT_EQ(map_from_json(map_to_json(map)).value(), map);
  ClusterMap grid = split_host(map, {2, 2}).value();
  EXPECT_TRUE(check(grid));
  EXPECT_EQ(device_count(grid), 4u);
  EXPECT_EQ(hosts(grid)[1]->id, map.name + "-1");
}

}  // namespace
}  // namespace lockstep::map
