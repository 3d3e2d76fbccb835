#include "comm/reduction/reduction.h"

#include <cstring>

#include "base/check.h"
#include "comm/reduction/kernels.h"

namespace lockstep::comm {
namespace {

const KernelTable& kernels_of(InstructionSet set) {
  switch (set) {
#if defined(__x86_64__)
    case InstructionSet::avx512:
      return kAvx512Kernels;
    case InstructionSet::avx2:
      return kAvx2Kernels;
#endif
    default:
      return kPlainKernels;
  }
}

void carry_out(const KernelTable& kernels, std::span<std::byte* const> destinations,
               std::span<const std::byte* const> sources, std::size_t count,
               const ReductionSpec& reduction) {
  LS_CHECK(!sources.empty() && sources.size() <= kReductionOperands);
  LS_CHECK(!destinations.empty() && destinations.size() <= kReductionOperands);
  LS_CHECK(reduction.divisor >= 1);
  const auto kernel = kernels.at(reduction.type, reduction.op);
  LS_CHECK(kernel != nullptr, "{} of {}", text(reduction.op), text(reduction.type));
  kernel({destinations.data(), destinations.size(), sources.data(), sources.size(), count,
          reduction.divisor, reduction.store_mode});
}

}  // namespace

void reduce(std::span<std::byte* const> destinations, std::span<const std::byte* const> sources,
            std::size_t count, const ReductionSpec& reduction) {
  static const KernelTable& kernels = kernels_of(chosen_instruction_set());
  carry_out(kernels, destinations, sources, count, reduction);
}

void reduce_with(InstructionSet set, std::span<std::byte* const> destinations,
                 std::span<const std::byte* const> sources, std::size_t count,
                 const ReductionSpec& reduction) {
  carry_out(kernels_of(set), destinations, sources, count, reduction);
}

void copy_to_all(std::span<std::byte* const> destinations, const std::byte* source,
                 std::size_t bytes, StoreMode stores) {
  if (stores == StoreMode::non_temporal)  // the sum of one
    return reduce(destinations, {&source, 1}, bytes, {DataType::uint8, ReduceOp::sum, 1, stores});
  for (auto* const destination : destinations)
    if (bytes > 0) std::memcpy(destination, source, bytes);
}

void combine(std::byte* out, const std::byte* a, const std::byte* b, std::size_t count,
             DataType type, ReduceOp op) {
  const std::byte* sources[] = {a, b};
  reduce({&out, 1}, sources, count, {type, partial(op)});
}

void finish(std::byte* data, std::size_t count, DataType type, ReduceOp op, int ranks) {
  if (op != ReduceOp::average) return;
  const std::byte* source = data;
  reduce({&data, 1}, {&source, 1}, count, {type, op, ranks});
}

}  // namespace lockstep::comm
