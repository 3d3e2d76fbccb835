#include "platform/insight/series/detail/chunk.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "platform/insight/series/codec/values.h"

namespace lockstep::insight::series {
namespace {

// How roll-ups hold their values: offsets of decimals in 1, 2 or 4 bytes, floats, doubles.
enum class RollupForm : std::uint8_t { bytes, shorts, words, floats, doubles };

constexpr std::size_t kValuesOfBlock = 4;  // least, greatest, first, last
using RollupValues = std::array<double, kValuesOfBlock * kChunkBlocks>;

ChunkEntry summarized(std::span<const SeriesPoint> points) {
  ChunkEntry entry{.first_step = points.front().step,
                   .last_step = points.back().step,
                   .last = points.back().value,
                   .count = static_cast<std::uint32_t>(points.size())};
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i + 1 < points.size() && points[i + 1].step == points[i].step) continue;
    const double value = points[i].value;
    const auto at = static_cast<std::uint16_t>(i);
    if (entry.distinct++ == 0) {
      entry.first_point = at;
      entry.first = value;
    }
    if (std::isnan(value)) {
      if (entry.nans++ == 0) entry.nan_point = at;
      continue;
    }
    entry.sum += value;
    if (entry.min_point == kNoPoint || value < entry.min) {
      entry.min_point = at;
      entry.min = value;
    }
    if (entry.max_point == kNoPoint || value > entry.max) {
      entry.max_point = at;
      entry.max = value;
    }
  }
  return entry;
}

void add_block(std::span<const SeriesPoint> points, std::size_t block, Rollups& rollups) {
  rollups.first[block] = points.front().value;
  rollups.last[block] = points.back().value;
  rollups.min_point[block] = rollups.max_point[block] = rollups.nan_point[block] = Rollups::kNone;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double value = points[i].value;
    const auto at = static_cast<std::uint8_t>(i);
    if (std::isnan(value)) {
      if (rollups.nan_point[block] == Rollups::kNone) rollups.nan_point[block] = at;
      continue;
    }
    if (rollups.min_point[block] == Rollups::kNone || value < rollups.min[block]) {
      rollups.min_point[block] = at;
      rollups.min[block] = value;
    }
    if (rollups.max_point[block] == Rollups::kNone || value > rollups.max[block]) {
      rollups.max_point[block] = at;
      rollups.max[block] = value;
    }
  }
}

template <class Stored>
void put_offsets(std::span<const double> values, int scale, std::int64_t base, std::string& out) {
  for (const double value : values)
    put_fixed(out, static_cast<Stored>(decimal_of(value, scale) - base));
}

template <class Stored>
void take_offsets(ByteReader& reader, int scale, std::int64_t base, std::span<double> values) {
  for (double& value : values)
    value = value_of_decimal(
        static_cast<std::int64_t>(static_cast<std::uint64_t>(base) + reader.fixed<Stored>()),
        scale);
}

// Form, scale, base, values. False if they need more than 4 bytes.
bool put_decimals(std::span<const double> values, std::string& out) {
  const auto scale = decimal_scale(values);
  if (!scale) return false;
  std::int64_t least = decimal_of(values[0], *scale), greatest = least;
  for (const double value : values) {
    least = std::min(least, decimal_of(value, *scale));
    greatest = std::max(greatest, decimal_of(value, *scale));
  }
  const auto range = static_cast<std::uint64_t>(greatest - least);
  if (range > 0xffffffff) return false;
  const RollupForm form = range <= 0xff     ? RollupForm::bytes
                          : range <= 0xffff ? RollupForm::shorts
                                            : RollupForm::words;
  out.push_back(static_cast<char>(form));
  out.push_back(static_cast<char>(*scale));
  put_signed(out, least);
  if (form == RollupForm::bytes) put_offsets<std::uint8_t>(values, *scale, least, out);
  if (form == RollupForm::shorts) put_offsets<std::uint16_t>(values, *scale, least, out);
  if (form == RollupForm::words) put_offsets<std::uint32_t>(values, *scale, least, out);
  return true;
}

