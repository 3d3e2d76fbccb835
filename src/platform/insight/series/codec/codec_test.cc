// Columns: each kind of numbers comes back as it was, in the expected size.
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/format.h"
#include "base/random.h"
#include "platform/insight/series/codec/integers.h"
#include "platform/insight/series/codec/planes.h"
#include "platform/insight/series/codec/values.h"
#include "platform/insight/series/codec/xor.h"

namespace lockstep::insight::series {
namespace {

constexpr std::size_t kSizes[] = {1, 2, 3, 63, 64, 65, 127, 128, 129, 1000, 4095, 4096};

// About normal, mean 0, deviation 1.
double noise(Random& random) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += random.uniform();
  return sum;
}

// --- Bits ---

TEST(Bits, FieldsOfAnyWidthComeBack) {
  Random random(1);
  std::vector<std::pair<std::uint64_t, unsigned>> fields;
  for (int i = 0; i < 10'000; ++i) {
    const auto width = static_cast<unsigned>(random.below(65));
    fields.emplace_back(width == 0 ? 0 : random.next() >> (64 - width), width);
  }
  std::string bytes;
  BitWriter writer(bytes);
  for (const auto& [value, width] : fields) writer.put(value, width);
  writer.finish();
  BitReader reader(bytes_of(bytes));
  for (const auto& [value, width] : fields) ASSERT_EQ(reader.get(width), value);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.get(8), 0u);
  EXPECT_FALSE(reader.ok());
}

TEST(Bits, NumbersOfVariableLengthComeBackAndStopAtTheEnd) {
  std::string bytes;
  const std::int64_t numbers[] = {0,
                                  -1,
                                  1,
                                  63,
                                  -64,
                                  64,
                                  1'000'000,
                                  std::numeric_limits<std::int64_t>::max(),
                                  std::numeric_limits<std::int64_t>::min()};
  for (const std::int64_t number : numbers) put_signed(bytes, number);
  ByteReader reader(bytes_of(bytes));
  for (const std::int64_t number : numbers) ASSERT_EQ(reader.signed_varint(), number);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.varint(), 0u);
  EXPECT_FALSE(reader.ok());
}

// --- Steps and times ---

std::string encoded(const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  encode_integers(numbers, bytes);
  return bytes;
}

void expect_same(const std::vector<std::int64_t>& numbers) {
  const std::string bytes = encoded(numbers);
  const auto column = IntegerColumn::parse(bytes_of(bytes), numbers.size()).value();
  std::vector<std::int64_t> back(numbers.size());
  ASSERT_TRUE(column.decode(back));
  ASSERT_EQ(back, numbers);
  for (std::size_t i = 0; i < numbers.size(); i += 1 + i / 7)
    ASSERT_EQ(column.at(i).value(), numbers[i]);
  for (std::size_t block = 0; block < blocks_of(numbers.size()); ++block)
    ASSERT_EQ(column.start(block), numbers[block * kBlockPoints]);
}

TEST(Integers, AnyNumbersComeBack) {
  Random random(2);
  const auto any = [&] { return static_cast<std::int64_t>(random.next() >> random.below(64)); };
  const std::vector<std::function<std::int64_t(std::int64_t)>> kinds = {
      [](std::int64_t i) { return i; },
      [](std::int64_t i) { return -50 * i + 7; },
      [](std::int64_t) { return std::int64_t{42}; },
      [](std::int64_t i) { return i * i; },
      [&](std::int64_t i) { return i + static_cast<std::int64_t>(random.below(3)); },
      [&](std::int64_t i) { return i % 97 == 0 ? any() : i; },
      [&](std::int64_t) { return any(); },
      [](std::int64_t i) {
        return i % 2 == 0 ? std::numeric_limits<std::int64_t>::min()
                          : std::numeric_limits<std::int64_t>::max();
      },
  };
  for (const std::size_t size : kSizes)
    for (const auto& kind : kinds) {
      std::vector<std::int64_t> numbers;
      for (std::size_t i = 0; i < size; ++i) numbers.push_back(kind(static_cast<std::int64_t>(i)));
      expect_same(numbers);
    }
}

