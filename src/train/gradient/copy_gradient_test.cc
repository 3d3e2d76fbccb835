#include "train/gradient/copy_gradient.h"

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::train::moves_test {
namespace {

struct Case {
  std::string words;
  at::Tensor to;
  at::Tensor from;
};

at::Tensor filled(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  return at::full(shape, 7, type);
}

// Through the cache and past it, of our arithmetic's types and of others, dense and not.
std::vector<Case> cases() {
  std::vector<Case> all;
  const std::vector<std::int64_t> small{3, 5};
  const std::vector<std::int64_t> large{1025, 1031};
  for (const auto& shape : {small, large})
    for (const auto type : {at::kFloat, at::kDouble})
      all.push_back({format("{} elements of {}", shape[0] * shape[1], toString(type)),
                     filled(shape, type), at::randn(shape, type)});
  all.push_back({"of 16 bits into 32", filled(small, at::kFloat), at::randn(small, at::kBFloat16)});
  all.push_back({"transposed", filled(large, at::kFloat), at::randn({1031, 1025}).t()});
  all.push_back({"sparse", filled(small, at::kFloat), at::randn(small).to_sparse()});
  all.push_back({"none", filled(large, at::kFloat), {}});
  return all;
}

at::Tensor expected(const Case& each) {
  if (!each.from.defined()) return at::zeros_like(each.to);
  return dense_form(each.from).to(each.to.scalar_type());
}

TEST(Moves, BringTheBitsThatTorchBrings) {
  for (const auto& each : cases()) {
    copy_gradient(each.to, each.from);
    EXPECT_TRUE(at::equal(each.to, expected(each))) << each.words;
  }
}

TEST(Moves, AddOnTheWayWhatTorchAdds) {
  for (const auto& each : cases()) {
    const auto more = at::randn(each.to.sizes(), each.to.scalar_type());
    copy_sum(each.to, each.from, more);
    EXPECT_TRUE(at::equal(each.to, expected(each) + more)) << each.words;
  }
}

TEST(Moves, DivideOnTheWayAsTorchDoesAndTellASum) {
  for (const auto& each : cases()) {
    const double sum = copy_divided(each.to, each.from, 24);
    EXPECT_TRUE(at::equal(each.to, expected(each) / 24)) << each.words;
    EXPECT_TRUE(std::isfinite(sum)) << each.words;
  }
}

TEST(Moves, InPlaceDivideAndElseChangeNothing) {
  for (const auto& each : cases()) {
    const auto before = each.to.clone();
    copy_gradient(each.to, each.to);
    EXPECT_TRUE(at::equal(each.to, before)) << each.words;
    copy_divided(each.to, each.to, 3);
    EXPECT_TRUE(at::equal(each.to, before / 3)) << each.words;
  }
}

TEST(Moves, TellASumThatIsNotFiniteWhereverAnElementIsNot) {
  for (const double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (const std::int64_t place : {0, 70'000, 1'199'999}) {
      const auto from = at::full({1'200'000}, 1.0, at::kFloat);
      from[place] = bad;
      EXPECT_FALSE(std::isfinite(copy_divided(filled({1'200'000}, at::kFloat), from, 2))) << place;
    }
}

}  // namespace
}  // namespace lockstep::train::moves_test
