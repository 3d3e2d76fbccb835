#include "train/checkpoint/format/tensor_file/hash.h"

#include <xxhash.h>
// With it XXH3 uses the processor's instructions: AVX2 is three times as fast as SSE2, the only one
// that every x86-64 has.
#if defined(__x86_64__) && __has_include(<xxh_x86dispatch.h>)
#include <xxh_x86dispatch.h>
#endif

#include "base/check.h"
#include "base/format.h"

namespace lockstep::train {

struct Hash::State {
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(xxh); }

  XXH3_state_t* xxh = XXH3_createState();
};

Hash::Hash() : state_(std::make_unique<State>()) {
  LS_CHECK(state_->xxh != nullptr, "no memory for a hash");
  XXH3_128bits_reset(state_->xxh);
}
Hash::Hash(Hash&&) noexcept = default;
Hash& Hash::operator=(Hash&&) noexcept = default;
Hash::~Hash() = default;

void Hash::add(const void* data, std::size_t size) { XXH3_128bits_update(state_->xxh, data, size); }

std::string Hash::hex() const {
  const auto value = XXH3_128bits_digest(state_->xxh);
  return format("{:016x}{:016x}", value.high64, value.low64);
}

}  // namespace lockstep::train
