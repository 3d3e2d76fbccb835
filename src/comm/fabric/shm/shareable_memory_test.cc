#include "comm/fabric/shm/shareable_memory.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <thread>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/fabric/shm/remap.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kPages = 8;
constexpr std::size_t kBlockBytes = kPages * kPageBytes;

std::shared_ptr<SharedHeap> heap_of(std::size_t blocks) {
  return SharedHeap::create(Bytes(static_cast<std::int64_t>(blocks * kBlockBytes))).value();
}

// As a tensor has it: filled, and with a use that ends before its last page does.
class Tensor {
 public:
  explicit Tensor(std::size_t bytes = kBlockBytes - 100) {
    void* memory = nullptr;
    EXPECT_EQ(::posix_memalign(&memory, kPageBytes, pages_up(bytes)), 0);
    bytes_ = {static_cast<std::byte*>(memory), bytes};
    fill(1);
    ShareableMemory::of_this_process().add(bytes_);
  }
  ~Tensor() {
    EXPECT_TRUE(ShareableMemory::of_this_process().remove(bytes_.data()));
    std::free(bytes_.data());
  }
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;

  std::span<std::byte> bytes() const { return bytes_; }
  void fill(int value) const { std::ranges::fill(bytes_, std::byte(value)); }
  bool is_filled(int value) const {
    return std::ranges::all_of(bytes_, [&](std::byte each) { return each == std::byte(value); });
  }

 private:
  std::span<std::byte> bytes_;
};

std::optional<std::uint64_t> communicate(const std::shared_ptr<SharedHeap>& heap,
                                         std::span<const std::byte> buffer, bool succeeds = true) {
  auto use = ShareableMemory::of_this_process().use(heap, buffer);
  const auto offset = use.offset();
  use.end(succeeds);
  return offset;
}

// The memory of the second collective, as other ranks see it.
std::span<std::byte> move(const std::shared_ptr<SharedHeap>& heap, const Tensor& tensor) {
  communicate(heap, tensor.bytes());
  const auto offset = communicate(heap, tensor.bytes());
  EXPECT_TRUE(offset.has_value());
  return {heap->at(offset.value_or(0), tensor.bytes().size()), tensor.bytes().size()};
}

bool has_room(SharedHeap& heap, std::size_t blocks) {
  const auto memory = heap.allocate(Bytes(static_cast<std::int64_t>(blocks * kBlockBytes)));
  if (memory) heap.free(*memory);
  return memory.has_value();
}

// A child that runs a function, and returns its answer when it is told to go on.
class Child {
 public:
  template <class F>
  explicit Child(F answer) {
    std::array<int, 2> go{};
    EXPECT_EQ(::pipe(go.data()), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(go[1]);
      char byte = 0;
      while (::read(go[0], &byte, 1) > 0) {
      }
      ::_exit(answer() ? 0 : 1);
    }
    ::close(go[0]);
    go_ = Fd(go[1]);
  }
  bool finish() {
    go_.reset();
    int status = -1;
    return ::waitpid(pid_, &status, 0) == pid_ && status == 0;
  }

 private:
  pid_t pid_ = 0;
  Fd go_;
};

TEST(ShareableMemory, ABufferMovesAtItsSecondCollective) {
  const auto heap = heap_of(1);
  const Tensor tensor;
  EXPECT_EQ(communicate(heap, tensor.bytes()), std::nullopt);
  const auto shared = move(heap, tensor);
  EXPECT_TRUE(tensor.is_filled(1));
  EXPECT_EQ(shared.back(), std::byte{1});
  shared[5] = std::byte{2};
  EXPECT_EQ(tensor.bytes()[5], std::byte{2});
  EXPECT_EQ(communicate(heap, tensor.bytes().subspan(7, 9)),
            communicate(heap, tensor.bytes()).value() + 7);
}

TEST(ShareableMemory, PagesThatHoldOtherBytesStay) {
  const auto heap = heap_of(1);
  const Tensor tensor;
  const auto bytes = tensor.bytes();
  const auto page = [&](std::size_t number) {
    return bytes.subspan(number * kPageBytes, kPageBytes);
  };
  communicate(heap, bytes);
  EXPECT_EQ(communicate(heap, bytes.subspan(1)), std::nullopt);
  EXPECT_EQ(communicate(heap, bytes.first(kPageBytes + 1)), std::nullopt);
  EXPECT_TRUE(communicate(heap, page(3)));
  EXPECT_EQ(communicate(heap, page(5)), std::nullopt);  // one moved part
  EXPECT_EQ(communicate(heap, bytes.first(kPageBytes)), std::nullopt);
  EXPECT_TRUE(communicate(heap, bytes.first(6 * kPageBytes)));
  EXPECT_TRUE(communicate(heap, page(5).first(9)));
  EXPECT_TRUE(communicate(heap, bytes));
  EXPECT_TRUE(tensor.is_filled(1));
}

TEST(ShareableMemory, FreedMemoryIsPrivateAndTheHeapHasItAgain) {
  const auto heap = heap_of(1);
  {
    const Tensor tensor;
    move(heap, tensor);
    EXPECT_FALSE(has_room(*heap, 1));
  }
  EXPECT_TRUE(has_room(*heap, 1));
}

