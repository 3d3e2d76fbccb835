// Writes curves of an ended run straight into the series of a daemon that is stopped.
//
//   bench_write_curves FOLDER RUN METRICS RANKS STEPS
//
// The metrics are those of the case charts of `./dev bench page`: group0/metric0, group1/metric1...
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numbers>

#include "base/format.h"
#include "base/random.h"
#include "platform/insight/series/folder_series.h"

namespace lockstep::bench {
namespace {

using namespace insight;

constexpr std::int64_t kStart = 1'700'000'000'000'000, kStepMicros = 350'000;
constexpr int kGroups = 5;
// Steps of one batch: about 40,000 points with 50 metrics of 8 ranks.
constexpr int kAtOnce = 100;

struct Shape {
  int metrics = 0, ranks = 0, steps = 0;
};

PointBatch batch_of(const model::RunId& run, const Shape& shape, int begin, Random& random) {
  PointBatch batch{.attempt = {run, 1}, .source = {}, .series = {}, .points = {}};
  for (int rank = 0; rank < shape.ranks; ++rank)
    for (int metric = 0; metric < shape.metrics; ++metric)
      batch.series.push_back(
          {format("group{}/metric{}", metric % kGroups, metric), RunPart::rank, rank});
  const int end = std::min(begin + kAtOnce, shape.steps);
  for (int step = begin; step < end; ++step) {
    const Time time(Duration(kStart + step * kStepMicros));
    const double wave = std::sin(step * 2 * std::numbers::pi / 5000);
    for (std::uint32_t series = 0; series < batch.series.size(); ++series) {
      const double value = wave + random.uniform() + series % 7;
      batch.points.push_back(
          {series, {step, time, static_cast<double>(static_cast<float>(value))}});
    }
  }
  return batch;
}

void write(const std::filesystem::path& folder, const model::RunId& run, const Shape& shape) {
  // Points come faster than a busy machine seals them.
  const auto store = open_folder_series(folder, {.wait = std::chrono::minutes(10)}).value();
  Random random(1);
  for (int step = 0; step < shape.steps; step += kAtOnce)
    (void)store->append(batch_of(run, shape, step, random)).value();
  store->sync().value();
}

}  // namespace
}  // namespace lockstep::bench

int main(int count, char** words) {
  using namespace lockstep;
  if (count != 6) {
    std::fprintf(stderr, "usage: bench_write_curves FOLDER RUN METRICS RANKS STEPS\n");
    return 2;
  }
  bench::write(words[1], model::parse_run_id(words[2]).value(),
               {std::atoi(words[3]), std::atoi(words[4]), std::atoi(words[5])});
  return 0;
}
