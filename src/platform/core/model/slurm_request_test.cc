#include "platform/core/model/slurm_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "platform/core/model/slurm_labels.h"

namespace lockstep::model {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string complaint_about(const SlurmRequest& request) {
  const auto checked = check(request);
  return checked ? "" : checked.error().message;
}
std::string complaint_about_option(const std::string& option) {
  return complaint_about({.options = {{option}}});
}

TEST(SlurmRequest, WordsAndFurtherOptionsAreTaken) {
  EXPECT_EQ(complaint_about({.account = "team",
                             .qos = "high",
                             .constraint = "a100&nvlink",
                             .partition = "gpu",
                             .switches = "1@10:00",
                             .options = {{"--reservation=night", "--exclusive", "--mem=0"}}}),
            "");
}

TEST(SlurmRequest, AFieldIsOneWord) {
  EXPECT_THAT(complaint_about({.account = "a b"}), StartsWith("account: must be one word"));
  EXPECT_THAT(complaint_about({.partition = ""}), StartsWith("partition: "));
  EXPECT_THAT(complaint_about({.qos = "--uid=0"}), StartsWith("qos: "));
  EXPECT_THAT(complaint_about({.switches = "1\n2"}), StartsWith("switches: "));
  for (const char* switches : {"x", "1@", "@10", "1@soon", "1x"})
    EXPECT_THAT(complaint_about({.switches = switches}), StartsWith("switches: ")) << switches;
}

TEST(SlurmRequest, APartitionIsOne) {
  EXPECT_THAT(complaint_about({.partition = "a,b"}), HasSubstr("write one"));
}

TEST(SlurmRequest, AnOptionThatLockstepSetsIsRefusedWithWhatToWrite) {
  EXPECT_THAT(complaint_about_option("--nodelist=n1"), HasSubstr("Lockstep chooses the hosts"));
  EXPECT_THAT(complaint_about_option("--time=5"), HasSubstr("write timeout of the run"));
  EXPECT_THAT(complaint_about_option("--partition=x"), HasSubstr("write slurm: partition"));
}

// sbatch takes --nodel for --nodelist.
TEST(SlurmRequest, TheBeginningOfARefusedOptionIsRefused) {
  EXPECT_THAT(complaint_about_option("--nodel=n1"), StartsWith("options: --nodelist"));
  EXPECT_THAT(complaint_about_option("--ui=0"), StartsWith("options: --uid"));
}

TEST(SlurmRequest, AShortOptionIsRefused) {
  EXPECT_THAT(complaint_about_option("-N4"), HasSubstr("write the long form"));
  EXPECT_THAT(complaint_about_option("--"), HasSubstr("write the long form"));
  EXPECT_THAT(complaint_about_option("script.sh"), HasSubstr("write the long form"));
}

TEST(SlurmRequest, ATypeOfGpusIsOneWordAndALabelOfHosts) {
  EXPECT_EQ(labels_of({.gpu_type = "h100"}), (map::Labels{{"gpu-type/h100", "yes"}}));
  EXPECT_THAT(complaint_about({.gpu_type = "h100:4"}), StartsWith("gpu_type: "));
  EXPECT_THAT(complaint_about({.gpu_type = ""}), StartsWith("gpu_type: "));
}

TEST(SlurmRequest, AConstraintIsAListOfFeatures) {
  EXPECT_THAT(features_of("a100&nvlink,ib").value(), ElementsAre("a100", "nvlink", "ib"));
  EXPECT_THAT(complaint_about({.constraint = "a100|v100"}),
              AllOf(StartsWith("constraint: "), HasSubstr("joined by &")));
  EXPECT_THAT(complaint_about({.constraint = "[rack1*2]"}), StartsWith("constraint: "));
}

}  // namespace
}  // namespace lockstep::model
