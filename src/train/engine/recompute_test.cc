// A block that runs again in backward, without the other parts of the engine.
#include "train/engine/recompute.h"

#include <vector>

#include <ATen/autocast_mode.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::train::recompute_test {
namespace {

using ::testing::ElementsAre;

class BfloatAutocast {
 public:
  BfloatAutocast() {
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::set_autocast_enabled(at::kCPU, true);
  }
  ~BfloatAutocast() {
    at::autocast::set_autocast_enabled(at::kCPU, false);
    at::autocast::clear_cache();
  }
  BfloatAutocast(const BfloatAutocast&) = delete;
  BfloatAutocast& operator=(const BfloatAutocast&) = delete;
};

// A block with one parameter, and the type of its result in each forward.
struct Block {
  at::Tensor run() {
    const auto forward = [this](const std::vector<at::Tensor>& inputs) {
      auto result = at::linear(inputs.front(), weight);
      types.push_back(result.scalar_type());
      return result;
    };
    return run_recomputed({at::ones({1, 2})}, /*trainable=*/true, at::kCPU,
                          {.forward = forward, .begin = [] {}, .end = nullptr});
  }

  at::Tensor weight = at::ones({2, 2}).requires_grad_();
  std::vector<at::ScalarType> types = {};
};

TEST(Recompute, RepeatsTheAutocastModeOfTheForward) {
  Block block;
  at::Tensor output;
  {
    const BfloatAutocast autocast;
    output = block.run();
  }
  output.sum().backward();
  EXPECT_THAT(block.types, ElementsAre(at::kBFloat16, at::kBFloat16));
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  EXPECT_TRUE(block.weight.grad().equal(at::ones({2, 2})));
}

TEST(Recompute, RepeatsThatAutocastWasOff) {
  Block block;
  const auto output = block.run();
  const BfloatAutocast autocast;
  output.sum().backward();
  EXPECT_THAT(block.types, ElementsAre(at::kFloat, at::kFloat));
  EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
}

}  // namespace
}  // namespace lockstep::train::recompute_test