TEST(ShareableMemory, StaysWhereItIsIfTheHeapIsFull) {
  const auto heap = heap_of(1);
  const Tensor first, second;
  move(heap, first);
  communicate(heap, second.bytes());
  EXPECT_EQ(communicate(heap, second.bytes()), std::nullopt);
  EXPECT_TRUE(second.is_filled(1));
}

TEST(ShareableMemory, AfterAForkNoProcessSeesTheOthersWrites) {
  const auto heap = heap_of(2);
  const Tensor tensor;
  move(heap, tensor);
  Child child([&] {
    const bool unchanged = tensor.is_filled(1);
    tensor.fill(3);
    return unchanged && tensor.is_filled(3);
  });
  tensor.fill(2);
  move(heap, tensor)[0] = std::byte{2};
  EXPECT_TRUE(child.finish());
  EXPECT_TRUE(tensor.is_filled(2));
}

TEST(ShareableMemory, AChildKeepsItsViewWhenTheParentFreesAndReusesTheMemory) {
  const auto heap = heap_of(2);
  auto tensor = std::make_unique<Tensor>();
  move(heap, *tensor);
  const auto view = tensor->bytes();
  Child child([&] {
    return std::ranges::all_of(view, [](std::byte each) { return each == std::byte{1}; });
  });
  tensor.reset();
  EXPECT_FALSE(has_room(*heap, 2));  // the child still reads it
  const Tensor other;
  other.fill(9);
  move(heap, other);
  EXPECT_TRUE(child.finish());
}

TEST(ShareableMemory, MemoryThatAChildHasSeenIsFreeWhenItHasEnded) {
  const auto heap = heap_of(2);
  const Tensor tensor;
  for (int fork = 0; fork < 3; ++fork) {
    const auto before = move(heap, tensor);
    Child child([] { return true; });
    EXPECT_NE(move(heap, tensor).data(), before.data());
    EXPECT_TRUE(child.finish());
  }
  const auto before = move(heap, tensor);
  EXPECT_TRUE(Child([] { return true; }).finish());
  EXPECT_EQ(move(heap, tensor).data(), before.data());
}

TEST(ShareableMemory, APartInUseAtAForkStaysSharedAndTheChildGetsACopy) {
  const auto heap = heap_of(1);
  const Tensor tensor;
  const auto shared = move(heap, tensor);
  auto use = ShareableMemory::of_this_process().use(heap, tensor.bytes());
  Child child([&] {
    const bool unchanged = tensor.is_filled(1);
    tensor.fill(3);
    return unchanged;
  });
  std::ranges::fill(shared, std::byte{2});  // as another rank
  EXPECT_TRUE(tensor.is_filled(2));
  use.end(true);
  EXPECT_TRUE(child.finish());
  EXPECT_TRUE(tensor.is_filled(2));
}

TEST(ShareableMemory, AChildMayFreeWhatItHasInherited) {
  const auto heap = heap_of(2);
  auto tensor = std::make_unique<Tensor>();
  const auto shared = move(heap, *tensor);
  Child child([&] {
    tensor.reset();
    const Tensor own;
    return communicate(SharedHeap::for_this_process().value(), own.bytes()) == std::nullopt;
  });
  EXPECT_TRUE(child.finish());
  EXPECT_TRUE(tensor->is_filled(1));
  EXPECT_EQ(shared.front(), std::byte{1});
}

TEST(ShareableMemory, WritesOfOtherThreadsDuringForksAreNotLost) {
  const auto heap = heap_of(2);
  const Tensor tensor;
  const auto bytes = tensor.bytes();
  std::atomic<bool> stop = false;
  std::size_t lost = 0;
  move(heap, tensor);
  std::thread writer([&] {
    for (std::size_t i = 0; !stop; ++i) {
      auto& byte = bytes[i % bytes.size()];
      byte = std::byte(i / bytes.size());
      std::atomic_thread_fence(std::memory_order_seq_cst);
      lost += const_cast<volatile std::byte&>(byte) != std::byte(i / bytes.size());
    }
  });
  for (int fork = 0; fork < 20; ++fork) EXPECT_TRUE(Child([] { return true; }).finish());
  stop = true;
  writer.join();
  EXPECT_EQ(lost, 0U);
}

TEST(ShareableMemory, LateWritesAfterAFailureDoNotReachIt) {
  const auto heap = heap_of(2);
  const Tensor tensor;
  const auto shared = move(heap, tensor);
  EXPECT_TRUE(communicate(heap, tensor.bytes(), false));
  std::ranges::fill(shared, std::byte{2});
  EXPECT_TRUE(tensor.is_filled(1));
  EXPECT_FALSE(has_room(*heap, 2));  // that memory is not used again
  EXPECT_NE(move(heap, tensor).data(), shared.data());
}

TEST(ShareableMemory, MayBeFreedBeforeACollectiveEnds) {
  const auto heap = heap_of(1);
  auto tensor = std::make_unique<Tensor>();
  move(heap, *tensor);
  auto use = ShareableMemory::of_this_process().use(heap, tensor->bytes());
  tensor.reset();
  EXPECT_FALSE(has_room(*heap, 1));
  use.end(true);
  EXPECT_TRUE(has_room(*heap, 1));
}

}  // namespace
}  // namespace lockstep::comm
