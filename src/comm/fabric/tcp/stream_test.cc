#include "comm/fabric/tcp/stream.h"

#include <deque>
#include <memory>
#include <vector>

#include <gtest/gtest.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

namespace lockstep::comm {
namespace {

struct Unmapper {
  void operator()(std::byte* memory) const { ::munmap(memory, Stream::kMemoryBytes); }
};
using SlotMemory = std::unique_ptr<std::byte, Unmapper>;

SlotMemory slot_memory() {
  void* const memory = ::mmap(nullptr, Stream::kMemoryBytes, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LS_CHECK(memory != MAP_FAILED);
  return SlotMemory(static_cast<std::byte*>(memory));
}

std::byte pattern(std::size_t message, std::size_t place) {
  return static_cast<std::byte>(message * 37 + place * 11 + place / 251);
}

// Two ends of a connection; each may be a Stream, or bytes written by hand.
class Connection : public testing::Test {
 protected:
  Connection() {
    int ends[2];
    LS_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    by_hand_ = ends[0];
    sender_ = std::make_unique<Stream>(net::Socket(Fd(ends[0])), memory_[0].get());
    receiver_ = std::make_unique<Stream>(net::Socket(Fd(ends[1])), memory_[1].get());
  }

  // Simulates the events of epoll.
  void stir() {
    for (auto* stream : {sender_.get(), receiver_.get()})
      if (stream != nullptr) stream->on_epoll_events(EPOLLIN | EPOLLOUT);
  }
  void move() {
    stir();
    if (sender_) {
      ASSERT_TRUE(sender_->progress().has_value());
    }
    ASSERT_TRUE(receiver_->progress().has_value());
  }

  // False when there is no slot.
  bool send(std::size_t bytes) {
    auto* const payload = sender_->claim();
    if (payload == nullptr) return false;
    for (std::size_t i = 0; i < bytes; ++i) payload[i] = pattern(sent_.size() + taken_, i);
    sender_->publish(
        {.sequence = sent_.size() + taken_, .payload = static_cast<std::uint32_t>(bytes)});
    sent_.push_back(bytes);
    return true;
  }
  // Checks that the oldest message is the one that was sent; false when none has arrived.
  bool take() {
    const auto message = receiver_->front();
    if (!message) return false;
    EXPECT_EQ(message->header.sequence, taken_);
    EXPECT_EQ(message->header.payload, sent_.front());
    for (std::size_t i = 0; i < sent_.front(); ++i)
      if (message->payload[i] != pattern(taken_, i)) {
        ADD_FAILURE() << "message " << taken_ << " of " << sent_.front() << " bytes at " << i;
        break;
      }
    receiver_->release();
    sent_.pop_front();
    ++taken_;
    return true;
  }
  void take_all() {
    for (int idle = 0; !sent_.empty() && idle < 100; ++idle) {
      move();
      while (take()) idle = 0;
    }
    EXPECT_TRUE(sent_.empty());
  }
  void write_by_hand(const void* bytes, std::size_t size) {
    ASSERT_EQ(::write(by_hand_, bytes, size), static_cast<ssize_t>(size));
  }

  SlotMemory memory_[2] = {slot_memory(), slot_memory()};
  int by_hand_ = -1;
  std::unique_ptr<Stream> sender_, receiver_;
  std::deque<std::size_t> sent_;  // bytes of those that were not received yet
  std::size_t taken_ = 0;
};

TEST_F(Connection, MessagesOfAllSizesArriveWholeAndInOrder) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{8}, std::size_t{4097}, std::size_t{8159},
        std::size_t{8160}, std::size_t{8161}, std::size_t{100'001}, kSlotBytes}) {
    ASSERT_TRUE(send(bytes));
    take_all();
    ASSERT_TRUE(send(bytes));
    ASSERT_TRUE(send(3));
    take_all();
  }
  EXPECT_EQ(sender_->sent(), 27u);
  EXPECT_EQ(receiver_->arrived(), 27u);
}

TEST_F(Connection, AReaderThatIsBehindHoldsTheSenderUpAndLosesNothing) {
  std::size_t published = 0;
  for (int idle = 0; idle < 20; ++idle) {
    move();
    if (!send(kSlotBytes)) continue;
    ASSERT_LT(++published, 64U) << "nothing holds the sender up";
    idle = 0;
  }
  EXPECT_GE(published, 2 * kSlots);
  EXPECT_EQ(receiver_->arrived(), kSlots);
  take_all();
  ASSERT_TRUE(send(5));
  take_all();
}

TEST_F(Connection, ManySmallMessagesAtOnceWaitForTheirReader) {
  for (std::size_t bytes = 0; bytes < 300; ++bytes)
    while (!send(bytes)) {
      move();
      take();
    }
  take_all();
}

TEST_F(Connection, AMessageMayComeByteByByte) {
  const MessageHeader header{.sequence = 0, .bytes = 40, .payload = 40};
  std::vector<std::byte> bytes(sizeof header + 40);
  std::memcpy(bytes.data(), &header, sizeof header);
  for (std::size_t i = 0; i < 40; ++i) bytes[sizeof header + i] = pattern(0, i);
  for (int message = 0; message < 2; ++message) {
    for (const auto byte : bytes) {
      EXPECT_FALSE(receiver_->front());
      write_by_hand(&byte, 1);
      receiver_->on_epoll_events(EPOLLIN);
      ASSERT_TRUE(receiver_->progress().has_value());
    }
    const auto came = receiver_->front();
    ASSERT_TRUE(came.has_value());
    EXPECT_EQ(came->header, header);
    EXPECT_EQ(came->payload[39], pattern(0, 39));
    receiver_->release();
  }
}

TEST_F(Connection, ALengthThatNoMessageHasIsRefused) {
  const MessageHeader header{.payload = kSlotBytes + 1};
  write_by_hand(&header, sizeof header);
  const auto moved = receiver_->progress();
  ASSERT_FALSE(moved.has_value());
  EXPECT_EQ(moved.error().code, Code::corrupt);
  EXPECT_FALSE(receiver_->front());
}

TEST_F(Connection, TheEndShowsWhenAllThatCameBeforeHasItsSlot) {
  for (std::size_t i = 0; i <= kSlots; ++i) ASSERT_TRUE(send(100));
  sender_.reset();
  receiver_->on_epoll_events(EPOLLIN | EPOLLRDHUP);
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_FALSE(receiver_->is_closed());
  EXPECT_TRUE(take());
  EXPECT_TRUE(receiver_->has_work());
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_TRUE(receiver_->is_closed());
  EXPECT_EQ(receiver_->close_reason(), "");
  EXPECT_FALSE(receiver_->has_work());
  for (std::size_t i = 0; i < kSlots; ++i) EXPECT_TRUE(take());
}

TEST_F(Connection, WhoSendsToAClosedEndLearnsItWithoutASignal) {
  receiver_.reset();
  ASSERT_TRUE(send(10));
  sender_->on_epoll_events(EPOLLHUP);
  ASSERT_TRUE(sender_->progress().has_value());
  EXPECT_TRUE(sender_->is_closed());
  EXPECT_FALSE(sender_->has_work());
}

TEST_F(Connection, WhoExpectsAMessageFindsItWithoutAWordOfEpoll) {
  move();
  ASSERT_TRUE(send(10));
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_FALSE(receiver_->front());
  EXPECT_TRUE(receiver_->assume_readable());
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_TRUE(take());
  EXPECT_TRUE(receiver_->assume_readable());
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_FALSE(receiver_->front());
}

TEST_F(Connection, TheRestOfAMessageIsLeftToEpoll) {
  const MessageHeader header{.payload = 40};
  write_by_hand(&header, sizeof header);
  EXPECT_TRUE(receiver_->assume_readable());
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_FALSE(receiver_->assume_readable());
  EXPECT_FALSE(receiver_->has_work());
}

TEST_F(Connection, WithoutNewsThereIsNothingToDo) {
  move();
  EXPECT_FALSE(receiver_->has_work());
  ASSERT_TRUE(send(10));
  receiver_->on_epoll_events(EPOLLIN);
  EXPECT_TRUE(receiver_->has_work());
  ASSERT_TRUE(receiver_->progress().has_value());
  EXPECT_FALSE(receiver_->has_work());
  EXPECT_TRUE(take());
}

}  // namespace
}  // namespace lockstep::comm
