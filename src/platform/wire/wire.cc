#include "platform/wire/wire.h"

namespace lockstep::wire {
namespace {

constexpr int kVarintBits = 64;
constexpr std::uint64_t kFieldMax = (std::uint64_t{1} << 29) - 1;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

template <class Add>
bool each_fixed(const WireField& field, std::size_t size, Add add) {
  if (field.type == WireType::fixed32 || field.type == WireType::fixed64) {
    if ((field.type == WireType::fixed64) != (size == 8)) return false;
    add(field.value);
    return true;
  }
  if (field.type != WireType::bytes || field.bytes.size() % size != 0) return false;
  for (std::size_t at = 0; at < field.bytes.size(); at += size)
    add(little_endian(field.bytes.substr(at, size)));
  return true;
}

}  // namespace

bool WireReader::take_varint(std::uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < kVarintBits; shift += 7) {
    if (rest_.empty()) return false;
    const auto byte = static_cast<unsigned char>(rest_.front());
    rest_.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool WireReader::take_fixed(std::size_t size, std::uint64_t& value) {
  if (rest_.size() < size) return false;
  value = little_endian(rest_.substr(0, size));
  rest_.remove_prefix(size);
  return true;
}

bool WireReader::next(WireField& field) {
  if (rest_.empty() || damaged_) return false;
  std::uint64_t key = 0;
  if (!take_varint(key)) return fail();
  const std::uint64_t number = key >> 3;
  if (number == 0 || number > kFieldMax) return fail();
  field = {.number = static_cast<std::uint32_t>(number), .type = static_cast<WireType>(key & 7)};
  switch (field.type) {
    case WireType::varint:
      return take_varint(field.value) || fail();
    case WireType::fixed64:
      return take_fixed(8, field.value) || fail();
    case WireType::fixed32:
      return take_fixed(4, field.value) || fail();
    case WireType::bytes: {
      std::uint64_t size = 0;
      if (!take_varint(size) || size > rest_.size()) return fail();
      field.bytes = rest_.substr(0, static_cast<std::size_t>(size));
      rest_.remove_prefix(static_cast<std::size_t>(size));
      return true;
    }
  }
  return fail();
}

bool append_doubles(const WireField& field, std::vector<double>& numbers) {
  return each_fixed(field, 8,
                    [&](std::uint64_t bits) { numbers.push_back(std::bit_cast<double>(bits)); });
}

bool append_floats(const WireField& field, std::vector<double>& numbers) {
  return each_fixed(field, 4, [&](std::uint64_t bits) {
    numbers.push_back(static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits))));
  });
}

bool append_fixed64(const WireField& field, std::vector<std::uint64_t>& numbers) {
  return each_fixed(field, 8, [&](std::uint64_t bits) { numbers.push_back(bits); });
}

bool append_varints(const WireField& field, std::vector<std::uint64_t>& numbers) {
  if (field.type == WireType::varint) {
    numbers.push_back(field.value);
    return true;
  }
  if (field.type != WireType::bytes) return false;
  std::uint64_t value = 0;
  int shift = 0;
  for (const char sign : field.bytes) {
    const auto byte = static_cast<unsigned char>(sign);
    if (shift >= kVarintBits) return false;
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    shift += 7;
    if (byte >= 0x80) continue;
    numbers.push_back(value);
    value = 0;
    shift = 0;
  }
  return shift == 0;
}

void WireWriter::add_raw_varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) message_ += static_cast<char>((value & 0x7f) | 0x80);
  message_ += static_cast<char>(value);
}

void WireWriter::add_key(std::uint32_t number, WireType type) {
  add_raw_varint(std::uint64_t{number} << 3 | static_cast<std::uint64_t>(type));
}

void WireWriter::add_fixed(std::uint64_t value, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i, value >>= 8) message_ += static_cast<char>(value & 0xff);
}

void WireWriter::add_varint(std::uint32_t number, std::uint64_t value) {
  add_key(number, WireType::varint);
  add_raw_varint(value);
}

void WireWriter::add_double(std::uint32_t number, double value) {
  add_key(number, WireType::fixed64);
  add_fixed(std::bit_cast<std::uint64_t>(value), 8);
}

void WireWriter::add_float(std::uint32_t number, float value) {
  add_key(number, WireType::fixed32);
  add_fixed(std::bit_cast<std::uint32_t>(value), 4);
}

void WireWriter::add_bytes(std::uint32_t number, std::string_view bytes) {
  add_key(number, WireType::bytes);
  add_raw_varint(bytes.size());
  message_ += bytes;
}

void WireWriter::add_doubles(std::uint32_t number, const std::vector<double>& values) {
  add_key(number, WireType::bytes);
  add_raw_varint(values.size() * 8);
  for (const double value : values) add_fixed(std::bit_cast<std::uint64_t>(value), 8);
}

}  // namespace lockstep::wire
