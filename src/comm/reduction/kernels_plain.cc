// The kernels that every processor runs, in registers of 16 bytes: SSE2 on an x86-64.
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <cstddef>

#include "comm/reduction/kernel_templates.h"

namespace lockstep::comm {
namespace {

struct Plain {
  static constexpr int kBytes = 16;
  static constexpr bool kConvertsHalves = false;
#if defined(__SSE2__)
  static constexpr bool kHasNonTemporalStores = true;
  template <class V>
  static void store_non_temporal(std::byte* to, V value) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to), __builtin_bit_cast(__m128i, value));
  }
  static void fence() { _mm_sfence(); }
#else
  static constexpr bool kHasNonTemporalStores = false;
#endif
};

}  // namespace

constinit const KernelTable kPlainKernels = Kernels<Plain>::table();

}  // namespace lockstep::comm
