#include "platform/agent/external/visible_gpus.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::agent {
namespace {

using Gpus = std::vector<telemetry::GpuOfRun>;

Gpus named(std::string_view first, std::string_view second = "") {
  Gpus gpus;
  add_named_gpus(first, gpus);
  add_named_gpus(second, gpus);
  return gpus;
}

TEST(VisibleGpus, AreThoseOfAllRanksOnce) {
  EXPECT_EQ(named("3"), (Gpus{{3, ""}}));
  EXPECT_EQ(named("0,3", "3,1"), (Gpus{{0, ""}, {3, ""}, {1, ""}}));
  EXPECT_EQ(named("GPU-a,GPU-b", "GPU-b,GPU-c"), (Gpus{{0, "GPU-a"}, {1, "GPU-b"}, {2, "GPU-c"}}));
}

TEST(VisibleGpus, EndAtTheFirstWordThatNamesNone) {
  EXPECT_EQ(named(""), Gpus());
  EXPECT_EQ(named("-1,0"), Gpus());
  EXPECT_EQ(named("NoDevFiles"), Gpus());
  EXPECT_EQ(named("1,,2"), (Gpus{{1, ""}}));
  EXPECT_EQ(named("1,99999999999"), (Gpus{{1, ""}}));
  EXPECT_EQ(named("1,2000"), (Gpus{{1, ""}}));
}

TEST(VisibleGpus, OfAProcessThatIsGoneAreNone) {
  Gpus gpus;
  add_visible_gpus(-1, gpus);
  EXPECT_EQ(gpus, Gpus());
}

}  // namespace
}  // namespace lockstep::agent
