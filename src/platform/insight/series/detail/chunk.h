// Chunk: up to 4,096 points of one series and attempt, by step, as columns with their summaries.
//
// Points of the same step are in the order of arrival. The last one counts; the others are
// overridden, and are not in summaries and roll-ups.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/insight/series/codec/integers.h"
#include "platform/insight/series/series_store.h"

namespace lockstep::insight::series {

inline constexpr std::uint16_t kNoPoint = 0xffff;

// A chunk in the index of a segment, as it is stored. Positions `_at` of columns are in the
// segment, sizes in bytes; those of points are indices in the chunk.
struct ChunkEntry {
  std::int64_t first_step = 0;
  std::int64_t last_step = 0;
  double min = 0, max = 0;     // without NaN
  double first = 0, last = 0;  // values of the first and the last step
  double sum = 0;              // without NaN
  std::uint32_t count = 0;
  std::uint32_t distinct = 0;  // steps
  std::uint32_t nans = 0;
  std::uint16_t first_point = 0;  // the last point of the first step
  std::uint16_t min_point = kNoPoint;
  std::uint16_t max_point = kNoPoint;
  std::uint16_t nan_point = kNoPoint;  // the first NaN
  std::uint32_t values_size = 0;
  std::uint64_t steps_at = 0;
  std::uint64_t times_at = 0;
  std::uint64_t values_at = 0;
  std::uint64_t rollups_at = 0;
  std::uint32_t steps_size = 0;
  std::uint32_t times_size = 0;
  std::uint32_t rollups_size = 0;  // 0: there are none
  std::uint32_t unused = 0;
  std::uint64_t axes_hash = 0;  // of steps, then times
  std::uint64_t values_hash = 0;
  std::uint64_t rollups_hash = 0;
};
static_assert(sizeof(ChunkEntry) == 152);

struct EncodedChunk {
  ChunkEntry entry;  // without positions, sizes and hashes
  std::string steps, times, values, rollups;
};

// 1 to 4,096 points by step.
EncodedChunk encode_chunk(std::span<const SeriesPoint> points);

// The blocks of a chunk. Only chunks of several blocks without overridden points have roll-ups.
struct Rollups {
  static constexpr std::uint8_t kNone = 0xff;

  std::array<double, kChunkBlocks> min{}, max{}, first{}, last{};
  std::array<std::uint8_t, kChunkBlocks> min_point{}, max_point{}, nan_point{};  // in the block
};

void encode_rollups(std::span<const SeriesPoint> points, std::string& out);
// Code::corrupt if they are not those of so many blocks.
Result<Rollups> decode_rollups(ByteSpan bytes, std::size_t blocks);

}  // namespace lockstep::insight::series
