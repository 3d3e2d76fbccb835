#include "platform/insight/series/codec/xor.h"

#include <bit>

namespace lockstep::insight::series {

void encode_xor(std::span<const std::uint64_t> values, std::size_t most, std::string& out) {
  const std::size_t begin = out.size();
  BitWriter bits(out);
  std::uint64_t previous = 0;
  unsigned leading = 64, length = 0;  // the last place
  for (const std::uint64_t value : values) {
    const std::uint64_t changed = value ^ previous;
    previous = value;
    if (changed == 0) {
      bits.put(0, 1);
      continue;
    }
    const auto before = static_cast<unsigned>(std::countl_zero(changed));
    const auto after = static_cast<unsigned>(std::countr_zero(changed));
    if (before >= leading && after >= 64 - leading - length) {
      bits.put(1, 2);
    } else {
      leading = before;
      length = 64 - before - after;
      bits.put(3, 2);
      bits.put(leading, 6);
      bits.put(length - 1, 6);
    }
    bits.put(changed >> (64 - leading - length), length);
    if (out.size() - begin > most) break;
  }
  bits.finish();
}

Result<void> decode_xor(ByteSpan bytes, std::span<std::uint64_t> out) {
  BitReader bits(bytes);
  std::uint64_t previous = 0;
  unsigned leading = 64, length = 0;
  for (std::uint64_t& value : out) {
    if (bits.get(1) != 0) {
      if (bits.get(1) != 0) {
        leading = static_cast<unsigned>(bits.get(6));
        length = static_cast<unsigned>(bits.get(6)) + 1;
      }
      if (length == 0 || leading + length > 64 || !bits.ok())
        return Error{Code::corrupt, "a column of values is damaged"};
      previous ^= bits.get(length) << (64 - leading - length);
    }
    value = previous;
  }
  if (!bits.ok()) return Error{Code::corrupt, "a column of values is damaged"};
  return {};
}

}  // namespace lockstep::insight::series
