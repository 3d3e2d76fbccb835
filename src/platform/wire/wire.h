// The wire format of Protocol Buffers, read and written field by field.
// https://protobuf.dev/programming-guides/encoding
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::wire {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  std::uint64_t value = 0;   // of a varint or a fixed number
  std::string_view bytes{};  // of a text, a message or packed numbers; within the input

  std::int64_t integer() const { return static_cast<std::int64_t>(value); }
  // The number of a sint32 or a sint64.
  std::int64_t zigzag() const {
    return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
  }
  double number64() const { return std::bit_cast<double>(value); }
  float number32() const { return std::bit_cast<float>(static_cast<std::uint32_t>(value)); }
};

// The fields of a message, in their order. Reads nothing beyond its input.
class WireReader {
 public:
  explicit WireReader(std::string_view message) : rest_(message) {}

  // False at the end, and where the message is damaged.
  bool next(WireField& field);
  bool is_damaged() const { return damaged_; }

 private:
  bool take_varint(std::uint64_t& value);
  bool take_fixed(std::size_t size, std::uint64_t& value);
  bool fail() {
    damaged_ = true;
    return false;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

// A repeated field of numbers, packed or one of them; false if it is damaged.
bool append_doubles(const WireField& field, std::vector<double>& numbers);
bool append_floats(const WireField& field, std::vector<double>& numbers);
bool append_fixed64(const WireField& field, std::vector<std::uint64_t>& numbers);
bool append_varints(const WireField& field, std::vector<std::uint64_t>& numbers);

// Appends fields to a message.
class WireWriter {
 public:
  void add_varint(std::uint32_t number, std::uint64_t value);
  void add_double(std::uint32_t number, double value);
  void add_float(std::uint32_t number, float value);
  void add_bytes(std::uint32_t number, std::string_view bytes);
  void add_doubles(std::uint32_t number, const std::vector<double>& values);  // packed
  const std::string& message() const { return message_; }

 private:
  void add_key(std::uint32_t number, WireType type);
  void add_raw_varint(std::uint64_t value);
  void add_fixed(std::uint64_t value, std::size_t size);

  std::string message_;
};

}  // namespace lockstep::wire
