#include "train/data/batch.h"

#include <cmath>

#include <gtest/gtest.h>

namespace lockstep::train {
namespace {

// The loss of a sample, and the engine's result from the ranks' weighted means of it.
double loss_of_sample(std::int64_t sample) { return std::sin(1.7 * static_cast<double>(sample)); }

double mean_by_ranks(const BatchShape& shape, int ranks) {
  double over_ranks = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    const auto parts = micro_batches_of(shape, rank, ranks).value();
    double over_micro_steps = 0;
    for (const auto& part : parts) {
      double sum = 0;
      for (auto i = part.begin; i < part.end; ++i) sum += loss_of_sample(i);
      over_micro_steps += part.weight * sum / static_cast<double>(part.end - part.begin);
    }
    over_ranks += over_micro_steps / static_cast<double>(parts.size());
  }
  return over_ranks / ranks;
}

TEST(Batch, TheMeanOverUnevenSharesIsTheMeanOverSamples) {
  for (std::int64_t batch : {1, 4, 12, 16, 17})
    for (int ranks = 1; ranks <= 5 && ranks <= batch; ++ranks)
      for (std::int64_t at_once : {1, 2, 3, 100}) {
        const BatchShape shape{batch, at_once};
        EXPECT_NEAR(mean_by_ranks(shape, ranks), mean_by_ranks({batch, batch}, 1), 1e-12)
            << batch << " samples, " << ranks << " ranks, " << at_once << " at once";
      }
}

TEST(Batch, SharesAreAsEvenAsTheyCanBeAndNeverMoreAtOnceThanAllowed) {
  const BatchShape shape{16, 4};
  const auto first = micro_batches_of(shape, 0, 3).value(),
             last = micro_batches_of(shape, 2, 3).value();
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0], (MicroBatch{0, 3, 3 * 3 * 2 / 16.0}));
  EXPECT_EQ(first[1], (MicroBatch{3, 6, 3 * 3 * 2 / 16.0}));
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[0], (MicroBatch{11, 14, 3 * 3 * 2 / 16.0}));
  EXPECT_EQ(last[1], (MicroBatch{14, 16, 2 * 3 * 2 / 16.0}));
}

TEST(Batch, EqualSharesHaveTheWeightOne) {
  for (int rank = 0; rank < 4; ++rank)
    EXPECT_EQ(micro_batches_of({16, 4}, rank, 4).value(),
              (std::vector<MicroBatch>{{rank * 4, rank * 4 + 4, 1}}));
}

TEST(Batch, ARankWithoutASampleLeftComputesOneForNothing) {
  const auto last = micro_batches_of({4, 1}, 2, 3).value();
  ASSERT_EQ(last.size(), 2u);
  EXPECT_EQ(last[1], (MicroBatch{3, 4, 0}));
}

TEST(Batch, FewerSamplesThanRanksAreRefused) {
  EXPECT_EQ(micro_batches_of({2, 1}, 0, 3).error().code, Code::invalid);
}

}  // namespace
}  // namespace lockstep::train
