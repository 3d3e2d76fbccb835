#include "comm/fabric/shm/shm_link.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"

namespace lockstep {
namespace {

constexpr std::size_t kTokenBytes = 64;
constexpr std::size_t kCacheLine = 64;

struct alignas(4096) Slot {
  std::byte payload[kSlotBytes];
};

// The counters never wrap; a slot's place is its number modulo kSlots.
struct Ring {
  alignas(kCacheLine) std::atomic<std::uint64_t> published;  // by the writer
  alignas(kCacheLine) std::atomic<std::uint64_t> released;   // by the reader
  alignas(kCacheLine) Header headers[kSlots];
  Slot slots[kSlots];
};

struct Side {
  alignas(kCacheLine) std::atomic<std::uint32_t> sleeping[kLaneCount];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace

// Zeroes are its valid initial state, which is what a new memfd has.
struct ShmSegment::Layout {
  alignas(kCacheLine) char token[kTokenBytes];
  Side sides[2];              // creator, guest
  Ring rings[2][kLaneCount];  // by writing side
};

namespace {

class ShmLink : public Link {
 public:
  ShmLink(ShmSegment segment, ShmSide side, Doorbell bell)
      : segment_(std::move(segment)),
        bell_(std::move(bell)),
        own_(static_cast<std::size_t>(side)),
        peer_(1 - own_) {}

  std::byte* claim(Lane lane) override {
    auto& ring = out(lane);
    const auto next = ring.published.load(std::memory_order_relaxed);
    // seq_cst, as all loads that come between set_sleeping() and the sleep.
    if (next - ring.released.load() >= kSlots) return nullptr;
    return ring.slots[next % kSlots].payload;
  }

  void publish(Lane lane, const Header& header) override {
    auto& ring = out(lane);
    const auto next = ring.published.load(std::memory_order_relaxed);
    ring.headers[next % kSlots] = header;
    ring.published.store(next + 1);
    nudge(lane);
  }

  std::optional<Incoming> front(Lane lane) override {
    auto& ring = in(lane);
    const auto next = ring.released.load(std::memory_order_relaxed);
    if (next == ring.published.load()) return std::nullopt;
    return Incoming{ring.headers[next % kSlots], ring.slots[next % kSlots].payload};
  }

  void release(Lane lane) override {
    auto& ring = in(lane);
    ring.released.store(ring.released.load(std::memory_order_relaxed) + 1);
    nudge(lane);
  }

  std::uint64_t sent(Lane lane) const override { return out(lane).published.load(); }
  bool has_unsent(Lane) const override { return false; }  // there is no wire
  std::uint64_t arrived(Lane lane) const override { return in(lane).published.load(); }

  std::size_t piece_bytes() const override { return kLocalPieceBytes; }

  void set_sleeping(Lane lane, bool sleeping) override { flag(own_, lane).store(sleeping ? 1 : 0); }
  void nudge(Lane lane) override {
    auto& sleeps = flag(peer_, lane);
    if (sleeps.load() != 0 && sleeps.exchange(0) != 0) bell_.ring();
  }

 private:
  Ring& out(Lane lane) const {
    return segment_.layout()->rings[own_][static_cast<std::size_t>(lane)];
  }
  Ring& in(Lane lane) const {
    return segment_.layout()->rings[peer_][static_cast<std::size_t>(lane)];
  }
  std::atomic<std::uint32_t>& flag(std::size_t side, Lane lane) const {
    return segment_.layout()->sides[side].sleeping[static_cast<std::size_t>(lane)];
  }

  ShmSegment segment_;
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

Result<ShmSegment> ShmSegment::create(const std::string& token) {
  LS_CHECK(!token.empty() && token.size() <= kTokenBytes);
  Fd fd(::memfd_create("lockstep-link", MFD_CLOEXEC));
  if (!fd) return os_error("making shared memory", errno);
  if (::ftruncate(fd.get(), sizeof(Layout)) != 0) return os_error("sizing shared memory", errno);
  auto* layout = static_cast<Layout*>(TRY(map_shared(fd.get(), sizeof(Layout))));
  std::memcpy(layout->token, token.data(), token.size());
  return ShmSegment(std::move(fd), layout);
}

Result<ShmSegment> ShmSegment::map(const Fd& memfd) {
  struct stat status{};
  if (::fstat(memfd.get(), &status) != 0) return os_error("looking at shared memory", errno);
  if (status.st_size != sizeof(Layout))
    return Error{Code::corrupt,
                 "a peer's shared memory has another layout; the ranks run different "
                 "versions"};
  return ShmSegment(Fd(), static_cast<Layout*>(TRY(map_shared(memfd.get(), sizeof(Layout)))));
}

ShmSegment::ShmSegment(ShmSegment&& other) noexcept
    : memfd_(std::move(other.memfd_)), layout_(std::exchange(other.layout_, nullptr)) {}

ShmSegment::~ShmSegment() {
  if (layout_ != nullptr) ::munmap(layout_, sizeof(Layout));
}

std::string ShmSegment::token() const {
  return {layout_->token, ::strnlen(layout_->token, kTokenBytes)};
}

std::unique_ptr<Link> make_shm_link(ShmSegment segment, ShmSide side, Doorbell bell) {
  segment.close_memfd();
  return std::make_unique<ShmLink>(std::move(segment), side, std::move(bell));
}

}  // namespace lockstep
