// The kernels with AVX2 and F16C; src/CMakeLists.txt has the flags.
#if defined(__AVX2__)
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "comm/reduction/kernel_templates.h"

namespace lockstep::comm {
namespace {

struct Avx2 {
  static constexpr int kBytes = 32;
  static constexpr bool kConvertsHalves = true;
  static Lanes<float, 8> floats_of(Lanes<std::uint16_t, 8> halves) {
    return _mm256_cvtph_ps(__builtin_bit_cast(__m128i, halves));
  }
  static Lanes<std::uint16_t, 8> halves_of(Lanes<float, 8> floats) {
    using Halves = Lanes<std::uint16_t, 8>;
    return __builtin_bit_cast(Halves, _mm256_cvtps_ph(floats, _MM_FROUND_TO_NEAREST_INT));
  }
  static constexpr bool kHasNonTemporalStores = true;
  template <class V>
  static void store_non_temporal(std::byte* to, V value) {
    if constexpr (sizeof value == kBytes)
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, value));
    else
      _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, value));
  }
  static void fence() { _mm_sfence(); }
};

}  // namespace

constinit const KernelTable kAvx2Kernels = Kernels<Avx2>::table();

}  // namespace lockstep::comm
#endif
