#include "comm/fabric/shm/shared_heap.h"

#include <array>
#include <cstdint>
#include <optional>

#include <gtest/gtest.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

struct Policy {
  int mode = -1;
  std::array<std::uint64_t, 16> nodes{};
};

// The policy of the memory at this address; nullopt where the system does not report it.
std::optional<Policy> policy_at(const void* address) {
  Policy policy;
  const auto told = ::syscall(SYS_get_mempolicy, &policy.mode, policy.nodes.data(),
                              64 * policy.nodes.size(), address, MPOL_F_ADDR);
  if (told != 0) return std::nullopt;
  return policy;
}

// Maps the heap as a peer does, which has another mapping of the same memory.
std::byte* map_again(const SharedHeap& heap, std::size_t bytes) {
  void* const memory =
      ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, heap.memfd().get(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<std::byte*>(memory);
}

TEST(SharedHeap, ABuffersMemoryLiesOnItsOwnersNodeThoughAPeerTouchesItFirst) {
  constexpr std::size_t kHeapBytes = 16 * 4096;
  if (!policy_at(&kHeapBytes)) GTEST_SKIP() << "memory policies are not allowed here";
  cpu_set_t before, one;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  unsigned processor = 0, node = 0;
  ASSERT_EQ(::getcpu(&processor, &node), 0);
  CPU_ZERO(&one);
  CPU_SET(processor, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);  // so that the thread stays on the node
  const auto heap = SharedHeap::create(Bytes(kHeapBytes)).value();
  auto* const peers = map_again(*heap, kHeapBytes);
  ASSERT_NE(peers, nullptr);

  const auto buffer = heap->allocate(Bytes(8192)).value();
  const auto offset = heap->offset_of(buffer.data(), buffer.size()).value();
  peers[offset] = std::byte{1};

  const auto policy = policy_at(peers + offset).value();
  EXPECT_EQ(policy.mode, MPOL_PREFERRED);
  std::array<std::uint64_t, 16> own{};
  own[node / 64] = std::uint64_t{1} << node % 64;
  EXPECT_EQ(policy.nodes, own);
  ::munmap(peers, kHeapBytes);
  ::sched_setaffinity(0, sizeof before, &before);
}

TEST(SharedHeap, WhatIsFreedIsGivenOutAgainAndEmpty) {
  const auto heap = SharedHeap::create(Bytes(4 * 4096)).value();
  const auto first = heap->allocate(Bytes(3 * 4096)).value();
  first[0] = std::byte{7};
  EXPECT_EQ(heap->allocate(Bytes(2 * 4096)).error().code, Code::exhausted);
  heap->free(first);
  const auto whole = heap->allocate(Bytes(4 * 4096)).value();
  EXPECT_EQ(whole[0], std::byte{0});
  heap->free(whole);
}

TEST(SharedHeap, OffsetsOfWhatDoesNotLieInItAreNone) {
  const auto heap = SharedHeap::create(Bytes(4 * 4096)).value();
  const auto buffer = heap->allocate(Bytes(4 * 4096)).value();
  const std::byte elsewhere{};
  EXPECT_EQ(heap->offset_of(buffer.data() + 5, 10), 5U);
  EXPECT_EQ(heap->offset_of(buffer.data() + 5, buffer.size()), std::nullopt);
  EXPECT_EQ(heap->offset_of(&elsewhere, 1), std::nullopt);
  EXPECT_EQ(heap->at(5, buffer.size()), nullptr);
  EXPECT_EQ(heap->at(~std::uint64_t{0}, 1), nullptr);
  heap->free(buffer);
}

}  // namespace
}  // namespace lockstep::comm
