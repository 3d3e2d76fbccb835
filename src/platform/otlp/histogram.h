// The buckets of OpenTelemetry's histograms as bins with finite edges.
// https://opentelemetry.io/docs/specs/otel/metrics/data-model/#histogram
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::otlp {

struct Bins {
  std::vector<double> edges{};  // ascending, one more than counts
  std::vector<double> counts{};

  bool operator==(const Bins&) const = default;
};

// One count more than bounds: the first bucket has no lower bound, the last one no upper bound.
struct ExplicitBuckets {
  std::vector<double> bounds{};
  std::vector<double> counts{};
  std::optional<double> min{};
  std::optional<double> max{};
};

// The bucket i of a side has the values from base^(offset + i) to base^(offset + i + 1), where base
// is 2^(2^-scale); negative values are beside.
struct ExponentialBuckets {
  struct Side {
    std::int64_t offset = 0;
    std::vector<double> counts{};
  };
  std::int64_t scale = 0;
  double zero_count = 0;
  double zero_threshold = 0;  // zero_count has the values up to it
  Side positive{};
  Side negative{};
};

// None: no value was counted, or the buckets say nothing. A bucket without a bound ends at the
// least or greatest value if the point has it, else it is as wide as the one beside it.
std::optional<Bins> bins_of(const ExplicitBuckets& buckets);
std::optional<Bins> bins_of(const ExponentialBuckets& buckets);

}  // namespace lockstep::otlp
