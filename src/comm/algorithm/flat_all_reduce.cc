#include "comm/algorithm/flat_all_reduce.h"

#include <array>

#include "base/check.h"
#include "comm/algorithm/copy.h"
#include "comm/reduction/reduction.h"

namespace lockstep {

Result<void> flat_all_reduce(Exchange& exchange, std::span<std::byte> buffer, DataType type,
                             ReduceOp op) {
  LS_CHECK(buffer.size() <= kFlatBytes);
  const auto rank = exchange.rank(), size = exchange.size();
  for (int i = 1; i < size; ++i) {  // each begins with another peer
    const int peer = (rank + i) % size;
    copy_bytes(TRY(exchange.claim(peer)), buffer.data(), buffer.size());
    exchange.publish(peer, 0, buffer.size());
  }
  const auto count = buffer.size() / size_of(type);
  alignas(64) std::array<std::byte, kFlatBytes> sum;
  for (int source = 0; source < size; ++source) {
    const auto* share =
        source == rank ? buffer.data() : TRY(exchange.receive(source, 0, buffer.size()));
    if (source == 0)
      copy_bytes(sum.data(), share, buffer.size());
    else
      combine(sum.data(), sum.data(), share, count, type, op);
    if (source != rank) exchange.release(source);
  }
  finish(sum.data(), count, type, op, size);
  copy_bytes(buffer.data(), sum.data(), buffer.size());
  return {};
}

}  // namespace lockstep