void put_rollup_values(std::span<const double> values, std::string& out) {
  if (put_decimals(values, out)) return;
  const bool floats = are_floats(values);
  out.push_back(static_cast<char>(floats ? RollupForm::floats : RollupForm::doubles));
  for (const double value : values)
    if (floats)
      put_fixed(out, static_cast<float>(value));
    else
      put_fixed(out, value);
}

void take_rollup_values(ByteReader& reader, std::span<double> values) {
  const auto form = static_cast<RollupForm>(reader.fixed<std::uint8_t>());
  if (form == RollupForm::floats) {
    for (double& value : values) value = static_cast<double>(reader.fixed<float>());
  } else if (form == RollupForm::doubles) {
    for (double& value : values) value = reader.fixed<double>();
  } else {
    const int scale = std::min<int>(reader.fixed<std::uint8_t>(), 9);
    const std::int64_t base = reader.signed_varint();
    if (form == RollupForm::bytes) take_offsets<std::uint8_t>(reader, scale, base, values);
    if (form == RollupForm::shorts) take_offsets<std::uint16_t>(reader, scale, base, values);
    if (form == RollupForm::words) take_offsets<std::uint32_t>(reader, scale, base, values);
  }
}

}  // namespace

EncodedChunk encode_chunk(std::span<const SeriesPoint> points) {
  LS_CHECK(!points.empty() && points.size() <= kChunkPoints);
  EncodedChunk chunk;
  chunk.entry = summarized(points);
  std::vector<std::int64_t> numbers(points.size());
  std::ranges::transform(points, numbers.begin(), &SeriesPoint::step);
  encode_integers(numbers, chunk.steps);
  std::ranges::transform(points, numbers.begin(),
                         [](const SeriesPoint& p) { return p.time.time_since_epoch().count(); });
  encode_integers(numbers, chunk.times);
  std::vector<double> values(points.size());
  std::ranges::transform(points, values.begin(), &SeriesPoint::value);
  encode_values(values, chunk.values);
  if (points.size() > kBlockPoints && chunk.entry.distinct == chunk.entry.count)
    encode_rollups(points, chunk.rollups);
  return chunk;
}

void encode_rollups(std::span<const SeriesPoint> points, std::string& out) {
  const std::size_t blocks = blocks_of(points.size());
  Rollups rollups;
  for (std::size_t block = 0; block < blocks; ++block) {
    const std::size_t begin = block * kBlockPoints;
    add_block(points.subspan(begin, std::min(kBlockPoints, points.size() - begin)), block, rollups);
  }
  RollupValues values;
  auto next = values.begin();
  for (const auto* each : {&rollups.min, &rollups.max, &rollups.first, &rollups.last})
    next = std::copy_n(each->begin(), blocks, next);
  put_rollup_values(std::span(values).first(kValuesOfBlock * blocks), out);
  for (const auto* each : {&rollups.min_point, &rollups.max_point, &rollups.nan_point})
    out.append(reinterpret_cast<const char*>(each->data()), blocks);
}

Result<Rollups> decode_rollups(ByteSpan bytes, std::size_t blocks) {
  LS_CHECK(blocks <= kChunkBlocks);
  ByteReader reader(bytes);
  RollupValues values{};
  take_rollup_values(reader, std::span(values).first(kValuesOfBlock * blocks));
  Rollups rollups;
  auto next = values.begin();
  for (auto* each : {&rollups.min, &rollups.max, &rollups.first, &rollups.last}) {
    std::copy_n(next, blocks, each->begin());
    next += static_cast<std::ptrdiff_t>(blocks);
  }
  bool valid = true;
  for (auto* each : {&rollups.min_point, &rollups.max_point, &rollups.nan_point})
    for (std::size_t block = 0; block < blocks; ++block) {
      (*each)[block] = reader.fixed<std::uint8_t>();
      valid &= (*each)[block] < kBlockPoints || (*each)[block] == Rollups::kNone;
    }
  if (!valid || !reader.ok() || !reader.rest().empty())
    return Error{Code::corrupt, "the roll-ups of a chunk are damaged"};
  return rollups;
}

}  // namespace lockstep::insight::series
