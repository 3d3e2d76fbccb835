// The kernels with AVX-512 F, BW, DQ and VL; src/CMakeLists.txt has the flags.
#if defined(__AVX512BW__)
#include <cstddef>
#include <cstdint>

#include <immintrin.h>

#include "comm/reduction/kernel_templates.h"

namespace lockstep::comm {
namespace {

// Uses the masked forms with all lanes: g++ 12 warns that the other forms in its header read
// uninitialized values.
struct Avx512 {
  static constexpr int kBytes = 64;
  static constexpr bool kConvertsHalves = true;
  static Lanes<float, 16> floats_of(Lanes<std::uint16_t, 16> halves) {
    return _mm512_maskz_cvtph_ps(kAll, __builtin_bit_cast(__m256i, halves));
  }
  static Lanes<std::uint16_t, 16> halves_of(Lanes<float, 16> floats) {
    using Halves = Lanes<std::uint16_t, 16>;
    return __builtin_bit_cast(Halves,
                              _mm512_maskz_cvtps_ph(kAll, floats, _MM_FROUND_TO_NEAREST_INT));
  }
  static constexpr bool kHasNonTemporalStores = true;
  template <class V>
  static void store_non_temporal(std::byte* to, V value) {
    if constexpr (sizeof value == kBytes)
      _mm512_stream_si512(reinterpret_cast<__m512i*>(to), __builtin_bit_cast(__m512i, value));
    else
      _mm256_stream_si256(reinterpret_cast<__m256i*>(to), __builtin_bit_cast(__m256i, value));
  }
  static void fence() { _mm_sfence(); }
  static constexpr __mmask16 kAll = 0xffff;
};

}  // namespace

constinit const KernelTable kAvx512Kernels = Kernels<Avx512>::table();

}  // namespace lockstep::comm
#endif
