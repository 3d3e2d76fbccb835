// Columns of whole numbers: steps and times.
//
// Method: delta-of-delta (Pelkonen et al., "Gorilla: a fast, scalable, in-memory time series
// database", VLDB 2015), with widths that fit the column instead of fixed ones. Numbers with a
// constant difference take a few bytes. Otherwise each block of 64 begins with its first number,
// and has for each further one the change of the difference, in one of three widths. So a block is
// decoded alone. Arithmetic is modulo 2^64: differences of any two numbers are representable.
//
// Cost: 63 changes of about 16 bits for times of a step of 350 ms with a deviation of 10 ms; a
// decoded number takes about 3 ns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

inline constexpr std::size_t kBlockPoints = 64;
inline constexpr std::size_t kChunkPoints = 4096;
inline constexpr std::size_t kChunkBlocks = kChunkPoints / kBlockPoints;

constexpr std::size_t blocks_of(std::size_t points) {
  return (points + kBlockPoints - 1) / kBlockPoints;
}

// 1 to 4,096 numbers, appended to `out`.
void encode_integers(std::span<const std::int64_t> numbers, std::string& out);

class IntegerColumn {
 public:
  // `bytes` must outlive the column. Code::corrupt if they are no column of `count` numbers.
  static Result<IntegerColumn> parse(ByteSpan bytes, std::size_t count);

  std::size_t size() const { return count_; }
  // The first number of a block.
  std::int64_t start(std::size_t block) const;
  // `out` has the size of the block: 64, or less for the last one.
  Result<void> decode_block(std::size_t block, std::span<std::int64_t> out) const;
  Result<void> decode(std::span<std::int64_t> out) const;
  Result<std::int64_t> at(std::size_t index) const;

 private:
  std::size_t block_size(std::size_t block) const;

  std::size_t count_ = 0;
  std::uint64_t nominal_ = 0;  // the constant difference, or the first one of each block
  bool constant_ = true;
  std::array<std::uint8_t, 3> widths_{};
  std::array<std::uint64_t, kChunkBlocks> starts_{};
  std::array<ByteSpan, kChunkBlocks> blocks_{};
};

}  // namespace lockstep::insight::series
