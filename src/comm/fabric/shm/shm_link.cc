#include "comm/fabric/shm/shm_link.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kTokenBytes = 64;
constexpr std::size_t kCacheLine = 64;

struct alignas(4096) Slot {
  std::byte payload[kSlotBytes];
};

// The counters never wrap; the index of a slot is its number modulo kSlots.
struct Ring {
  alignas(kCacheLine) std::atomic<std::uint64_t> published;  // by the writer
  alignas(kCacheLine) std::atomic<std::uint64_t> released;   // by the reader
  alignas(kCacheLine) MessageHeader headers[kSlots];
  Slot slots[kSlots];
};

struct Side {
  alignas(kCacheLine) std::atomic<std::uint32_t> sleeping[kLinkChannelCount];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

// Zeroes, the content of a new memfd, are its valid initial state.
struct ShmLinkSegment::Layout {
  alignas(kCacheLine) char token[kTokenBytes];
  Side sides[2];                     // creator, opener
  Ring rings[2][kLinkChannelCount];  // by writing side
};

namespace {

class ShmLink : public Link {
 public:
  ShmLink(ShmLinkSegment segment, ShmSide side, Doorbell doorbell)
      : segment_(std::move(segment)),
        bell_(std::move(doorbell)),
        own_(static_cast<std::size_t>(side)),
        peer_(1 - own_) {}

  std::byte* claim(LinkChannel channel) override {
    auto& ring = out(channel);
    const auto next = ring.published.load(std::memory_order_relaxed);
    // seq_cst, as all loads between set_sleeping() and the sleep.
    if (next - ring.released.load() >= kSlots) return nullptr;
    return ring.slots[next % kSlots].payload;
  }

  void publish(LinkChannel channel, const MessageHeader& header) override {
    auto& ring = out(channel);
    const auto next = ring.published.load(std::memory_order_relaxed);
    ring.headers[next % kSlots] = header;
    ring.published.store(next + 1);
    notify(channel);
  }

  std::optional<IncomingMessage> front(LinkChannel channel) override {
    auto& ring = in(channel);
    const auto next = ring.released.load(std::memory_order_relaxed);
    if (next == ring.published.load()) return std::nullopt;
    return IncomingMessage{ring.headers[next % kSlots], ring.slots[next % kSlots].payload};
  }

  void release(LinkChannel channel) override {
    auto& ring = in(channel);
    ring.released.store(ring.released.load(std::memory_order_relaxed) + 1);
    notify(channel);
  }

  std::uint64_t sent(LinkChannel channel) const override { return out(channel).published.load(); }
  bool has_unsent(LinkChannel) const override { return false; }  // there is no wire
  std::uint64_t arrived(LinkChannel channel) const override { return in(channel).published.load(); }

  std::size_t piece_bytes() const override { return kLocalPieceBytes; }

  void set_sleeping(LinkChannel channel, bool sleeping) override {
    sleeping_flag(own_, channel).store(sleeping ? 1 : 0);
  }
  void notify(LinkChannel channel) override {
    auto& sleeps = sleeping_flag(peer_, channel);
    if (sleeps.load() != 0 && sleeps.exchange(0) != 0) bell_.ring();
  }

 private:
  Ring& out(LinkChannel channel) const {
    return segment_.layout()->rings[own_][static_cast<std::size_t>(channel)];
  }
  Ring& in(LinkChannel channel) const {
    return segment_.layout()->rings[peer_][static_cast<std::size_t>(channel)];
  }
  std::atomic<std::uint32_t>& sleeping_flag(std::size_t side, LinkChannel channel) const {
    return segment_.layout()->sides[side].sleeping[static_cast<std::size_t>(channel)];
  }

  ShmLinkSegment segment_;
  Doorbell bell_;
  std::size_t own_, peer_;
};

Result<void*> map_shared(int fd, std::size_t size) {
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return os_error("mapping shared memory", errno);
  ::madvise(memory, size, MADV_DONTFORK);
  return memory;
}

}  // namespace

Result<ShmLinkSegment> ShmLinkSegment::create(const std::string& token) {
  LS_CHECK(!token.empty() && token.size() <= kTokenBytes);
  Fd fd(::memfd_create("lockstep-link", MFD_CLOEXEC));
  if (!fd) return os_error("making shared memory", errno);
  if (::ftruncate(fd.get(), sizeof(Layout)) != 0) return os_error("sizing shared memory", errno);
  auto* layout = static_cast<Layout*>(TRY(map_shared(fd.get(), sizeof(Layout))));
  std::memcpy(layout->token, token.data(), token.size());
  return ShmLinkSegment(std::move(fd), layout);
}

Result<ShmLinkSegment> ShmLinkSegment::map(const Fd& memfd) {
  struct stat status{};
  if (::fstat(memfd.get(), &status) != 0) return os_error("looking at shared memory", errno);
  if (status.st_size != sizeof(Layout))
    return Error{Code::corrupt,
                 "a peer's shared memory has another layout; the ranks run different "
                 "versions"};
  return ShmLinkSegment(Fd(), static_cast<Layout*>(TRY(map_shared(memfd.get(), sizeof(Layout)))));
}

ShmLinkSegment::ShmLinkSegment(ShmLinkSegment&& other) noexcept
    : memfd_(std::move(other.memfd_)), layout_(std::exchange(other.layout_, nullptr)) {}

ShmLinkSegment::~ShmLinkSegment() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
}

std::string ShmLinkSegment::token() const {
  return {layout_->token, ::strnlen(layout_->token, kTokenBytes)};
}

std::unique_ptr<Link> make_shm_link(ShmLinkSegment segment, ShmSide side, Doorbell doorbell) {
  segment.close_memfd();
  return std::make_unique<ShmLink>(std::move(segment), side, std::move(doorbell));
}

}  // namespace lockstep::comm
