#include "comm/simulated/fiber.h"

#include <cerrno>
#include <utility>

#include <boost/context/fiber.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define LS_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#endif

namespace lockstep::comm {
namespace {

std::size_t page() { return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)); }

// The caller owns the memory.
struct BorrowedStack {
  boost::context::stack_context allocate() { return context; }
  void deallocate(boost::context::stack_context&) {}
  boost::context::stack_context context;
};

// Informs AddressSanitizer when a thread switches from one stack to another. Its data about a stack
// remains when the body has ended: frames of Boost.Context are still on it.
class StackSwitch {
 public:
#ifdef LS_ADDRESS_SANITIZER
  // Call before the switch to `to`.
  void start_switch(std::span<const std::byte> to) {
    __sanitizer_start_switch_fiber(&fake_stack_, to.data(), to.size());
  }
  // Call after the switch (back); returns the stack before the switch.
  std::span<const std::byte> finish_switch() {
    const void* bottom = nullptr;
    std::size_t size = 0;
    __sanitizer_finish_switch_fiber(fake_stack_, &bottom, &size);
    return {static_cast<const std::byte*>(bottom), size};
  }

 private:
  void* fake_stack_ = nullptr;
#else
  void start_switch(std::span<const std::byte>) {}
  std::span<const std::byte> finish_switch() { return {}; }
#endif
};

}  // namespace

Result<FiberStacks> FiberStacks::create(std::size_t count, std::size_t bytes) {
  LS_CHECK(count > 0 && bytes > page() && bytes % page() == 0);
  void* const begin = ::mmap(nullptr, count * bytes, PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (begin == MAP_FAILED)
    return os_error(format("reserving {} stacks of {} bytes", count, bytes), errno);
  FiberStacks stacks(static_cast<std::byte*>(begin), count, bytes);
  for (std::size_t i = 0; i < count; ++i)
    if (::mprotect(stacks.begin_ + i * bytes, page(), PROT_NONE) != 0)
      return os_error("guarding a stack", errno);
  return stacks;
}

FiberStacks::FiberStacks(FiberStacks&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), count_(other.count_), bytes_(other.bytes_) {}

FiberStacks::~FiberStacks() {
  if (begin_ != nullptr) ::munmap(begin_, count_ * bytes_);
}

std::span<std::byte> FiberStacks::operator[](std::size_t i) const {
  LS_CHECK(i < count_);
  return {begin_ + i * bytes_ + page(), bytes_ - page()};
}

class Fiber::Impl {
 public:
  Impl(std::span<std::byte> stack, std::function<void()> body)
      : stack_(stack), body_(std::move(body)) {
    BorrowedStack borrowed;
    borrowed.context.sp = stack.data() + stack.size();
    borrowed.context.size = stack.size();
    inside_ = boost::context::fiber(
        std::allocator_arg, BorrowedStack(borrowed),
        [this](boost::context::fiber&& outside) { return run(std::move(outside)); });
  }
  ~Impl() { LS_CHECK(ended_); }

  bool ended() const { return ended_; }

  void resume() {
    LS_CHECK(!ended_);
    from_outside_.start_switch(stack_);
    inside_ = std::move(inside_).resume();
    from_outside_.finish_switch();
  }

  void yield() {
    from_inside_.start_switch(outside_stack_);
    outside_ = std::move(outside_).resume();
    outside_stack_ = from_inside_.finish_switch();
  }

 private:
  boost::context::fiber run(boost::context::fiber&& outside) {
    outside_ = std::move(outside);
    outside_stack_ = from_inside_.finish_switch();
    body_();
    ended_ = true;
    from_inside_.start_switch(outside_stack_);
    return std::move(outside_);
  }

  const std::span<std::byte> stack_;
  const std::function<void()> body_;
  boost::context::fiber inside_, outside_;
  StackSwitch from_outside_, from_inside_;
  std::span<const std::byte> outside_stack_;
  bool ended_ = false;
};

Fiber::Fiber(std::span<std::byte> stack, std::function<void()> body)
    : impl_(std::make_unique<Impl>(stack, std::move(body))) {}
Fiber::~Fiber() = default;
bool Fiber::ended() const { return impl_->ended(); }
void Fiber::resume() { impl_->resume(); }
void Fiber::yield() { impl_->yield(); }

}  // namespace lockstep::comm
