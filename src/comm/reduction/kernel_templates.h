// The inner loops, written once with the compiler's vector types. Each instruction set has a source
// file, with its own compiler flags, that instantiates them for its Set:
//
//   struct Set {
//     static constexpr int kBytes = 32;               // of a register
//     static constexpr bool kConvertsHalves = true;
//     // If true, these convert a register of floats; halves_of rounds to nearest even.
//     static Lanes<float, 8> floats_of(Lanes<std::uint16_t, 8> halves);
//     static Lanes<std::uint16_t, 8> halves_of(Lanes<float, 8> floats);
//     static constexpr bool kHasNonTemporalStores = true;
//     // If true, this stores a register, or half of one, to an aligned address.
//     static void store_non_temporal(std::byte* to, V value);
//     static void fence();  // after all such stores
//   };
//
// The linker keeps one of several equal inline functions, whatever flags it was compiled with. A
// function with AVX-512 would crash a program on a processor without it. So each Set is in an
// unnamed namespace, all functions here are members of a template over it, and they call nothing of
// the standard library.
//
// A pass reads a tile of every source, a few registers wide, stores the result to every destination
// and continues with the next tile. So each byte is loaded and stored once, no intermediate result
// is stored to memory, the number of operands is free, and many loads are in flight at any time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "comm/reduction/kernels.h"

namespace lockstep::comm {

// `count` numbers that one instruction processes; with one number it is just a T.
template <class T, int count>
struct LanesOf {
  using Type [[gnu::vector_size(count * sizeof(T))]] = T;
};
template <class T>
struct LanesOf<T, 1> {
  using Type = T;
};
template <class T, int count>
using Lanes = typename LanesOf<T, count>::Type;

template <class Set>
class Kernels {
 public:
  static constexpr KernelTable table() {
    return {{row<Whole<std::uint8_t>, Whole<std::uint8_t>>(),
             row<Whole<std::int32_t>, Whole<std::uint32_t>>(),
             row<Whole<std::int64_t>, Whole<std::uint64_t>>(), row<Half, Half>(),
             row<Brain, Brain>(), row<Whole<float>, Whole<float>>(),
             row<Whole<double>, Whole<double>>()}};
  }

 private:
  static constexpr int kTileVectors = 4;  // independent ones, in registers
  // With few streams the processor needs a prefetch this many bytes ahead: with 4 sources of 64 MiB
  // that is 1.5 to 2.5 times as fast. With 2 or with 8 and more the hardware detects the streams,
  // and a prefetch is up to a third slower (fifth-generation EPYC).
  static constexpr std::size_t kPrefetchDistance = 2048;
  static constexpr std::size_t kPrefetchSourcesMin = 3, kPrefetchSourcesMax = 7;
  static constexpr std::size_t kLine = 64;  // of the cache

  // 32 bits and floats, of the same number of lanes.
  template <class V>
  using FloatsOf = Lanes<float, sizeof(V) / 4>;
  template <class V>
  using BitsOf = Lanes<std::uint32_t, sizeof(V) / 4>;
  // The type of a register of 16-bit floats when they are computed in 32 bits.
  template <class V>
  struct Pair {
    V first, second;
  };

  template <class V>
  static V read(const std::byte* from) {
    V value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
  }
  template <class V>
  static void write(std::byte* to, V value) {
    __builtin_memcpy(to, &value, sizeof value);
  }
  template <class V>
  static void write(std::byte* to, Pair<V> values) {  // each from its register
    write(to, values.first);
    write(to + sizeof(V), values.second);
  }
  template <class V>
  static void write_non_temporal(std::byte* to, V value) {
    Set::store_non_temporal(to, value);
  }
  template <class V>
  static void write_non_temporal(std::byte* to, Pair<V> values) {
    Set::store_non_temporal(to, values.first);
    Set::store_non_temporal(to + sizeof(V), values.second);
  }
  template <class V, class T>
  static V all(T value) {
    return V{} + value;
  }
  // The sum of two NaNs is either of them, depending on how the compiler orders the operands.
  template <class T, class V>
  static V with_one_nan(V value) {
    return value == value ? value : all<V>(static_cast<T>(__builtin_nan("")));
  }

