// Hashes whose values are the same on every machine, unlike those of the standard library. They do
// not detect forged content.
#pragma once

#include <cstdint>
#include <string_view>

namespace lockstep {

// FNV-1a, 64 bits (Fowler, Noll and Vo, http://www.isthe.com/chongo/tech/comp/fnv).
class Fnv1a {
 public:
  // The hash of the empty text; other values give other hashes.
  static constexpr std::uint64_t kStart = 0xcbf29ce484222325;

  explicit constexpr Fnv1a(std::uint64_t start = kStart) : value_(start) {}
  constexpr void add(std::uint64_t word) { value_ = (value_ ^ word) * 0x100000001b3; }
  constexpr void add(std::string_view text) {
    for (const char c : text) add(std::uint64_t{static_cast<unsigned char>(c)});
  }
  constexpr std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_;
};

constexpr std::uint64_t fnv1a(std::string_view text, std::uint64_t start = Fnv1a::kStart) {
  Fnv1a hash(start);
  hash.add(text);
  return hash.value();
}

// The output function of splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
// generators", 2014): a bijection whose results look random.
constexpr std::uint64_t splitmix64(std::uint64_t value) {
  std::uint64_t z = value + 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

}  // namespace lockstep
