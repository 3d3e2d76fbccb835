#include "comm/fabric/shm/remap.h"

#include <algorithm>
#include <cstring>

#include <sys/mman.h>
#include <sys/types.h>

namespace lockstep::comm {
namespace {

// The memory that exists twice while pages are copied.
constexpr std::size_t kCopiedAtOnce = std::size_t{4} << 20;

void* map_private(void* at, std::size_t bytes, int flags) {
  return ::mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}

bool copy_piece(std::span<std::byte> pages) {
  void* const copy = map_private(nullptr, pages.size(), 0);
  if (copy == MAP_FAILED) return false;
  std::memcpy(copy, pages.data(), pages.size());
  if (::mremap(copy, pages.size(), pages.size(), MREMAP_MAYMOVE | MREMAP_FIXED, pages.data()) !=
      MAP_FAILED)
    return true;
  ::munmap(copy, pages.size());
  return false;
}

}  // namespace

bool map_over(std::span<std::byte> pages, const Fd& memfd, std::size_t offset, Sharing sharing) {
  const int flags = (sharing == Sharing::shared ? MAP_SHARED : MAP_PRIVATE) | MAP_FIXED;
  return ::mmap(pages.data(), pages.size(), PROT_READ | PROT_WRITE, flags | MAP_NORESERVE,
                memfd.get(), static_cast<off_t>(offset)) != MAP_FAILED;
}

bool map_fresh_over(std::span<std::byte> pages) {
  return map_private(pages.data(), pages.size(), MAP_FIXED) != MAP_FAILED;
}

bool copy_to_private(std::span<std::byte> pages) {
  for (; !pages.empty(); pages = pages.subspan(std::min(kCopiedAtOnce, pages.size())))
    if (!copy_piece(pages.first(std::min(kCopiedAtOnce, pages.size())))) return false;
  return true;
}

}  // namespace lockstep::comm
