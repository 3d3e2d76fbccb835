#include "comm/fabric/address/link_speed.h"

#include <gtest/gtest.h>

#include "base/os/files.h"
#include "base/temporary_folder_for_test.h"

namespace lockstep::comm {
namespace {

TEST(LinkSpeed, IsWhatTheKernelSaysOfTheInterfaceIfItKnows) {
  const TemporaryFolder folder;
  const auto said = [&](const std::string& words) {
    EXPECT_TRUE(make_folders(folder / "eth0"));
    EXPECT_TRUE(write_file(folder / "eth0" / "speed", words));
    return link_speed("eth0", folder);
  };
  EXPECT_EQ(said("1000\n"), 1_Gbit);
  EXPECT_EQ(said("400000\n"), 400_Gbit);
  for (const auto* unknown : {"-1\n", "0\n", "", "fast\n", "4294967295\n"})
    EXPECT_EQ(said(unknown), std::nullopt) << unknown;
  EXPECT_EQ(link_speed("eth1", folder), std::nullopt);
}

TEST(LinkSpeed, NobodyKnowsThatOfLoopback) { EXPECT_EQ(link_speed("lo"), std::nullopt); }

}  // namespace
}  // namespace lockstep::comm
