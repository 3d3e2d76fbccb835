#include "comm/torch/shareable_allocator.h"

#include <cstdint>

#include <ATen/ops/empty.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <gtest/gtest.h>

#include "comm/fabric/shm/remap.h"

namespace lockstep::comm {
namespace {

class ShareableAllocatorTest : public testing::Test {
 protected:
  ShareableAllocatorTest() { install_shareable_allocator(); }
  ~ShareableAllocatorTest() override { c10::SetCPUAllocator(c10::GetDefaultCPUAllocator()); }
};

bool begins_a_page(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % kPageBytes == 0;
}

TEST_F(ShareableAllocatorTest, LargeTensorsBeginAtAPageAndSmallOnesAreTorchs) {
  const auto large = at::empty({static_cast<std::int64_t>(kShareableBytes)}, at::kByte);
  const auto small = at::empty({static_cast<std::int64_t>(kShareableBytes) - 1}, at::kByte);
  EXPECT_TRUE(begins_a_page(large.const_data_ptr()));
  const auto torchs = c10::GetDefaultCPUAllocator()->raw_deleter();
  EXPECT_NE(large.storage().data_ptr().get_deleter(), torchs);
  EXPECT_EQ(small.storage().data_ptr().get_deleter(), torchs);
}

TEST_F(ShareableAllocatorTest, ATensorOfTheSameSizeTakesTheMemoryOfAFreedOne) {
  auto larger = at::empty({2 << 20}, at::kByte);  // so much may be kept
  auto first = at::empty({1 << 20}, at::kByte);
  const auto* const memory = first.const_data_ptr();
  larger.reset();
  first.reset();
  EXPECT_NE(at::empty({(1 << 20) + 1}, at::kByte).const_data_ptr(), memory);
  EXPECT_EQ(at::empty({1 << 20}, at::kByte).const_data_ptr(), memory);
}

TEST_F(ShareableAllocatorTest, RawMemoryOfAnySizeCanBeReturned) {
  auto* const allocator = c10::GetCPUAllocator();
  for (const std::size_t bytes : {std::size_t{1}, kShareableBytes, 3 * kShareableBytes}) {
    auto* const memory = static_cast<char*>(allocator->raw_allocate(bytes));
    memory[bytes - 1] = 1;
    allocator->raw_deallocate(memory);
  }
}

TEST_F(ShareableAllocatorTest, TorchReportsThatThereIsNoMemory) {
  EXPECT_THROW((void)c10::GetCPUAllocator()->allocate(std::size_t{1} << 60), c10::Error);
  EXPECT_THROW((void)c10::GetCPUAllocator()->allocate(~std::size_t{0}), c10::Error);
}

TEST(ZeroCopy, IsOnUnderLockstepRunUnlessTheVariableSaysOtherwise) {
  EXPECT_FALSE(wants_zero_copy({}));
  EXPECT_TRUE(wants_zero_copy({{"LOCKSTEP_RUN", "demo/1"}}));
  EXPECT_FALSE(wants_zero_copy({{"LOCKSTEP_RUN", "demo/1"}, {"LOCKSTEP_ZERO_COPY", "0"}}));
  EXPECT_TRUE(wants_zero_copy({{"LOCKSTEP_ZERO_COPY", "1"}}));
}

}  // namespace
}  // namespace lockstep::comm
