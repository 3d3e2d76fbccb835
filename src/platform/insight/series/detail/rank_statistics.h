// Statistics over the ranks of a run: for each step of one metric and attempt its mean, least and
// greatest value, its spread, and which rank has the least and the greatest.
//
// A rank counts once at each step, with the value that arrived last. The result depends on the
// values alone, not on the order in which ranks delivered them: the ranks are added in ascending
// order.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "platform/insight/series/detail/pieces.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

// The pieces of one metric and attempt, by rank.
using PiecesOfRanks = std::map<std::int32_t, std::vector<Piece>>;

// As PostgreSQL orders numbers: NaN is greater than all others, so that a rank with NaN is named as
// the greatest.
bool is_less(double a, double b);

// The values of one step, of ranks in ascending order.
class StepStatistics {
 public:
  // `sealed`: the rank has a sealed point of the step, too.
  void add(std::int32_t rank, const SeriesPoint& point, bool sealed);
  std::int64_t ranks() const { return ranks_; }
  std::int64_t sealed_ranks() const { return sealed_ranks_; }
  Time time() const { return time_; }  // when the last rank logged it
  double value_of(Statistic statistic) const;

 private:
  std::int64_t ranks_ = 0, sealed_ranks_ = 0;
  Time time_{};
  double min_ = 0, max_ = 0;
  std::int32_t min_rank_ = 0, max_rank_ = 0;
  // Finite values, by Welford (Technometrics 1962), which loses no digits.
  std::int64_t finite_ = 0;
  double mean_ = 0, squares_ = 0;
  double others_ = 0;  // the sum of NaN and infinities
};

// The steps of one metric and attempt that have points in memory.
class StepTable {
 public:
  // Ascending, without repetition.
  explicit StepTable(std::vector<std::int64_t> steps);

  // Ranks in ascending order. Points of other steps are skipped.
  void add(std::int32_t rank, std::span<const Piece> pieces, const Unreadable& unreadable);
  // Removes the step if fewer ranks with sealed points were added: those of others were removed.
  void require_sealed(std::int64_t step, std::int64_t ranks);
  const std::vector<std::int64_t>& steps() const { return steps_; }
  // By step, without removed ones.
  std::vector<SeriesPoint> points(Statistic statistic) const;

 private:
  std::vector<std::int64_t> steps_;
  std::vector<StepStatistics> statistics_;
  std::vector<bool> removed_;
};

// The steps of the pieces that are in the range, ascending, without repetition. All are in memory.
std::vector<std::int64_t> steps_of(const PiecesOfRanks& ranks, const StepRange& range);

}  // namespace lockstep::insight::series
