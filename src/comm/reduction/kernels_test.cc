// Every kernel of every instruction set that this processor has, against the serial answer.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "comm/reduction/reduction.h"
#include "comm/reduction/serial_for_test.h"

namespace lockstep::comm {
namespace {

constexpr std::byte kUntouched{0x5a};
constexpr std::size_t kMargin = 64;

// Memory with a margin on both sides, which begins at any element of a register.
class Operand {
 public:
  Operand(const Memory& content, std::size_t element, std::size_t skipped)
      : begin_(kMargin + skipped % 7 * element),
        size_(content.size()),
        memory_(begin_ + size_ + kMargin, kUntouched) {
    std::copy(content.begin(), content.end(), memory_.begin() + static_cast<long>(begin_));
  }
  std::byte* data() { return memory_.data() + begin_; }
  Memory content() const {
    const auto first = memory_.begin() + static_cast<long>(begin_);
    return {first, first + static_cast<long>(size_)};
  }
  bool margins_are_untouched() const {
    const auto own = [](std::byte byte) { return byte == kUntouched; };
    return std::all_of(memory_.begin(), memory_.begin() + static_cast<long>(begin_), own) &&
           std::all_of(memory_.end() - kMargin, memory_.end(), own);
  }

 private:
  std::size_t begin_, size_;
  Memory memory_;
};

// Zeros, infinities, NaNs of both kinds and signs, denormals, the largest and the smallest.
std::vector<std::uint64_t> specials_of(DataType type) {
  switch (type) {
    case DataType::float16:
      return {0, 0x8000, 0x7c00, 0xfc00, 0x7e01, 0xfe00, 0x7c01, 0xfd55, 1, 0x83ff, 0x7bff, 0x400};
    case DataType::bfloat16:
      return {0, 0x8000, 0x7f80, 0xff80, 0x7fc1, 0xffc0, 0x7f81, 0xffa5, 1, 0x807f, 0x7f7f, 0x80};
    case DataType::float32:
      return {0,          0x80000000, 0x7f800000, 0xff800000, 0x7fc00001, 0xffc00000,
              0x7f800001, 0xffa00005, 1,          0x807fffff, 0x7f7fffff, 0x00800000};
    case DataType::float64:
      return {0,
              0x8000000000000000,
              0x7ff0000000000000,
              0xfff0000000000000,
              0x7ff8000000000001,
              0xfff8000000000000,
              0x7ff0000000000001,
              1,
              0x800fffffffffffff,
              0x7fefffffffffffff};
    default:
      return {0, 1, ~0ull, 1ull << 63, 1ull << 31, ~0ull >> 1, 0x7fffffff, 0x80};
  }
}

// Random bits; one element in four is special.
Memory random_content(Random& random, DataType type, std::size_t count) {
  const auto specials = specials_of(type);
  const auto element = size_of(type);
  Memory content(count * element);
  for (std::size_t at = 0; at < content.size(); at += element) {
    auto bits = random.next();
    if (random.below(4) == 0) bits = specials[random.below(specials.size())];
    std::memcpy(content.data() + at, &bits, element);
  }
  return content;
}

std::vector<Memory> random_sources(const ReductionSpec& reduction, std::size_t sources,
                                   std::size_t count) {
  Random random(sources * 1000 + count);
  std::vector<Memory> all(sources);
  for (auto& source : all) source = random_content(random, reduction.type, count);
  return all;
}

std::vector<ReductionSpec> reductions() {
  std::vector<ReductionSpec> all;
  for (const auto type : kReducedTypes)
    for (const auto op : kReduceOps)
      if (is_defined(op, type)) all.push_back({type, op, op == ReduceOp::average ? 3 : 1});
  return all;
}

std::string name_of(InstructionSet set, const ReductionSpec& reduction, std::size_t sources,
                    std::size_t count) {
  return format("{} {} of {} {} with {}", text(reduction.op), sources, count, text(reduction.type),
                text(set));
}

// Reduces into separate memory, `destinations` times, and compares.
void check(InstructionSet set, const ReductionSpec& reduction, const std::vector<Memory>& contents,
           std::size_t destinations) {
  const auto element = size_of(reduction.type), bytes = contents[0].size();
  std::vector<Operand> in, out;
  std::vector<const std::byte*> from;
  std::vector<std::byte*> to;
  for (std::size_t k = 0; k < contents.size(); ++k) in.emplace_back(contents[k], element, k);
  for (std::size_t k = 0; k < destinations; ++k)
    out.emplace_back(Memory(bytes, kUntouched), element, 3 * k + 1);
  for (auto& operand : in) from.push_back(operand.data());
  for (auto& operand : out) to.push_back(operand.data());

  reduce_with(set, to, from, bytes / element, reduction);

  const auto expected = serial(contents, reduction);
  for (const auto& operand : out) {
    ASSERT_EQ(operand.content(), expected);
    ASSERT_TRUE(operand.margins_are_untouched());
  }
  for (std::size_t k = 0; k < in.size(); ++k) ASSERT_EQ(in[k].content(), contents[k]);
}

TEST(Kernels, EveryInstructionSetGivesTheBitsOfTheSerialAnswer) {
  constexpr std::size_t kCounts[] = {1, 2, 3, 7, 31, 67, 271};
  for (const auto set : instruction_sets())
    for (const auto& reduction : reductions())
      for (std::size_t sources = 1; sources <= 9; ++sources)
        for (const auto count : kCounts) {
          SCOPED_TRACE(name_of(set, reduction, sources, count));
          check(set, reduction, random_sources(reduction, sources, count), 1 + sources % 3);
          if (HasFatalFailure()) return;
        }
}

TEST(Kernels, EveryHalfAndBrainFloatIsAddedAndRoundedAsTheSerialOne) {
  constexpr std::uint16_t kOthers[] = {0x0000, 0x0001, 0x3c00, 0x3b80, 0x83ff, 0x7bff};
  Memory every;
  for (std::uint32_t bits = 0; bits < 1 << 16; ++bits) {
    every.push_back(static_cast<std::byte>(bits & 0xff));
    every.push_back(static_cast<std::byte>(bits >> 8));
  }
  for (const auto set : instruction_sets())
    for (const auto type : {DataType::float16, DataType::bfloat16})
      for (const std::uint16_t other : kOthers) {
        Memory others(every.size());
        for (std::size_t at = 0; at < others.size(); at += sizeof other)
          std::memcpy(others.data() + at, &other, sizeof other);
        SCOPED_TRACE(format("{} with {}, plus {:x}", text(type), text(set), other));
        check(set, {type, ReduceOp::sum}, {every, others}, 1);
        if (HasFatalFailure()) return;
      }
}

TEST(Kernels, AsManyOperandsAsMayBeAreReduced) {
  for (const auto set : instruction_sets())
    for (const auto type : kReducedTypes) {
      const ReductionSpec reduction = {type, ReduceOp::sum};
      SCOPED_TRACE(name_of(set, reduction, kReductionOperands, 150));
      check(set, reduction, random_sources(reduction, kReductionOperands, 150), kReductionOperands);
      if (HasFatalFailure()) return;
    }
}

TEST(Kernels, ResultsMayReplaceTheSources) {
  constexpr std::size_t kCount = 301, kSources = 5;
  for (const auto set : instruction_sets())
    for (const auto& reduction : reductions()) {
      const auto contents = random_sources(reduction, kSources, kCount);
      std::vector<Operand> operands;
      std::vector<std::byte*> pointers;
      for (std::size_t k = 0; k < kSources; ++k)
        operands.emplace_back(contents[k], size_of(reduction.type), k);
      for (auto& operand : operands) pointers.push_back(operand.data());
      const std::vector<const std::byte*> sources(pointers.begin(), pointers.end());

      reduce_with(set, pointers, sources, kCount, reduction);

      for (const auto& operand : operands)
        ASSERT_EQ(operand.content(), serial(contents, reduction))
            << name_of(set, reduction, kSources, kCount);
    }
}

TEST(Kernels, StoresPastTheCacheGiveTheSameBitsHoweverDestinationsAreAligned) {
  constexpr std::size_t kRoom = 4096, kSources = 3;
  constexpr std::size_t kSkipped[][2] = {{0, 0}, {1, 1}, {5, 5}, {0, 1}};  // elements
  alignas(kMargin) std::array<std::byte, 2 * kRoom> memory;
  for (const auto set : instruction_sets())
    for (auto reduction : reductions())
      for (const std::size_t count : {3U, 301U})
        for (const auto& skipped : kSkipped) {
          const auto contents = random_sources(reduction, kSources, count);
          const auto element = size_of(reduction.type);
          std::vector<const std::byte*> sources;
          for (const auto& content : contents) sources.push_back(content.data());
          std::byte* destinations[2];
          for (std::size_t k = 0; k < 2; ++k)
            destinations[k] = memory.data() + k * kRoom + kMargin + skipped[k] * element;
          memory.fill(kUntouched);
          reduction.store_mode = StoreMode::non_temporal;

          reduce_with(set, destinations, sources, count, reduction);

          const auto expected = serial(contents, reduction);
          SCOPED_TRACE(name_of(set, reduction, kSources, count));
          for (const auto* destination : destinations) {
            ASSERT_TRUE(std::equal(expected.begin(), expected.end(), destination));
            ASSERT_EQ(destination[-1], kUntouched);
            ASSERT_EQ(destination[count * element], kUntouched);
          }
        }
}

TEST(Kernels, NothingIsTouchedWhenThereIsNothing) {
  std::byte untouched = kUntouched;
  std::byte* destination = &untouched;
  const std::byte* source = &untouched;
  for (const auto set : instruction_sets())
    for (const auto& reduction : reductions())
      reduce_with(set, {&destination, 1}, {&source, 1}, 0, reduction);
  EXPECT_EQ(untouched, kUntouched);
}

}  // namespace
}  // namespace lockstep::comm
