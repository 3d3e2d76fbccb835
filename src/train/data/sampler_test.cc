#include "train/data/sampler.h"

#include <algorithm>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// Each batch of the run, in order of samples, as so many ranks get it together.
std::vector<std::vector<std::int64_t>> batches(int ranks, int count, Sampler::State from = {7, 0}) {
  std::vector<std::vector<std::int64_t>> all(static_cast<std::size_t>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    auto sampler = Sampler::create(101, 8, 7).value();
    EXPECT_TRUE(sampler.restore(from));
    for (auto& batch : all) {
      const auto share = sampler.next(rank, ranks).value();
      batch.insert(batch.end(), share.begin(), share.end());
    }
  }
  return all;
}

TEST(Sampler, BatchesDoNotDependOnTheNumberOfRanks) {
  EXPECT_EQ(batches(1, 30), batches(2, 30));
  EXPECT_EQ(batches(1, 30), batches(4, 30));
}

TEST(Sampler, EverySampleComesOnceAnEpoch) {
  const auto all = batches(1, 101);  // eight epochs
  std::vector<int> seen(101);
  for (const auto& batch : all)
    for (auto sample : batch) ++seen[static_cast<std::size_t>(sample)];
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 8; }));
}

TEST(Sampler, EpochsAndSeedsHaveOrdersOfTheirOwn) {
  auto one = Sampler::create(1000, 1000, 1).value();
  auto two = Sampler::create(1000, 1000, 2).value();
  const auto first = one.next(0, 1).value();
  EXPECT_NE(first, one.next(0, 1).value());
  EXPECT_NE(first, two.next(0, 1).value());
}

TEST(Sampler, ItGoesOnExactlyWhereItsStateWasTaken) {
  auto sampler = Sampler::create(101, 8, 7).value();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(sampler.next(0, 1));
  const auto rest = batches(4, 10, sampler.state());
  const auto whole = batches(1, 15);
  EXPECT_TRUE(std::equal(rest.begin(), rest.end(), whole.begin() + 5));
}

TEST(Sampler, ABatchStaysTheNextUntilItIsTaken) {
  auto sampler = Sampler::create(101, 8, 7).value(), other = sampler;
  const auto batch = other.next(0, 1).value();
  EXPECT_EQ(sampler.peek(2, 5), (std::vector(batch.begin() + 2, batch.begin() + 5)));
  EXPECT_EQ(sampler.peek(0, 8), batch);
  sampler.advance();
  EXPECT_EQ(sampler.state(), other.state());
}

TEST(Sampler, TinyDataSetsWork) {
  auto sampler = Sampler::create(1, 4, 3).value();
  EXPECT_EQ(sampler.next(0, 2).value(), (std::vector<std::int64_t>{0, 0}));
}

TEST(Sampler, WhatDoesNotDivideIsRefused) {
  auto sampler = Sampler::create(100, 8, 7).value();
  EXPECT_EQ(sampler.next(0, 3).error().code, Code::invalid);
  EXPECT_EQ(Sampler::create(0, 8, 7).error().code, Code::invalid);
  EXPECT_EQ(Sampler::create(10, 0, 7).error().code, Code::invalid);
  EXPECT_EQ(sampler.restore({1, -5}).error().code, Code::corrupt);
}

}  // namespace
}  // namespace lockstep::train
