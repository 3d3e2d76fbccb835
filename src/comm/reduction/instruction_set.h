// The vector instructions for the arithmetic. All of them give the same bits.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/result.h"

namespace lockstep::comm {

enum class InstructionSet : std::uint8_t {
  plain,   // the compiler's baseline: SSE2 on x86-64
  avx2,    // AVX2 and F16C
  avx512,  // AVX-512 F, BW, DQ and VL
};

std::string_view text(InstructionSet set);
// The instruction sets of this processor, the best last.
std::span<const InstructionSet> instruction_sets();
// Returns the wanted one, by name, or else the best. Error: it is not in `there`; the message lists
// those.
Result<InstructionSet> choose_instruction_set(std::optional<std::string_view> wanted,
                                              std::span<const InstructionSet> there);
// The instruction set of reduce(): the one in LOCKSTEP_SIMD, read once, or else the best. An
// unknown name in LOCKSTEP_SIMD only causes a warning: a slower sum is no reason to end a run.
InstructionSet chosen_instruction_set();

}  // namespace lockstep::comm
