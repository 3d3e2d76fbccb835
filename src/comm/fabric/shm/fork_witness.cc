#include "comm/fabric/shm/fork_witness.h"

#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

#include "comm/fabric/shm/remap.h"

namespace lockstep::comm {

std::unique_ptr<ForkWitness> ForkWitness::create() {
  Fd memfd(::memfd_create("lockstep-fork", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd || ::ftruncate(memfd.get(), static_cast<off_t>(kPageBytes)) != 0) return nullptr;
  return std::unique_ptr<ForkWitness>(new ForkWitness(std::move(memfd)));
}

bool ForkWitness::map() {
  void* const page =
      ::mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd_.get(), 0);
  page_ = page == MAP_FAILED ? nullptr : page;
  return page_ != nullptr;
}

void ForkWitness::unmap() {
  if (void* const page = std::exchange(page_, nullptr)) ::munmap(page, kPageBytes);
}

bool ForkWitness::children_are_gone() {
  sealed_ = sealed_ || ::fcntl(memfd_.get(), F_ADD_SEALS, F_SEAL_WRITE) == 0;
  return sealed_;
}

}  // namespace lockstep::comm