TEST(Integers, StepsCostNothingAndTimesTheirNoise) {
  Random random(3);
  std::vector<std::int64_t> steps, times;
  std::int64_t time = 1'700'000'000'000'000;
  for (int i = 0; i < 4096; ++i) {
    steps.push_back(1'000'000 + 10 * i);
    times.push_back(time += 350'000 + static_cast<std::int64_t>(noise(random) * 1000));
  }
  EXPECT_LE(encoded(steps).size(), 8u);
  EXPECT_LE(encoded(times).size(), 4096u * 14 / 8);
}

TEST(Integers, ABlockThatIsCutIsCorrupt) {
  std::vector<std::int64_t> numbers;
  for (int i = 0; i < 200; ++i) numbers.push_back(i * i * i);
  const std::string bytes = encoded(numbers);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(IntegerColumn::parse(bytes_of(bytes.substr(0, size)), numbers.size()));
  EXPECT_FALSE(IntegerColumn::parse(bytes_of(bytes), 0));
  EXPECT_FALSE(IntegerColumn::parse(bytes_of(bytes), 5000));
}

// --- Values ---

std::string encoded(const std::vector<double>& values) {
  std::string bytes;
  encode_values(values, bytes);
  return bytes;
}

void expect_same(const std::vector<double>& values) {
  const std::string bytes = encoded(values);
  std::vector<double> back(values.size());
  ASSERT_TRUE(decode_values(bytes_of(bytes), back));
  for (std::size_t i = 0; i < values.size(); ++i)
    ASSERT_EQ(std::bit_cast<std::uint64_t>(back[i]), std::bit_cast<std::uint64_t>(values[i]))
        << values[i] << " at " << i;
}

using Values = std::function<double(int)>;

std::vector<double> made(std::size_t size, const Values& make) {
  std::vector<double> values;
  for (std::size_t i = 0; i < size; ++i) values.push_back(make(static_cast<int>(i)));
  return values;
}

TEST(Values, AnyValuesComeBackWithTheirBits) {
  Random random(4);
  using Limits = std::numeric_limits<double>;
  const double odd[] = {0.0,
                        -0.0,
                        Limits::quiet_NaN(),
                        std::bit_cast<double>(std::uint64_t{0x7ff0000000000001}),  // signalling
                        std::bit_cast<double>(std::uint64_t{0xfff8000012345678}),  // with payload
                        Limits::infinity(),
                        -Limits::infinity(),
                        Limits::denorm_min(),
                        Limits::max(),
                        1e300,
                        0.1,
                        -123456.789,
                        9007199254740993.0};
  const std::vector<Values> kinds = {
      [](int) { return 0.25; },
      [](int i) { return i; },
      [](int i) { return i * 0.1; },
      [](int i) { return (i * 7 % 1000) / 100.0; },
      [](int i) { return static_cast<double>(static_cast<float>(i) * 0.1f); },
      [](int i) { return std::sin(i * 0.01); },
      [&](int i) { return 2.0 + 1e-5 * i + 0.05 * noise(random); },
      [&](int) { return static_cast<double>(static_cast<float>(2.0 + 0.05 * noise(random))); },
      [&](int) { return odd[random.below(std::size(odd))]; },
      [&](int i) { return i % 100 == 0 ? odd[random.below(std::size(odd))] : i * 0.5; },
      [&](int) { return std::bit_cast<double>(random.next()); },
      [](int i) { return i < 100 ? 3e-4 : 1e-4; },
      [](int i) { return i * 1e15; },
  };
  for (const std::size_t size : kSizes)
    for (const Values& kind : kinds) expect_same(made(size, kind));
}

double bytes_of_each(const Values& make) {
  return static_cast<double>(encoded(made(4096, make)).size()) / 4096;
}

TEST(Values, EachKindTakesItsSmallestForm) {
  Random random(5);
  EXPECT_LT(bytes_of_each([](int) { return 1.5; }), 0.01);
  EXPECT_LT(bytes_of_each([](int i) { return i; }), 0.1) << "counters are differences";
  EXPECT_LT(bytes_of_each([](int i) { return i < 2000 ? 3e-4 : 1.23e-5; }), 0.2) << "XOR";
  EXPECT_LT(bytes_of_each([&](int) { return static_cast<double>(random.below(101)); }), 0.95);
  EXPECT_LT(bytes_of_each([&](int) { return std::round(3000 + 50 * noise(random)) / 10; }), 1.3);
  EXPECT_LT(bytes_of_each([&](int) {
              return static_cast<double>(static_cast<float>(2.3 + 0.05 * noise(random)));
            }),
            2.8)
      << "fp32";
  EXPECT_LT(bytes_of_each([&](int) { return std::bit_cast<double>(random.next()); }), 8.01);
}

TEST(Values, DecimalsAreFoundWithTheirScale) {
  EXPECT_EQ(decimal_scale(std::vector{1.0, 2.0, -3.0}), 0);
  EXPECT_EQ(decimal_scale(std::vector{1.5, 2.25}), 2);
  EXPECT_EQ(decimal_scale(std::vector{0.1, 300.7}), 1);
  EXPECT_EQ(decimal_scale(std::vector{1.0 / 3}), std::nullopt);
  EXPECT_EQ(decimal_scale(std::vector{-0.0}), std::nullopt);
  EXPECT_EQ(decimal_scale(std::vector{std::numeric_limits<double>::infinity()}), std::nullopt);
}

TEST(Values, CutColumnsAreCorrupt) {
  Random random(6);
  for (const Values& kind : std::vector<Values>{
           [](int) { return 7.0; }, [](int i) { return i * 0.1; },
           [&](int) { return noise(random); }, [](int i) { return i < 50 ? 1e-3 : 0.1; }}) {
    const auto values = made(100, kind);
    const std::string bytes = encoded(values);
    std::vector<double> back(values.size());
    for (std::size_t size = 0; size < bytes.size(); ++size)
      EXPECT_FALSE(decode_values(bytes_of(bytes.substr(0, size)), back)) << size;
  }
}

TEST(Planes, TheWidthIsThatOfTheNumbers) {
  const std::vector<std::uint64_t> numbers = {0, 255, 7, 0xffff};
  std::string bytes;
  encode_planes(numbers, 2, bytes);
  EXPECT_EQ(bytes.size(), 2 * (1 + numbers.size()));
  std::vector<std::uint64_t> back(numbers.size());
  ByteReader reader(bytes_of(bytes));
  ASSERT_TRUE(decode_planes(reader, 2, back));
  EXPECT_EQ(back, numbers);
}

}  // namespace
}  // namespace lockstep::insight::series
