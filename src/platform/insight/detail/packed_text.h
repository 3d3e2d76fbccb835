// The text of a chunk of lines, compressed by zstd for the store.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace lockstep::insight {

// None if the text is short, or would not become smaller.
std::optional<std::string> pack(std::string_view text);
// Error: `packed` is damaged, or its text is larger than that of any chunk.
Result<std::string> unpack(std::string_view packed);

}  // namespace lockstep::insight
