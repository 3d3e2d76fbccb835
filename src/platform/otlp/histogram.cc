#include "platform/otlp/histogram.h"

#include <algorithm>
#include <cmath>

namespace lockstep::otlp {
namespace {

bool has_values(const std::vector<double>& counts) {
  return std::ranges::any_of(counts, [](double count) { return count > 0; });
}

// Appends a bucket that begins at the last edge.
void append(Bins& bins, double end, double count) {
  bins.edges.push_back(end);
  bins.counts.push_back(count);
}

double power_of_base(const ExponentialBuckets& buckets, std::int64_t exponent) {
  return std::exp2(static_cast<double>(exponent) * std::exp2(-static_cast<double>(buckets.scale)));
}

void append_negative(const ExponentialBuckets& buckets, Bins& bins) {
  const auto& [offset, counts] = buckets.negative;
  bins.edges.push_back(-power_of_base(buckets, offset + std::ssize(counts)));
  for (std::int64_t i = std::ssize(counts); i-- > 0;)
    append(bins, -power_of_base(buckets, offset + i), counts[static_cast<std::size_t>(i)]);
}

// The values around zero, up to the first bucket of each side.
void append_zero(const ExponentialBuckets& buckets, Bins& bins) {
  const bool has_positive = !buckets.positive.counts.empty();
  const double threshold = buckets.zero_threshold > 0 ? buckets.zero_threshold : 0.5;
  if (bins.edges.empty()) bins.edges.push_back(has_positive ? 0 : -threshold);
  const double end = has_positive          ? power_of_base(buckets, buckets.positive.offset)
                     : bins.counts.empty() ? threshold
                                           : 0;
  append(bins, end, buckets.zero_count);
}

}  // namespace

std::optional<Bins> bins_of(const ExplicitBuckets& buckets) {
  const auto& [bounds, counts, min, max] = buckets;
  if (bounds.empty() || counts.size() != bounds.size() + 1 || !has_values(counts))
    return std::nullopt;
  const bool is_alone = bounds.size() == 1;
  Bins bins;
  if (counts.front() > 0) {
    const double width = is_alone ? 1 : bounds[1] - bounds[0];
    bins.edges.push_back(min && *min < bounds.front() ? *min : bounds.front() - width);
    append(bins, bounds.front(), counts.front());
  } else {
    bins.edges.push_back(bounds.front());
  }
  for (std::size_t i = 1; i < bounds.size(); ++i) append(bins, bounds[i], counts[i]);
  if (counts.back() > 0) {
    const double width = is_alone ? 1 : bounds.back() - bounds[bounds.size() - 2];
    append(bins, max && *max > bounds.back() ? *max : bounds.back() + width, counts.back());
  }
  return bins;
}

std::optional<Bins> bins_of(const ExponentialBuckets& buckets) {
  const auto& [offset, counts] = buckets.positive;
  if (buckets.zero_count <= 0 && !has_values(counts) && !has_values(buckets.negative.counts))
    return std::nullopt;
  Bins bins;
  if (!buckets.negative.counts.empty()) append_negative(buckets, bins);
  if (buckets.zero_count > 0 || (!bins.edges.empty() && !counts.empty()))
    append_zero(buckets, bins);
  if (bins.edges.empty()) bins.edges.push_back(power_of_base(buckets, offset));
  for (std::int64_t i = 0; i < std::ssize(counts); ++i)
    append(bins, power_of_base(buckets, offset + i + 1), counts[static_cast<std::size_t>(i)]);
  return bins;
}

}  // namespace lockstep::otlp
