#include "platform/insight/series/codec/integers.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "base/check.h"

namespace lockstep::insight::series {
namespace {

// The form of a column: its first byte.
constexpr std::uint8_t kConstant = 0, kBlocks = 1;

using Histogram = std::array<std::uint32_t, 65>;  // by width in bits

Error damaged_integers() { return {Code::corrupt, "a column of steps or times is damaged"}; }

// The smallest total: prefixes of 1, 2 and 2 bits.
std::array<std::uint8_t, 3> best_widths(const Histogram& histogram) {
  unsigned largest = 64;
  while (largest > 0 && histogram[largest] == 0) --largest;
  std::array<std::uint64_t, 66> below{};  // number of values narrower than the index
  for (unsigned width = 0; width <= 64; ++width) below[width + 1] = below[width] + histogram[width];
  std::array<std::uint8_t, 3> best{};
  std::uint64_t best_bits = std::numeric_limits<std::uint64_t>::max();
  for (unsigned first = 0; first <= largest; ++first) {
    if (histogram[first] == 0 && first != 0) continue;
    for (unsigned second = first; second <= largest; ++second) {
      if (histogram[second] == 0 && second != first) continue;
      const std::uint64_t bits = below[first + 1] * (1 + first) +
                                 (below[second + 1] - below[first + 1]) * (2 + second) +
                                 (below[largest + 1] - below[second + 1]) * (2 + largest);
      if (bits >= best_bits) continue;
      best_bits = bits;
      best = {static_cast<std::uint8_t>(first), static_cast<std::uint8_t>(second),
              static_cast<std::uint8_t>(largest)};
    }
  }
  return best;
}

void put_change(BitWriter& bits, const std::array<std::uint8_t, 3>& widths, std::uint64_t change) {
  const auto width = static_cast<unsigned>(std::bit_width(change));
  if (width <= widths[0]) {
    bits.put(0, 1);
    bits.put(change, widths[0]);
  } else if (width <= widths[1]) {
    bits.put(1, 2);
    bits.put(change, widths[1]);
  } else {
    bits.put(3, 2);
    bits.put(change, widths[2]);
  }
}

// The zigzag changes of the difference; those of each block's first difference are against
// `nominal`. The first number of a block has none (0).
void changes_of(std::span<const std::int64_t> numbers, std::uint64_t nominal,
                std::span<std::uint64_t> changes) {
  std::uint64_t difference = nominal;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    changes[i] = 0;
    if (i % kBlockPoints == 0) {
      difference = nominal;
      continue;
    }
    const auto now =
        static_cast<std::uint64_t>(numbers[i]) - static_cast<std::uint64_t>(numbers[i - 1]);
    changes[i] = zigzag(now - difference);
    difference = now;
  }
}

bool has_constant_difference(std::span<const std::int64_t> numbers) {
  if (numbers.size() < 3) return true;
  const auto difference = [&](std::size_t i) {
    return static_cast<std::uint64_t>(numbers[i]) - static_cast<std::uint64_t>(numbers[i - 1]);
  };
  for (std::size_t i = 2; i < numbers.size(); ++i)
    if (difference(i) != difference(1)) return false;
  return true;
}

// The mean difference, if it can be computed without overflow.
std::uint64_t mean_difference(std::span<const std::int64_t> numbers) {
  std::int64_t range = 0;
  if (__builtin_sub_overflow(numbers.back(), numbers.front(), &range)) return 0;
  return static_cast<std::uint64_t>(range / static_cast<std::int64_t>(numbers.size() - 1));
}

}  // namespace

