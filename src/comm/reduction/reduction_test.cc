#include "comm/reduction/reduction.h"

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

namespace lockstep::comm {
namespace {

template <class T>
std::vector<T> add(std::vector<T> a, const std::vector<T>& b, DataType type) {
  auto* data = reinterpret_cast<std::byte*>(a.data());
  combine(data, data, reinterpret_cast<const std::byte*>(b.data()), a.size(), type, ReduceOp::sum);
  return a;
}

template <class T>
const std::byte* bytes_of(const T& value) {
  return reinterpret_cast<const std::byte*>(&value);
}
std::uint32_t bits_of(float value) { return std::bit_cast<std::uint32_t>(value); }

float reduced(ReduceOp op, float a, float b) {
  const std::byte* sources[] = {bytes_of(a), bytes_of(b)};
  std::byte* destination = reinterpret_cast<std::byte*>(&a);
  reduce({&destination, 1}, sources, 1, {DataType::float32, op});
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

TEST(Reduction, SixteenBitFloatsAreRoundedOnceOverAllSources) {
  // Each 2^-8 alone would be rounded away from the 1; two of them are not.
  const std::uint16_t one = 0x3f80, small = 0x3b80;
  const std::byte* sources[] = {bytes_of(one), bytes_of(small), bytes_of(small)};
  std::uint16_t sum = 0;
  std::byte* destination = reinterpret_cast<std::byte*>(&sum);
  reduce({&destination, 1}, sources, 1, {DataType::bfloat16, ReduceOp::sum});
  EXPECT_EQ(sum, 0x3f81);
}

TEST(Reduction, AnAverageIsDividedOnceAtTheEnd) {
  const float values[] = {1, 2, 6};
  const std::byte* sources[] = {bytes_of(values[0]), bytes_of(values[1]), bytes_of(values[2])};
  float average = 0;
  std::byte* destination = reinterpret_cast<std::byte*>(&average);
  reduce({&destination, 1}, sources, 1, {DataType::float32, ReduceOp::average, 3});
  EXPECT_EQ(average, 3.0f);
}

TEST(Reduction, NaNInAnySourceIsSummedToTheOneNaN) {
  for (const std::uint32_t nan : {0x7fc00000u, 0xffc00123u, 0x7f800001u}) {
    const auto value = std::bit_cast<float>(nan);
    EXPECT_EQ(bits_of(reduced(ReduceOp::sum, value, 1)), 0x7fc00000u);
    EXPECT_EQ(bits_of(reduced(ReduceOp::sum, 1, value)), 0x7fc00000u);
    EXPECT_EQ(bits_of(reduced(ReduceOp::product, 1, value)), 0x7fc00000u);
  }
}

TEST(Reduction, MinAndMaxKeepNaNOfTheFirstSourceAndPassOverLaterOnes) {
  const float nan = std::nanf("");
  for (const auto op : {ReduceOp::min, ReduceOp::max}) {
    EXPECT_TRUE(std::isnan(reduced(op, nan, 1)));
    EXPECT_EQ(reduced(op, 1, nan), 1);
  }
}

TEST(Reduction, CopiesOfOneSourceAreItsBytesEverywhere) {
  const std::vector<std::byte> source(1000, std::byte{7});
  for (const auto stores : {StoreMode::cached, StoreMode::non_temporal}) {
    std::vector<std::byte> first(1000), second(1000);
    std::byte* const destinations[] = {first.data(), second.data()};
    copy_to_all(destinations, source.data(), source.size(), stores);
    EXPECT_EQ(first, source);
    EXPECT_EQ(second, source);
  }
}

TEST(ReductionDeathTest, AnAverageOfIntegersIsOurMistake) {
  std::int32_t value = 1;
  auto* data = reinterpret_cast<std::byte*>(&value);
  EXPECT_DEATH(finish(data, 1, DataType::int32, ReduceOp::average, 2), "average of int32");
}

}  // namespace
}  // namespace lockstep::comm