  // NumberBuffer: how numbers are stored and in which type they are computed; load and pack
  // convert.

  template <class T>
  struct Whole {
    using Stored = T;
    using Computed = T;
    template <int lanes>
    static Lanes<T, lanes> load(const std::byte* from) {
      return read<Lanes<T, lanes>>(from);
    }
    template <class V>
    static V pack(V value) {
      if constexpr (std::is_floating_point_v<T>)
        return with_one_nan<T>(value);
      else
        return value;
    }
  };

  // Two adjacent values at a time, as one number of 32 bits, so that none has to change its lane.
  struct Brain {
    using Stored = std::uint16_t;
    using Computed = float;
    template <int lanes>
    static auto load(const std::byte* from) {
      if constexpr (lanes == 1) {
        return __builtin_bit_cast(float, std::uint32_t{read<Stored>(from)} << 16);
      } else {
        using Both = Lanes<std::uint32_t, lanes / 2>;
        using Floats = FloatsOf<Both>;
        const auto both = read<Both>(from);
        return Pair<Floats>{__builtin_bit_cast(Floats, both << 16),
                            __builtin_bit_cast(Floats, both & 0xffff0000u)};
      }
    }
    static Stored pack(float value) { return static_cast<Stored>(rounded(value) >> 16); }
    template <class Floats>
    static BitsOf<Floats> pack(Pair<Floats> values) {
      return rounded(values.first) >> 16 | (rounded(values.second) & 0xffff0000u);
    }
    // To nearest even, in the upper 16 bits: add just under half of the last kept bit, and the bit
    // itself. The instruction of some processors is not used: it treats denormals as zero.
    template <class Floats>
    static BitsOf<Floats> rounded(Floats value) {
      const auto bits = __builtin_bit_cast(BitsOf<Floats>, with_one_nan<float>(value));
      return bits + 0x7fffu + (bits >> 16 & 1u);
    }
  };

  // By the Set's instructions, or else by the branch-free method of Maratyszcza's FP16 library.
  struct Half {
    using Stored = std::uint16_t;
    using Computed = float;
    template <int lanes>
    static auto load(const std::byte* from) {
      constexpr std::size_t kMiddle = lanes;  // in bytes, of what is stored
      if constexpr (lanes == 1) {
        return widened(std::uint32_t{read<Stored>(from)});
      } else if constexpr (Set::kConvertsHalves && lanes * sizeof(Stored) == Set::kBytes) {
        using Halves = Lanes<Stored, lanes / 2>;
        return Pair<Lanes<float, lanes / 2>>{Set::floats_of(read<Halves>(from)),
                                             Set::floats_of(read<Halves>(from + kMiddle))};
      } else {
        using Both = Lanes<std::uint32_t, lanes / 2>;
        const auto both = read<Both>(from);
        return Pair<FloatsOf<Both>>{widened(Both(both & 0xffffu)), widened(Both(both >> 16))};
      }
    }
    static Stored pack(float value) { return static_cast<Stored>(narrowed(value)); }
    template <class Floats>
    static auto pack(Pair<Floats> values) {
      if constexpr (Set::kConvertsHalves && sizeof(Floats) == Set::kBytes) {
        return Pair{Set::halves_of(with_one_nan<float>(values.first)),
                    Set::halves_of(with_one_nan<float>(values.second))};
      } else {
        return BitsOf<Floats>(narrowed(values.first) | narrowed(values.second) << 16);
      }
    }

