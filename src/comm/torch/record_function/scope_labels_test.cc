#include "comm/torch/record_function/scope_labels.h"

#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include "comm/flight/label.h"

namespace lockstep::comm {
namespace {

TEST(ScopeLabels, AreTheUnitOfFsdpAndOfOthersTheWholeName) {
  EXPECT_EQ(label_of_scope("FSDP::all_gather (layers.7)"), "layers.7");
  EXPECT_EQ(label_of_scope("FSDP::root_pre_forward"), "FSDP::root_pre_forward");
  EXPECT_EQ(label_of_scope("FSDP::odd)"), "FSDP::odd)");
  EXPECT_EQ(label_of_scope("loss (of all)"), "loss (of all)");
  EXPECT_EQ(label_of_scope(""), "");
}

TEST(ScopeLabels, LastAsLongAsTheScope) {
  label_by_scopes();
  label_by_scopes();
  const FlightLabel label("outside");
  {
    RECORD_USER_SCOPE("FSDP::all_gather (layers.7)");
    EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("layers.7"));
    {
      RECORD_FUNCTION("aten::mul", std::vector<c10::IValue>());
      EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("layers.7"));
    }
    const FlightLabel inside("inside");
    EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("inside"));
  }
  EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("outside"));
}

TEST(ScopeLabels, AreNeitherCallsNorStepsOfAProfiler) {
  label_by_scopes();
  const FlightLabel label("outside");
  RECORD_USER_SCOPE("ProfilerStep#7");
  EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("outside"));
  at::RecordFunction call(at::RecordScope::USER_SCOPE);
  call._setAsync();
  call.before("gloo:all_reduce", c10::ArrayRef<const c10::IValue>());
  EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("outside"));
  call.end();
  EXPECT_EQ(FlightLabel::current(), FlightLabel::encode("outside"));
}

}  // namespace
}  // namespace lockstep::comm