void encode_integers(std::span<const std::int64_t> numbers, std::string& out) {
  LS_CHECK(!numbers.empty() && numbers.size() <= kChunkPoints);
  const auto number = [&](std::size_t i) { return static_cast<std::uint64_t>(numbers[i]); };
  if (has_constant_difference(numbers)) {
    out.push_back(static_cast<char>(kConstant));
    put_varint(out, zigzag(number(0)));
    put_varint(out, zigzag(numbers.size() > 1 ? number(1) - number(0) : 0));
    return;
  }
  const std::uint64_t nominal = mean_difference(numbers);
  std::array<std::uint64_t, kChunkPoints> changes;
  changes_of(numbers, nominal, changes);
  Histogram histogram{};
  for (std::size_t i = 0; i < numbers.size(); ++i)
    if (i % kBlockPoints != 0) ++histogram[static_cast<unsigned>(std::bit_width(changes[i]))];
  const auto widths = best_widths(histogram);
  out.push_back(static_cast<char>(kBlocks));
  for (const std::uint8_t width : widths) out.push_back(static_cast<char>(width));
  put_varint(out, zigzag(nominal));
  std::uint64_t expected = 0;
  std::string bits;
  for (std::size_t begin = 0; begin < numbers.size(); begin += kBlockPoints) {
    put_varint(out, zigzag(number(begin) - expected));
    expected = number(begin) + kBlockPoints * nominal;
    bits.clear();
    BitWriter writer(bits);
    const std::size_t end = std::min(numbers.size(), begin + kBlockPoints);
    for (std::size_t i = begin + 1; i < end; ++i) put_change(writer, widths, changes[i]);
    writer.finish();
    put_varint(out, bits.size());
    out += bits;
  }
}

Result<IntegerColumn> IntegerColumn::parse(ByteSpan bytes, std::size_t count) {
  if (count == 0 || count > kChunkPoints) return damaged_integers();
  IntegerColumn column;
  column.count_ = count;
  ByteReader reader(bytes);
  const auto form = reader.fixed<std::uint8_t>();
  if (form > kBlocks) return damaged_integers();
  column.constant_ = form == kConstant;
  if (column.constant_) {
    column.starts_[0] = unzigzag(reader.varint());
    column.nominal_ = unzigzag(reader.varint());
  } else {
    column.widths_ = reader.fixed<std::array<std::uint8_t, 3>>();
    if (std::ranges::max(column.widths_) > 64) return damaged_integers();
    column.nominal_ = unzigzag(reader.varint());
    std::uint64_t expected = 0;
    for (std::size_t block = 0; block < blocks_of(count) && reader.ok(); ++block) {
      column.starts_[block] = expected + unzigzag(reader.varint());
      expected = column.starts_[block] + kBlockPoints * column.nominal_;
      column.blocks_[block] = reader.take(reader.varint());
    }
  }
  if (!reader.ok() || !reader.rest().empty()) return damaged_integers();
  return column;
}

std::size_t IntegerColumn::block_size(std::size_t block) const {
  return std::min(kBlockPoints, count_ - block * kBlockPoints);
}

std::int64_t IntegerColumn::start(std::size_t block) const {
  LS_CHECK(block < blocks_of(count_));
  return static_cast<std::int64_t>(constant_ ? starts_[0] + nominal_ * (block * kBlockPoints)
                                             : starts_[block]);
}

Result<void> IntegerColumn::decode_block(std::size_t block, std::span<std::int64_t> out) const {
  LS_CHECK(block < blocks_of(count_) && out.size() == block_size(block));
  auto number = static_cast<std::uint64_t>(start(block));
  std::uint64_t difference = nominal_;
  out[0] = static_cast<std::int64_t>(number);
  if (constant_) {
    for (std::size_t i = 1; i < out.size(); ++i)
      out[i] = static_cast<std::int64_t>(number += difference);
    return {};
  }
  BitReader bits(blocks_[block]);
  for (std::size_t i = 1; i < out.size(); ++i) {
    const unsigned width = bits.get(1) == 0 ? widths_[0] : widths_[1 + bits.get(1)];
    difference += unzigzag(bits.get(width));
    out[i] = static_cast<std::int64_t>(number += difference);
  }
  if (!bits.ok()) return damaged_integers();
  return {};
}

Result<void> IntegerColumn::decode(std::span<std::int64_t> out) const {
  LS_CHECK(out.size() == count_);
  for (std::size_t block = 0; block < blocks_of(count_); ++block)
    TRY(decode_block(block, out.subspan(block * kBlockPoints, block_size(block))));
  return {};
}

Result<std::int64_t> IntegerColumn::at(std::size_t index) const {
  LS_CHECK(index < count_);
  if (constant_) return static_cast<std::int64_t>(starts_[0] + nominal_ * index);
  const std::size_t block = index / kBlockPoints;
  std::array<std::int64_t, kBlockPoints> numbers;
  TRY(decode_block(block, std::span(numbers).first(block_size(block))));
  return numbers[index % kBlockPoints];
}

}  // namespace lockstep::insight::series
