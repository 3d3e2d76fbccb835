#include "comm/reduction/reduction.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

template <class T>
std::vector<T> add(std::vector<T> a, const std::vector<T>& b, DataType type) {
  auto* data = reinterpret_cast<std::byte*>(a.data());
  combine(data, data, reinterpret_cast<const std::byte*>(b.data()), a.size(), type, ReduceOp::sum);
  return a;
}

// Every half plus some others, against the compiler's own type.
TEST(Reduction, HalvesAddAsTheCompilersDo) {
  std::vector<_Float16> every(1 << 16);
  for (std::uint32_t i = 0; i < every.size(); ++i)
    every[i] = std::bit_cast<_Float16>(static_cast<std::uint16_t>(i));
  for (const float other : {0.0f, 1.0f, -0x1p-24f, 0x1.7p-15f, 3.14159f, -777.0f, 65504.0f}) {
    const auto addend = static_cast<_Float16>(other);
    const auto sums = add(every, std::vector<_Float16>(every.size(), addend), DataType::float16);
    for (std::size_t i = 0; i < every.size(); ++i) {
      const auto expected =
          static_cast<_Float16>(static_cast<float>(every[i]) + static_cast<float>(addend));
      if (std::isnan(static_cast<float>(expected)))
        ASSERT_TRUE(std::isnan(static_cast<float>(sums[i]))) << i;
      else
        ASSERT_EQ(std::bit_cast<std::uint16_t>(sums[i]), std::bit_cast<std::uint16_t>(expected))
            << i << " + " << other;
    }
  }
}

TEST(Reduction, BrainFloatsRoundToNearestEvenAndKeepNaN) {
  // 1 + 2^-8 is half-way between 1 and the next one; 1 + 3 * 2^-8 between two others.
  EXPECT_EQ(add<std::uint16_t>({0x3f80}, {0x3b80}, DataType::bfloat16)[0], 0x3f80);
  EXPECT_EQ(add<std::uint16_t>({0x3f81}, {0x3b80}, DataType::bfloat16)[0], 0x3f82);
  EXPECT_EQ(add<std::uint16_t>({0x7f80}, {0xff80}, DataType::bfloat16)[0] & 0x7fff, 0x7fc0);
  EXPECT_EQ(add<std::uint16_t>({0x7f7f}, {0x7f7f}, DataType::bfloat16)[0], 0x7f80);
}

TEST(Reduction, IntegersWrapAround) {
  EXPECT_EQ(add<std::int32_t>({INT32_MAX}, {1}, DataType::int32)[0], INT32_MIN);
  EXPECT_EQ(add<std::uint8_t>({250}, {10}, DataType::uint8)[0], 4);
}

}  // namespace
}  // namespace lockstep
