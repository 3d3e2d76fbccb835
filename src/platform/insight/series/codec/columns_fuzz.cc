#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/fuzz_for_test.h"
#include "platform/insight/series/codec/integers.h"
#include "platform/insight/series/codec/values.h"

using namespace lockstep;
using namespace lockstep::insight::series;

namespace {

constexpr std::size_t kFuzzed = 150;  // of each column: two full blocks and a short one

std::string with_kind(char kind, const std::string& column) { return kind + column; }

std::string integers(std::int64_t power) {
  std::vector<std::int64_t> numbers;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(kFuzzed); ++i)
    numbers.push_back(power == 1 ? i : i * i * i % 1000);
  std::string column;
  encode_integers(numbers, column);
  return with_kind('i', column);
}

std::string values(double scale) {
  std::vector<double> all;
  for (std::size_t i = 0; i < kFuzzed; ++i)
    all.push_back(static_cast<double>(i * i * 7919 % 1009) * scale + (i > 100 ? scale : 0));
  std::string column;
  encode_values(all, column);
  return with_kind('v', column);
}

std::string repeated_values() {
  std::vector<double> all(kFuzzed, 3e-4);
  std::fill(all.begin() + 50, all.end(), 1.7e-5);
  std::string column;
  encode_values(all, column);
  return with_kind('v', column);
}

}  // namespace

LS_FUZZ(series_columns, {integers(1), integers(3), values(1), values(0.1), values(1.0 / 3),
                         repeated_values(), with_kind('v', std::string(9, '\0'))}) {
  if (input.empty()) return;
  const ByteSpan bytes = fuzzing::bytes_of(input.substr(1));
  if (input[0] == 'i') {
    const auto column = IntegerColumn::parse(bytes, kFuzzed);
    std::array<std::int64_t, kFuzzed> out{};
    if (column) (void)column->decode(out);
  } else {
    std::array<double, kFuzzed> out{};
    (void)decode_values(bytes, out);
  }
}
