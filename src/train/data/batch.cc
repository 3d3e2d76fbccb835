#include "train/data/batch.h"

#include <algorithm>

#include "base/check.h"
#include "base/format.h"

namespace lockstep::train {
namespace {

// The start of part `index` of `parts`, when `count` items are divided as evenly as possible.
std::int64_t part_begin(std::int64_t count, std::int64_t index, std::int64_t parts) {
  return count / parts * index + std::min(index, count % parts);
}

std::int64_t ceil_divide(std::int64_t count, std::int64_t by) { return (count + by - 1) / by; }

}  // namespace

Result<std::vector<MicroBatch>> micro_batches_of(const BatchShape& shape, int rank, int ranks) {
  LS_CHECK(rank >= 0 && rank < ranks && shape.micro_batch_max >= 1);
  if (shape.global_batch < ranks)
    return Error{Code::invalid, format("a global batch of {} samples is too small for {} ranks: "
                                       "each computes one at least",
                                       shape.global_batch, ranks)};
  const auto micro_steps =
      ceil_divide(ceil_divide(shape.global_batch, ranks), shape.micro_batch_max);
  const auto first = part_begin(shape.global_batch, rank, ranks);
  const auto share = part_begin(shape.global_batch, rank + 1, ranks) - first;
  std::vector<MicroBatch> parts;
  for (std::int64_t i = 0; i < micro_steps; ++i) {
    const auto begin = first + part_begin(share, i, micro_steps);
    const auto end = first + part_begin(share, i + 1, micro_steps);
    const auto samples = end - begin;
    // A rank with fewer samples than others may have none left: it computes one again, with weight
    // 0.
    if (samples == 0)
      parts.push_back({first, first + 1, 0});
    else
      parts.push_back({begin, end,
                       static_cast<double>(samples * ranks * micro_steps) /
                           static_cast<double>(shape.global_batch)});
  }
  return parts;
}

}  // namespace lockstep::train
