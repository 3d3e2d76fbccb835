#include "comm/flight/memory.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/format.h"
#include "base/hash.h"
#include "base/os/files.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kGroupBytes = 64;

bool fits_file_name(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '_' || letter == '.';
}

std::string group_in_file_name(std::string_view group) {
  std::string name(group.substr(0, kGroupBytes));
  for (char& letter : name)
    if (!fits_file_name(letter)) letter = '-';
  return name == group ? name : format("{}-{:016x}", name, fnv1a(group));
}

// Allocates the space at once: on a full disk, a write to an unallocated page would kill the
// process.
Result<Fd> make_file(const fs::path& path, std::size_t bytes) {
  ::unlink(path.c_str());
  Fd fd = TRY(open_file(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW));
  if (const int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes)); error != 0) {
    ::unlink(path.c_str());
    return os_error(format("taking space for {}", path.string()), error);
  }
  return fd;
}

Result<std::byte*> map(std::size_t bytes, int flags, int fd) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
  if (memory == MAP_FAILED) return os_error("mapping a flight record", errno);
  return static_cast<std::byte*>(memory);
}

}  // namespace

std::string flight_file_name(int rank, std::string_view group) {
  return format("rank-{}.{}{}", rank, group_in_file_name(group), kFlightFileExtension);
}

Result<FlightMemory> FlightMemory::create_in_file(const fs::path& path, std::size_t bytes,
                                                  const Fill& fill) {
  TRY(make_folders(path.parent_path()));
  const auto unnamed = path.parent_path() / format(".{}.{}", path.filename().string(), ::getpid());
  const Fd fd = TRY(make_file(unnamed, bytes));
  auto mapped = map(bytes, MAP_SHARED, fd.get());
  if (!mapped) {
    ::unlink(unnamed.c_str());
    return std::move(mapped).error();
  }
  FlightMemory memory(*mapped, bytes);
  fill(memory.data());
  if (::rename(unnamed.c_str(), path.c_str()) == 0) return memory;
  const int error = errno;
  ::unlink(unnamed.c_str());
  return os_error(format("naming {}", path.string()), error);
}

Result<FlightMemory> FlightMemory::create_anonymous(std::size_t bytes, const Fill& fill) {
  FlightMemory memory(TRY(map(bytes, MAP_PRIVATE | MAP_ANONYMOUS, -1)), bytes);
  fill(memory.data());
  return memory;
}

FlightMemory::FlightMemory(FlightMemory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

FlightMemory::~FlightMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

}  // namespace lockstep::comm
