#include "comm/fabric/shm/mapping.h"

#include <cerrno>
#include <map>
#include <utility>

#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/mutex.h"

namespace lockstep::comm {
namespace {

using Identity = std::pair<dev_t, ino_t>;

struct MappingRegistry {
  Mutex mutex;  // guards all below
  std::map<Identity, std::weak_ptr<SharedMapping>> mappings LS_GUARDED_BY(mutex);
};

MappingRegistry& mapping_registry() {
  static auto* all = new MappingRegistry;  // never destroyed: buffers may outlive main
  return *all;
}

}  // namespace

Result<Fd> make_shared_memory(const char* name, std::size_t size) {
  Fd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return os_error("making shared memory", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(size)) != 0)
    return os_error("sizing shared memory", errno);
  return fd;
}

Result<std::shared_ptr<SharedMapping>> SharedMapping::map_shared(const Fd& memfd, OnFork children) {
  struct stat status{};
  if (::fstat(memfd.get(), &status) != 0) return os_error("looking at shared memory", errno);
  auto& all = mapping_registry();
  Lock lock(all.mutex);
  auto& known = all.mappings[{status.st_dev, status.st_ino}];
  if (auto mapping = known.lock()) return mapping;
  std::erase_if(all.mappings, [&](const auto& entry) {
    return &entry.second != &known && entry.second.expired();
  });
  const auto size = static_cast<std::size_t>(status.st_size);
  void* memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, memfd.get(), 0);
  if (memory == MAP_FAILED) return os_error("mapping shared memory", errno);
  if (children == OnFork::not_inherited) ::madvise(memory, size, MADV_DONTFORK);
  ::madvise(memory, size, MADV_DONTDUMP);
  std::shared_ptr<SharedMapping> mapping(new SharedMapping(static_cast<std::byte*>(memory), size));
  known = mapping;
  return mapping;
}

SharedMapping::~SharedMapping() { ::munmap(data_, size_); }

}  // namespace lockstep::comm
