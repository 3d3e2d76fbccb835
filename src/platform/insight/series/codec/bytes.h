// Bytes and bits of the columns: numbers with a variable length (LEB128), zigzag, and fields of
// bits, least significant first.
//
// Readers take damaged bytes: they never read beyond the end. After such an attempt ok() is false
// and further values are 0.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

namespace lockstep::insight::series {

static_assert(std::endian::native == std::endian::little, "the formats have this order of bytes");

using ByteSpan = std::span<const std::byte>;

inline ByteSpan bytes_of(const std::string& text) { return std::as_bytes(std::span(text)); }

// Small for numbers near 0, of either sign.
constexpr std::uint64_t zigzag(std::uint64_t value) { return (value << 1) ^ (0 - (value >> 63)); }
constexpr std::uint64_t unzigzag(std::uint64_t value) { return (value >> 1) ^ (0 - (value & 1)); }

template <class T>
  requires std::is_trivially_copyable_v<T>
void put_fixed(std::string& out, const T& value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void put_varint(std::string& out, std::uint64_t value) {
  char bytes[10];
  std::size_t size = 0;
  for (; value >= 0x80; value >>= 7) bytes[size++] = static_cast<char>(value | 0x80);
  bytes[size++] = static_cast<char>(value);
  out.append(bytes, size);
}
inline void put_signed(std::string& out, std::int64_t value) {
  put_varint(out, zigzag(static_cast<std::uint64_t>(value)));
}

class ByteReader {
 public:
  explicit ByteReader(ByteSpan bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  ByteSpan rest() const { return bytes_; }

  ByteSpan take(std::uint64_t size) {
    if (size > bytes_.size()) return fail();
    const ByteSpan taken = bytes_.first(size);
    bytes_ = bytes_.subspan(size);
    return taken;
  }
  template <class T>
    requires std::is_trivially_copyable_v<T>
  T fixed() {
    T value{};
    if (const ByteSpan taken = take(sizeof(T)); taken.size() == sizeof(T))
      std::memcpy(&value, taken.data(), sizeof(T));
    return value;
  }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<std::uint64_t>(bytes_.front());
      bytes_ = bytes_.subspan(1);
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail();
    return 0;
  }
  std::int64_t signed_varint() { return static_cast<std::int64_t>(unzigzag(varint())); }

 private:
  ByteSpan fail() {
    ok_ = false;
    bytes_ = {};
    return {};
  }

  ByteSpan bytes_;
  bool ok_ = true;
};

class BitWriter {
 public:
  explicit BitWriter(std::string& out) : out_(out) {}

  // The low `width` bits of value, 0 to 64; the others must be 0.
  void put(std::uint64_t value, unsigned width) {
    if (width == 0) return;
    pending_ |= value << used_;
    if (used_ + width < 64) {
      used_ += width;
      return;
    }
    put_fixed(out_, pending_);
    const unsigned done = 64 - used_;
    pending_ = done < 64 ? value >> done : 0;
    used_ += width - 64;
  }
  // Fills the last byte with zeros.
  void finish() {
    for (; used_ > 0; used_ -= std::min(used_, 8u), pending_ >>= 8)
      out_.push_back(static_cast<char>(pending_));
    pending_ = 0;
  }

 private:
  std::string& out_;
  std::uint64_t pending_ = 0;
  unsigned used_ = 0;  // bits of pending_, below 64
};

class BitReader {
 public:
  explicit BitReader(ByteSpan bytes) : bytes_(bytes), size_(bytes.size() * 8) {}

  bool ok() const { return ok_; }

  std::uint64_t get(unsigned width) {
    if (width > size_ - at_) {
      ok_ = false;
      at_ = size_;
      return 0;
    }
    if (width > 56) {
      const std::uint64_t low = get_some(32);
      return low | (get_some(width - 32) << 32);
    }
    return get_some(width);
  }

 private:
  // At most 56 bits, which are there.
  std::uint64_t get_some(unsigned width) {
    const std::size_t byte = at_ / 8;
    std::uint64_t word = 0;
    std::memcpy(&word, bytes_.data() + byte, std::min<std::size_t>(8, bytes_.size() - byte));
    word >>= at_ % 8;
    at_ += width;
    return word & ((std::uint64_t{1} << width) - 1);
  }

  ByteSpan bytes_;
  std::size_t size_;    // in bits
  std::size_t at_ = 0;  // in bits
  bool ok_ = true;
};

}  // namespace lockstep::insight::series
