#include "apps/run/trace_file.h"

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/os/files.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kStoredBlockMax = 65535;

// The checksum of RFC 1952, section 8, bit by bit: the texts are short.
std::uint32_t crc32_of(std::string_view text) {
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char each : text) {
    crc ^= static_cast<unsigned char>(each);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xEDB88320 : 0);
  }
  return ~crc;
}

void append_little_endian(std::string& bytes, std::uint32_t value, int count) {
  for (int i = 0; i < count; ++i) bytes += static_cast<char>((value >> (8 * i)) & 0xFF);
}

}  // namespace

std::string gzip_member(std::string_view text) {
  LS_CHECK(text.size() <= kStoredBlockMax);
  const auto size = static_cast<std::uint32_t>(text.size());
  std::string bytes("\x1f\x8b\x08\0\0\0\0\0\0\xff", 10);
  bytes += '\x01';  // the last block, stored
  append_little_endian(bytes, size, 2);
  append_little_endian(bytes, ~size, 2);
  bytes += text;
  append_little_endian(bytes, crc32_of(text), 4);
  append_little_endian(bytes, size, 4);
  return bytes;
}

Result<TraceFile> TraceFile::create(std::filesystem::path path) {
  Fd file = TRY(open_file(unfinished(path), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  return TraceFile(std::move(path), std::move(file));
}

TraceFile::~TraceFile() {
  if (file_) ::unlink(unfinished(path_).c_str());
}

Result<void> TraceFile::begin(std::int64_t base_us) {
  return add_text(
      format("{{\"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": {}000, \"traceEvents\": [\n",
             base_us));
}

Result<void> TraceFile::begin_rank() {
  if (std::exchange(is_first_, false)) return {};
  return add_text(",\n");
}

Result<void> TraceFile::add(std::string_view bytes) {
  TRY(write_all(file_.get(), bytes));
  size_ += static_cast<std::int64_t>(bytes.size());
  return {};
}

Result<std::int64_t> TraceFile::finish() {
  TRY(add_text("\n]}\n"));
  if (::rename(unfinished(path_).c_str(), path_.c_str()) != 0)
    return os_error("writing " + path_.string(), errno);
  file_.reset();
  return size_;
}

std::filesystem::path TraceFile::unfinished(const std::filesystem::path& path) {
  return path.string() + ".unfinished";
}

Result<void> TraceFile::add_text(std::string_view text) { return add(gzip_member(text)); }

}  // namespace lockstep::cli
