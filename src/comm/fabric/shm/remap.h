// Changes what is mapped at an address of this process, in one step: other threads that read there
// see the same bytes before, during and after. All addresses and sizes are of whole pages.
#pragma once

#include <cstddef>
#include <span>

#include "base/os/fd.h"

namespace lockstep::comm {

inline constexpr std::size_t kPageBytes = 4096;

constexpr std::size_t pages_up(std::size_t bytes) {
  return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
}

enum class Sharing {
  shared,    // with all that map this memory
  snapshot,  // reads the file, which must not change; a write copies the page for this process
};
// Maps memory of the file, from this offset on. False, and nothing has changed, if the system
// refuses, as with too many mappings.
bool map_over(std::span<std::byte> pages, const Fd& memfd, std::size_t offset, Sharing sharing);

// Fresh private memory, zeroed: the contents are lost.
bool map_fresh_over(std::span<std::byte> pages);

// Replaces the pages by private ones with the same contents. Nothing may write to them meanwhile.
// False: only some of them are replaced.
bool copy_to_private(std::span<std::byte> pages);

}  // namespace lockstep::comm