    // The exponent's bias differs by 112, which a multiplication corrects, denormals included. A
    // value that becomes 2^16 or more was infinite or NaN.
    template <class Bits>
    static FloatsOf<Bits> widened(Bits stored) {
      using Floats = FloatsOf<Bits>;
      const Bits magnitude = (stored & 0x7fffu) << 13, sign = (stored & 0x8000u) << 16;
      const Floats scaled = __builtin_bit_cast(Floats, magnitude) * 0x1p112f;
      const Bits special = scaled >= all<Floats>(0x1p16f) ? all<Bits>(0x7f800000u) : Bits{};
      return __builtin_bit_cast(Floats, __builtin_bit_cast(Bits, scaled) | special | sign);
    }
    // Adding a number whose last bit is the half's last bit rounds to nearest even. Values that are
    // too large have become infinite before.
    template <class Floats>
    static BitsOf<Floats> narrowed(Floats value) {
      using Bits = BitsOf<Floats>;
      const auto bits = __builtin_bit_cast(Bits, value);
      const Bits magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
      const Floats scaled = __builtin_bit_cast(Floats, magnitude) * 0x1p112f * 0x1p-110f;
      const Bits own = magnitude & 0x7f800000u, least = all<Bits>(0x38800000u);
      const Bits exponent = (own > least ? own : least) + 0x07800000u;
      const auto sum = __builtin_bit_cast(Bits, __builtin_bit_cast(Floats, exponent) + scaled);
      const Bits half = (sum >> 13 & 0x7c00u) + (sum & 0xfffu);
      return value == value ? sign | half : all<Bits>(0x7e00u);
    }
  };

  // Operations: how two numbers are combined, and how the last result is finished.

