#include "train/checkpoint/format/tensor_file/data_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <future>
#include <string>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::train {

namespace fs = std::filesystem;

namespace {

constexpr int kNewFile = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW;
constexpr std::size_t kWorthAThread = 1 << 20;
// Bytes written at once: all that are available, from the least that is worth a write. Large,
// because the disk idles between writes, longer on a busy machine.
constexpr std::size_t kWrittenMin = 4 << 20, kWrittenMax = 16 << 20;
constexpr std::size_t kSummed = 1 << 20;

// Not valid if no thread can be created.
template <class Work>
std::future<void> run_async(Work work) {
  try {
    return std::async(std::launch::async, work);
  } catch (const std::system_error&) {
    return {};
  }
}

// The available bytes from `at` on; they end at a page boundary, or at the end.
std::string_view next_to_write(std::string_view bytes, std::size_t at,
                               const DataWriter::WaitForBytes& coming) {
  const auto there = coming(std::min(at + kWrittenMin, bytes.size()));
  auto end = std::min(there, at + kWrittenMax);
  if (end < bytes.size()) end -= end % DataWriter::kPage;
  return bytes.substr(at, end - at);
}

}  // namespace

Result<DataWriter> DataWriter::create(const fs::path& path) {
  return DataWriter(path, TRY(open_file(path, kNewFile)), false);
}

Result<DataWriter> DataWriter::create_direct(const fs::path& path) {
  auto opened = open_file(path, kNewFile | O_DIRECT);
  if (!opened) return create(path);  // whose error message is simpler
  return DataWriter(path, std::move(*opened), true);
}

DataWriter::DataWriter(fs::path path, Fd fd, bool past_cache)
    : path_(std::move(path)), fd_(std::move(fd)), direct_(past_cache) {
  file_.name = path_.filename().string();
}

Result<void> DataWriter::append(std::string_view bytes) {
  return append(bytes, [&](std::size_t) { return bytes.size(); });
}

Result<void> DataWriter::append(std::string_view bytes, const WaitForBytes& coming) {
  // A write past the cache takes the disk's time and no processor's: the checksums are computed
  // meanwhile, and the disk does not wait for them.
  std::future<void> summed;  // its destructor waits
  if (direct_ && bytes.size() >= kWorthAThread)
    summed = run_async([&] {
      for (std::size_t at = 0; at < bytes.size(); at += kSummed) {
        const auto piece = bytes.substr(at, kSummed);
        coming(at + piece.size());
        sum(piece);
      }
    });
  for (std::size_t at = 0; at < bytes.size();) {
    const auto piece = next_to_write(bytes, at, coming);
    TRY(write(piece));
    if (!summed.valid()) sum(piece);
    at += piece.size();
  }
  return {};
}

Result<void> DataWriter::write(std::string_view bytes) {
  const auto done = direct_ ? TRY(write_direct(bytes)) : 0;
  if (auto written = write_all(fd_.get(), bytes.substr(done)); !written)
    return std::move(written).error().with_context(path_.string());
  return {};
}

// Returns the number of bytes written. If that is not all, the rest and all that follows goes
// through the cache. So an error is seen a second time with buffered writes, which every disk
// supports.
Result<std::size_t> DataWriter::write_direct(std::string_view bytes) {
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % kPage == 0;
  const auto whole = aligned ? bytes.size() / kPage * kPage : 0;
  std::size_t done = 0;
  while (done < whole) {
    const auto count = ::write(fd_.get(), bytes.data() + done, whole - done);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<std::size_t>(count);
    if (done % kPage != 0) break;
  }
  if (done == bytes.size()) return done;
  direct_ = false;
  const int flags = ::fcntl(fd_.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd_.get(), F_SETFL, flags & ~O_DIRECT) != 0)
    return os_error(format("writing {}", path_.string()), errno);
  return done;
}

void DataWriter::sum(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto room = static_cast<std::size_t>(kBlockBytes - file_.size % kBlockBytes);
    const auto part = bytes.substr(0, room);
    block_.add(part.data(), part.size());
    file_.size += static_cast<std::int64_t>(part.size());
    if (file_.size % kBlockBytes == 0) close_block();
    bytes.remove_prefix(part.size());
  }
}

void DataWriter::close_block() { file_.checksums.push_back(std::exchange(block_, Hash()).hex()); }

Result<void> DataWriter::align() {
  const auto excess = file_.size % kSliceAlignment;
  return append(std::string(static_cast<std::size_t>(excess ? kSliceAlignment - excess : 0), '\0'));
}

Result<SavedFile> DataWriter::finish() && {
  if (file_.size % kBlockBytes > 0) close_block();
  if (::fsync(fd_.get()) != 0) return os_error(format("syncing {}", path_.string()), errno);
  TRY(sync_folder(path_.parent_path()));
  return std::move(file_);
}

namespace {

Result<void> read_at(int fd, std::span<char> into, std::int64_t offset, std::string_view name) {
  while (!into.empty()) {
    const auto got = ::pread(fd, into.data(), into.size(), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return os_error(format("reading {}", name), errno);
    if (got == 0) return Error{Code::corrupt, format("{} became shorter while it was read", name)};
    into = into.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return {};
}

}  // namespace

Result<DataReader> DataReader::open(const fs::path& path, const SavedFile& file) {
  auto fd = TRY(open_file(path, O_RDONLY | O_NOFOLLOW));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return os_error(format("reading {}", path.string()), errno);
  if (!S_ISREG(status.st_mode) || status.st_size != file.size)
    return Error{Code::corrupt,
                 format("{} has {} bytes, {} were written", file.name, status.st_size, file.size)};
  return DataReader(std::move(fd), file);
}

std::int64_t DataReader::block_size(std::int64_t block) const {
  return std::min(kBlockBytes, file_.size - block * kBlockBytes);
}

Result<void> DataReader::read_block(std::int64_t block, std::span<char> into) {
  const auto offset = block * kBlockBytes;
  TRY(read_at(fd_.get(), into, offset, file_.name));
  Hash hash;
  hash.add(into.data(), into.size());
  if (hash.hex() == file_.checksums[static_cast<std::size_t>(block)]) return {};
  return Error{Code::corrupt,
               format("{} was altered: the checksum of its bytes {} to {} differs", file_.name,
                      offset, offset + static_cast<std::int64_t>(into.size()))};
}

Result<void> DataReader::read(std::int64_t offset, std::span<char> into) {
  const auto size = static_cast<std::int64_t>(into.size());
  LS_CHECK(offset >= 0 && size <= file_.size && offset <= file_.size - size);
  while (!into.empty()) {
    const auto block = offset / kBlockBytes;
    const auto from = offset % kBlockBytes;
    const auto take = std::min(block_size(block) - from, static_cast<std::int64_t>(into.size()));
    const auto part = into.first(static_cast<std::size_t>(take));
    if (take == block_size(block)) {
      TRY(read_block(block, part));
    } else {
      if (cached_block_ != block) {
        cached_block_ = -1;
        cached_bytes_.resize(static_cast<std::size_t>(block_size(block)));
        TRY(read_block(block, cached_bytes_));
        cached_block_ = block;
      }
      std::copy_n(cached_bytes_.begin() + from, take, part.begin());
    }
    into = into.subspan(part.size());
    offset += take;
  }
  return {};
}

}  // namespace lockstep::train
