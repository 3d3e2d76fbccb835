#include "platform/insight/series/codec/values.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "platform/insight/series/codec/integers.h"
#include "platform/insight/series/codec/planes.h"
#include "platform/insight/series/codec/xor.h"

namespace lockstep::insight::series {
namespace {

// The form of a column: its first byte.
enum class Form : std::uint8_t { constant, offsets, differences, xored, floats, doubles };

constexpr int kScaleMax = 9;
constexpr std::array<double, kScaleMax + 1> kPowers = {1e0, 1e1, 1e2, 1e3, 1e4,
                                                       1e5, 1e6, 1e7, 1e8, 1e9};
constexpr double kWholeMax = 9007199254740992.0;  // 2^53

Error damaged_values() { return {Code::corrupt, "a column of values is damaged"}; }

std::uint64_t bits_of(double value) { return std::bit_cast<std::uint64_t>(value); }

bool is_decimal(double value, int scale) {
  const double scaled = value * kPowers[static_cast<std::size_t>(scale)];
  if (!(std::abs(scaled) < kWholeMax)) return false;
  return bits_of(value_of_decimal(decimal_of(value, scale), scale)) == bits_of(value);
}

void put_form(Form form, std::string& out) { out.push_back(static_cast<char>(form)); }

std::size_t bytes_for(std::uint64_t largest) {
  return std::max<std::size_t>(1, (static_cast<std::size_t>(std::bit_width(largest)) + 7) / 8);
}

// Scale, number of planes, the base (the least number, or the first one), planes.
void encode_decimals(std::span<const double> values, int scale, std::string& out) {
  std::array<std::uint64_t, kChunkPoints> offsets, differences;
  std::int64_t least = decimal_of(values[0], scale), previous = least;
  const std::int64_t first = least;
  for (const double value : values) least = std::min(least, decimal_of(value, scale));
  std::uint64_t offset_max = 0, difference_max = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::int64_t number = decimal_of(values[i], scale);
    offsets[i] = static_cast<std::uint64_t>(number - least);
    differences[i] = zigzag(static_cast<std::uint64_t>(number - previous));
    previous = number;
    offset_max = std::max(offset_max, offsets[i]);
    difference_max = std::max(difference_max, differences[i]);
  }
  const auto encode = [&](Form form, std::int64_t base, const auto& numbers,
                          std::uint64_t largest) {
    std::string encoded;
    put_form(form, encoded);
    encoded.push_back(static_cast<char>(scale));
    encoded.push_back(static_cast<char>(bytes_for(largest)));
    put_signed(encoded, base);
    encode_planes(std::span(numbers).first(values.size()), bytes_for(largest), encoded);
    return encoded;
  };
  const std::string one = encode(Form::offsets, least, offsets, offset_max);
  const std::string other = encode(Form::differences, first, differences, difference_max);
  out += one.size() <= other.size() ? one : other;
}

Result<void> decode_decimals(Form form, ByteReader& reader, std::span<double> out) {
  const auto scale = reader.fixed<std::uint8_t>();
  const auto planes = reader.fixed<std::uint8_t>();
  const std::int64_t base = reader.signed_varint();
  if (!reader.ok() || scale > kScaleMax || planes < 1 || planes > 8) return damaged_values();
  std::array<std::uint64_t, kChunkPoints> numbers;
  TRY(decode_planes(reader, planes, std::span(numbers).first(out.size())));
  auto number = static_cast<std::uint64_t>(base);
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (form == Form::differences)
      number += unzigzag(numbers[i]);
    else
      number = static_cast<std::uint64_t>(base) + numbers[i];
    out[i] = value_of_decimal(static_cast<std::int64_t>(number), scale);
  }
  return {};
}

void encode_plain(std::span<const double> values, std::string& out) {
  std::array<std::uint64_t, kChunkPoints> bits;
  const bool floats = are_floats(values);
  for (std::size_t i = 0; i < values.size(); ++i)
    bits[i] =
        floats ? std::bit_cast<std::uint32_t>(static_cast<float>(values[i])) : bits_of(values[i]);
  put_form(floats ? Form::floats : Form::doubles, out);
  encode_planes(std::span(bits).first(values.size()), floats ? 4 : 8, out);
}

Result<void> decode_plain(Form form, ByteReader& reader, std::span<double> out) {
  std::array<std::uint64_t, kChunkPoints> bits;
  TRY(decode_planes(reader, form == Form::floats ? 4 : 8, std::span(bits).first(out.size())));
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = form == Form::floats
                 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits[i])))
                 : std::bit_cast<double>(bits[i]);
  return {};
}

Result<void> decode_xored(ByteReader& reader, std::span<double> out) {
  std::array<std::uint64_t, kChunkPoints> bits;
  TRY(decode_xor(reader.take(reader.rest().size()), std::span(bits).first(out.size())));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = std::bit_cast<double>(bits[i]);
  return {};
}

}  // namespace

std::int64_t decimal_of(double value, int scale) {
  return std::llrint(value * kPowers[static_cast<std::size_t>(scale)]);
}

double value_of_decimal(std::int64_t number, int scale) {
  return static_cast<double>(number) / kPowers[static_cast<std::size_t>(scale)];
}

std::optional<int> decimal_scale(std::span<const double> values) {
  int scale = 0;
  for (const double value : values)
    while (!is_decimal(value, scale))
      if (++scale > kScaleMax) return std::nullopt;
  for (const double value : values)
    if (!is_decimal(value, scale)) return std::nullopt;
  return scale;
}

bool are_floats(std::span<const double> values) {
  return std::ranges::all_of(values, [](double value) {
    // Converting a finite double beyond the floats would be undefined.
    if (std::isfinite(value) && std::abs(value) > 3.4028234663852886e38) return false;
    return bits_of(static_cast<double>(static_cast<float>(value))) == bits_of(value);
  });
}

void encode_values(std::span<const double> values, std::string& out) {
  LS_CHECK(!values.empty() && values.size() <= kChunkPoints);
  if (std::ranges::all_of(values, [&](double v) { return bits_of(v) == bits_of(values[0]); })) {
    put_form(Form::constant, out);
    put_fixed(out, values[0]);
    return;
  }
  std::string best;
  encode_plain(values, best);
  if (const auto scale = decimal_scale(values)) {
    std::string decimals;
    encode_decimals(values, *scale, decimals);
    if (decimals.size() < best.size()) best = std::move(decimals);
  }
  std::array<std::uint64_t, kChunkPoints> bits;
  std::ranges::transform(values, bits.begin(), bits_of);
  std::string xored;
  put_form(Form::xored, xored);
  encode_xor(std::span(bits).first(values.size()), best.size(), xored);
  out += xored.size() < best.size() ? xored : best;
}

Result<void> decode_values(ByteSpan bytes, std::span<double> out) {
  LS_CHECK(!out.empty() && out.size() <= kChunkPoints);
  ByteReader reader(bytes);
  const auto form = static_cast<Form>(reader.fixed<std::uint8_t>());
  switch (form) {
    case Form::constant:
      std::ranges::fill(out, reader.fixed<double>());
      break;
    case Form::offsets:
    case Form::differences:
      TRY(decode_decimals(form, reader, out));
      break;
    case Form::xored:
      TRY(decode_xored(reader, out));
      break;
    case Form::floats:
    case Form::doubles:
      TRY(decode_plain(form, reader, out));
      break;
    default:
      return damaged_values();
  }
  if (!reader.ok() || !reader.rest().empty()) return damaged_values();
  return {};
}

}  // namespace lockstep::insight::series
