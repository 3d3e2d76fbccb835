#include <cstring>

#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fuzz_for_test.h"
#include "comm/fabric/tcp/stream.h"

using namespace lockstep;
using namespace lockstep::comm;

namespace {

constexpr std::size_t kBytesMost = 64 * 1024;  // less than a socket buffer's capacity

std::string message(std::uint32_t payload) {
  MessageHeader header{};
  header.payload = payload;
  std::string bytes(sizeof header + payload, 'p');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

std::byte* slots() {
  static void* const memory = ::mmap(nullptr, Stream::kMemoryBytes, PROT_READ | PROT_WRITE,
                                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  LS_CHECK(memory != MAP_FAILED);
  return static_cast<std::byte*>(memory);
}

}  // namespace

LS_FUZZ(stream, {message(0), message(100) + message(0) + message(9000), message(1).substr(0, 10)}) {
  int ends[2];
  LS_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
  Stream stream(net::Socket(Fd(ends[0])), slots());
  {
    const Fd stranger(ends[1]);
    const auto bytes = input.substr(0, kBytesMost);
    [[maybe_unused]] const auto sent = ::write(stranger.get(), bytes.data(), bytes.size());
  }
  for (std::size_t turn = 0; turn < kBytesMost && !stream.is_closed(); ++turn) {
    stream.on_epoll_events(EPOLLIN | EPOLLRDHUP);
    if (!stream.progress()) return;
    while (const auto message = stream.front()) {
      LS_CHECK(message->header.payload <= kSlotBytes);
      volatile std::byte last{};
      for (std::size_t i = 0; i < message->header.payload; ++i) last = message->payload[i];
      (void)last;
      stream.release();
    }
  }
  LS_CHECK(stream.is_closed(), "the end of the connection is not seen");
}