  struct Unfinished {
    template <class V>
    static V finish(V value, int) {
      return value;
    }
  };
  struct Add : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return static_cast<V>(x + y);
    }
  };
  struct Multiply : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return static_cast<V>(x * y);
    }
  };
  struct And : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return static_cast<V>(x & y);
    }
  };
  struct Or : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return static_cast<V>(x | y);
    }
  };
  struct ExclusiveOr : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return static_cast<V>(x ^ y);
    }
  };
  struct Lower : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return y < x ? y : x;
    }
  };
  struct Higher : Unfinished {
    template <class V>
    static V apply(V x, V y) {
      return x < y ? y : x;
    }
  };
  template <class Computed>
  struct Average : Add {
    template <class V>
    static V finish(V value, int divisor) {
      return value / static_cast<Computed>(divisor);
    }
  };

  template <class Op, class V>
  static V apply(V x, V y) {
    return Op::apply(x, y);
  }
  template <class Op, class V>
  static Pair<V> apply(Pair<V> x, Pair<V> y) {
    return {Op::apply(x.first, y.first), Op::apply(x.second, y.second)};
  }
  template <class Op, class V>
  static V finish(V value, int divisor) {
    return Op::finish(value, divisor);
  }
  template <class Op, class V>
  static Pair<V> finish(Pair<V> value, int divisor) {
    return {Op::finish(value.first, divisor), Op::finish(value.second, divisor)};
  }

  // Prefetches the data that a tile of this size will soon read from its sources; past the end of a
  // source this does nothing.
  static void prefetch(const Operands& operands, std::size_t at, std::size_t bytes) {
    for (std::size_t k = 0; k < operands.source_count; ++k)
      for (std::size_t line = 0; line < bytes; line += kLine)
        __builtin_prefetch(operands.sources[k] + at + kPrefetchDistance + line);
  }

  // All sources' elements from byte `at` on, `vectors` times `lanes` of them.
  template <class Number, class Op, int lanes, int vectors, bool past_cache>
  [[gnu::always_inline]] static void tile(const Operands& operands, std::size_t at) {
    constexpr std::size_t kStep = lanes * sizeof(typename Number::Stored);
    // Copies, so that the compiler knows that no store changes them.
    const auto [destinations, destination_count, sources, source_count, count, divisor, stores] =
        operands;
    decltype(Number::template load<lanes>(sources[0])) results[vectors];
    for (std::size_t i = 0; i < vectors; ++i)
      results[i] = Number::template load<lanes>(sources[0] + at + i * kStep);
    for (std::size_t k = 1; k < source_count; ++k)
      for (std::size_t i = 0; i < vectors; ++i)
        results[i] =
            apply<Op>(results[i], Number::template load<lanes>(sources[k] + at + i * kStep));
    decltype(Number::pack(results[0])) packed[vectors];
    for (std::size_t i = 0; i < vectors; ++i)
      packed[i] = Number::pack(finish<Op>(results[i], divisor));
    for (std::size_t k = 0; k < destination_count; ++k)
      for (std::size_t i = 0; i < vectors; ++i)
        if constexpr (past_cache)
          write_non_temporal(destinations[k] + at + i * kStep, packed[i]);
        else
          write(destinations[k] + at + i * kStep, packed[i]);
  }

  // Processes all complete tiles from byte `at` to `end`; returns where they end.
  template <class Number, class Op, int lanes, int vectors, bool past_cache = false>
  static std::size_t tiles(const Operands& operands, std::size_t at, std::size_t end) {
    constexpr std::size_t kStep = lanes * vectors * sizeof(typename Number::Stored);
    const bool announces = vectors > 1 && operands.source_count >= kPrefetchSourcesMin &&
                           operands.source_count <= kPrefetchSourcesMax;
    for (; end - at >= kStep; at += kStep) {
      if (announces) prefetch(operands, at, kStep);
      tile<Number, Op, lanes, vectors, past_cache>(operands, at);
    }
    return at;
  }

  // The number of bytes from here to the next address for a non-temporal store.
  static std::size_t unaligned(const std::byte* memory) {
    return -reinterpret_cast<std::uintptr_t>(memory) % Set::kBytes;
  }
  static bool are_aligned_alike(const Operands& operands) {
    for (std::size_t k = 1; k < operands.destination_count; ++k)
      if (unaligned(operands.destinations[k]) != unaligned(operands.destinations[0])) return false;
    return true;
  }

  // Processes the part of a pass that uses non-temporal stores, from its start; returns where it
  // ends.
  template <class Number, class Op>
  static std::size_t pass_non_temporal(const Operands& operands, std::size_t end) {
    if (operands.store_mode != StoreMode::non_temporal || !are_aligned_alike(operands)) return 0;
    constexpr int kLanes = Set::kBytes / sizeof(typename Number::Stored);
    const std::size_t first = unaligned(operands.destinations[0]);
    std::size_t at = tiles<Number, Op, 1, 1>(operands, 0, first < end ? first : end);
    at = tiles<Number, Op, kLanes, kTileVectors, true>(operands, at, end);
    Set::fence();
    return at;
  }

  template <class Number, class Op>
  static void pass(const Operands& operands) {
    constexpr int kLanes = Set::kBytes / sizeof(typename Number::Stored);
    constexpr int kFewLanes = 16 / sizeof(typename Number::Stored);
    const std::size_t end = operands.count * sizeof(typename Number::Stored);
    std::size_t at = 0;
    if constexpr (Set::kHasNonTemporalStores) at = pass_non_temporal<Number, Op>(operands, end);
    at = tiles<Number, Op, kLanes, kTileVectors>(operands, at, end);
    at = tiles<Number, Op, kLanes, 1>(operands, at, end);
    if constexpr (kFewLanes < kLanes) at = tiles<Number, Op, kFewLanes, 1>(operands, at, end);
    tiles<Number, Op, 1, 1>(operands, at, end);
  }

  // Sums and products of signed integers use those of unsigned ones, which may overflow.
  template <class Ordered, class Summed>
  static constexpr KernelRow row() {
    using Computed = typename Summed::Computed;
    if constexpr (std::is_floating_point_v<Computed>)
      return {{&pass<Summed, Add>, &pass<Ordered, Lower>, &pass<Ordered, Higher>,
               &pass<Summed, Multiply>, &pass<Summed, Average<Computed>>, nullptr, nullptr,
               nullptr}};
    else
      return {{&pass<Summed, Add>, &pass<Ordered, Lower>, &pass<Ordered, Higher>,
               &pass<Summed, Multiply>, nullptr, &pass<Summed, And>, &pass<Summed, Or>,
               &pass<Summed, ExclusiveOr>}};
  }
};

}  // namespace lockstep::comm
