// At -O2 g++ 12 vectorises only loops whose length it knows; these are all that the library
// computes.
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O3,no-trapping-math")
#endif

#include "comm/reduction/reduction.h"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace lockstep {
namespace {

// Each type says how an element is stored and in what it is computed.
template <class T>
struct Plain {
  using Stored = T;
  using Computed = T;
  static Computed load(Stored stored) { return stored; }
  static Stored store(Computed computed) { return computed; }
};

// Signed sums wrap around as unsigned ones do, without undefined behaviour.
template <class T>
T wrap_add(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
  } else {
    return a + b;
  }
}
template <class T>
T wrap_multiply(T a, T b) {
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)));
  } else {
    return a * b;
  }
}

// Without the F16C instructions g++ calls a function for each conversion of _Float16; these are the
// branch-free ones of Maratyszcza's FP16 library, which vectorise (16 times faster here).
struct Half {
  using Stored = std::uint16_t;
  using Computed = float;
  // The exponent's bias differs by 112, which a multiplication corrects, denormals included.
  static float load(std::uint16_t stored) {
    const auto magnitude = static_cast<std::uint32_t>(stored & 0x7fff) << 13;
    const auto special = magnitude >= 0x7c00u << 13 ? 0x7f800000u : 0u;
    const auto scaled = std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    const auto sign = static_cast<std::uint32_t>(stored & 0x8000) << 16;
    return std::bit_cast<float>(scaled | special | sign);
  }
  // Adding a number whose last bit is the half's last bit rounds to nearest even; what is too large
  // has become infinite before.
  static std::uint16_t store(float computed) {
    const auto bits = std::bit_cast<std::uint32_t>(computed);
    const auto magnitude = std::bit_cast<float>(bits & 0x7fffffffu);
    const float scaled = magnitude * 0x1p112f * 0x1p-110f;
    const auto doubled = bits << 1;
    const auto own = doubled & 0xff000000u;
    const auto exponent = own > 0x71000000u ? own : 0x71000000u;  // std::max does not vectorise
    const auto rounded =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>((exponent >> 1) + 0x07800000u) + scaled);
    const auto half = (rounded >> 13 & 0x7c00u) + (rounded & 0xfffu);
    const auto result = doubled > 0xff000000u ? 0x7e00u : half;
    return static_cast<std::uint16_t>((bits >> 16 & 0x8000u) | result);
  }
};

struct Brain {
  using Stored = std::uint16_t;
  using Computed = float;
  static float load(std::uint16_t stored) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(stored) << 16);
  }
  // To nearest even: add just under half of the last kept bit, and the bit itself. A NaN must not
  // be rounded up to infinity.
  static std::uint16_t store(float computed) {
    const auto bits = std::bit_cast<std::uint32_t>(computed);
    const auto rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16;
    const auto nan = bits >> 16 | 0x40u;
    return static_cast<std::uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
  }
};

// __restrict would forbid out == a; ivdep says that there is no overlap at another distance.
template <class Type, class Op>
void loop(std::byte* out_bytes, const std::byte* a_bytes, const std::byte* b_bytes,
          std::size_t count, Op op) {
  auto* out = reinterpret_cast<typename Type::Stored*>(out_bytes);
  const auto* a = reinterpret_cast<const typename Type::Stored*>(a_bytes);
  const auto* b = reinterpret_cast<const typename Type::Stored*>(b_bytes);
#if !defined(__clang__)
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < count; ++i)
    out[i] = Type::store(op(Type::load(a[i]), Type::load(b[i])));
}

template <class Type>
void combine_as(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
                ReduceOp op) {
  using C = typename Type::Computed;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::average:
      return loop<Type>(out, a, b, count, [](C x, C y) { return wrap_add<C>(x, y); });
    case ReduceOp::min:
      return loop<Type>(out, a, b, count, [](C x, C y) { return y < x ? y : x; });
    case ReduceOp::max:
      return loop<Type>(out, a, b, count, [](C x, C y) { return x < y ? y : x; });
    case ReduceOp::product:
      return loop<Type>(out, a, b, count, [](C x, C y) { return wrap_multiply<C>(x, y); });
  }
}

template <class Type>
void divide_as(std::byte* data, std::size_t count, int ranks) {
  using C = typename Type::Computed;
  const auto divisor = static_cast<C>(ranks);
  loop<Type>(data, data, data, count, [divisor](C x, C) { return static_cast<C>(x / divisor); });
}

// Calls f<Type>() for the type.
template <class F>
void with_type(DataType type, F f) {
  switch (type) {
    case DataType::uint8:
      return f.template operator()<Plain<std::uint8_t>>();
    case DataType::int32:
      return f.template operator()<Plain<std::int32_t>>();
    case DataType::int64:
      return f.template operator()<Plain<std::int64_t>>();
    case DataType::float16:
      return f.template operator()<Half>();
    case DataType::bfloat16:
      return f.template operator()<Brain>();
    case DataType::float32:
      return f.template operator()<Plain<float>>();
    case DataType::float64:
      return f.template operator()<Plain<double>>();
  }
}

}  // namespace

void combine(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
             DataType type, ReduceOp op) {
  with_type(type, [&]<class Type>() { combine_as<Type>(out, a, b, count, op); });
}

void finish(std::byte* data, std::size_t count, DataType type, ReduceOp op, int ranks) {
  if (op != ReduceOp::average) return;
  with_type(type, [&]<class Type>() { divide_as<Type>(data, count, ranks); });
}

}  // namespace lockstep
