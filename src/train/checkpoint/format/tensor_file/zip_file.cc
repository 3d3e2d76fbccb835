#include "train/checkpoint/format/tensor_file/zip_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/os/files.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kAlignment = 64;
constexpr std::int64_t kLocalHeader = 30;
constexpr std::int64_t kExtraHeader = 4;
constexpr std::int64_t kCrcInHeader = 14;
// Larger values are stored in a ZIP64 record.
constexpr std::int64_t kMost32 = std::numeric_limits<std::uint32_t>::max();
constexpr std::int64_t kMost16 = std::numeric_limits<std::uint16_t>::max();

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value & 1) != 0 ? 0xedb88320u ^ (value >> 1) : value >> 1;
    table[i] = value;
  }
  return table;
}

std::uint32_t crc_of(std::uint32_t crc, std::span<const char> bytes) {
  static constexpr auto table = crc_table();
  crc = ~crc;
  for (const char byte : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

// Little-endian numbers, one after the other.
class ByteWriter {
 public:
  ByteWriter& u16(std::int64_t value) { return number(value, 2); }
  ByteWriter& u32(std::int64_t value) { return number(value, 4); }
  ByteWriter& u64(std::int64_t value) { return number(value, 8); }
  ByteWriter& bytes(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  ByteWriter& number(std::int64_t value, int width) {
    for (int i = 0; i < width; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xff);
    return *this;
  }
  std::string text_;
};

std::int64_t at_most_32(std::int64_t value) { return std::min(value, kMost32); }

// Writes the common part of both kinds of headers, up to the length of the name.
void describe(ByteWriter& header, std::int64_t bytes, std::uint32_t crc, std::size_t name) {
  header.u16(45).u16(0).u16(0);  // version 4.5, no flags, stored
  header.u16(0).u16(0x21);       // the first of January 1980: the same bytes each time
  header.u32(crc).u32(at_most_32(bytes)).u32(at_most_32(bytes));
  header.u16(static_cast<std::int64_t>(name));
}

}  // namespace

Result<ZipWriter> ZipWriter::create(const std::filesystem::path& path) {
  return ZipWriter(TRY(open_file(path, O_WRONLY | O_CREAT | O_TRUNC, 0644)));
}

Result<void> ZipWriter::put(std::string_view bytes) {
  TRY(write_all(file_.get(), bytes));
  size_ += static_cast<std::int64_t>(bytes.size());
  return {};
}

Result<void> ZipWriter::begin(std::string name, std::int64_t bytes) {
  TRY(end_entry());
  ByteWriter large;
  if (bytes >= kMost32) large.u16(1).u16(16).u64(bytes).u64(bytes);
  const auto head = kLocalHeader + static_cast<std::int64_t>(name.size() + large.text().size());
  const auto padding = kAlignment - (size_ + head + kExtraHeader) % kAlignment;
  ByteWriter header;
  header.u32(0x04034b50);
  describe(header, bytes, 0, name.size());
  header.u16(static_cast<std::int64_t>(large.text().size()) + kExtraHeader + padding);
  header.bytes(name).bytes(large.text());
  // A field that readers skip; 0x4246 is what torch pads with, too.
  header.u16(0x4246).u16(padding).bytes(std::string(static_cast<std::size_t>(padding), 'Z'));
  entries_.push_back({std::move(name), bytes, size_, 0});
  missing_ = bytes;
  return put(header.text());
}

Result<void> ZipWriter::append(std::span<const char> bytes) {
  missing_ -= static_cast<std::int64_t>(bytes.size());
  LS_CHECK(missing_ >= 0);
  entries_.back().crc = crc_of(entries_.back().crc, bytes);
  return put({bytes.data(), bytes.size()});
}

Result<void> ZipWriter::add(std::string name, std::string_view bytes) {
  TRY(begin(std::move(name), static_cast<std::int64_t>(bytes.size())));
  return append(bytes);
}

// The checksum is known only now: its field in the header is written a second time.
Result<void> ZipWriter::end_entry() {
  if (entries_.empty()) return {};
  LS_CHECK(missing_ == 0);
  const auto& entry = entries_.back();
  const auto bytes = ByteWriter().u32(entry.crc).text();
  if (::pwrite(file_.get(), bytes.data(), bytes.size(), entry.offset + kCrcInHeader) !=
      static_cast<ssize_t>(bytes.size()))
    return os_error("writing the sum of " + entry.name, errno);
  return {};
}

Result<void> ZipWriter::finish() && {
  TRY(end_entry());
  const auto begin = size_;
  for (const auto& [name, bytes, offset, crc] : entries_) {
    ByteWriter large;
    if (bytes >= kMost32) large.u64(bytes).u64(bytes);
    if (offset >= kMost32) large.u64(offset);
    const auto extra = static_cast<std::int64_t>(large.text().size());
    ByteWriter header;
    header.u32(0x02014b50).u16(45);
    describe(header, bytes, crc, name.size());
    header.u16(extra > 0 ? extra + kExtraHeader : 0).u16(0).u16(0).u16(0).u32(0);
    header.u32(at_most_32(offset)).bytes(name);
    if (extra > 0) header.u16(1).u16(extra).bytes(large.text());
    TRY(put(header.text()));
  }
  const auto directory = size_;
  const auto bytes = directory - begin;
  const auto count = static_cast<std::int64_t>(entries_.size());
  ByteWriter end;
  if (begin >= kMost32 || count >= kMost16) {
    end.u32(0x06064b50).u64(44).u16(45).u16(45).u32(0).u32(0);
    end.u64(count).u64(count).u64(bytes).u64(begin);
    end.u32(0x07064b50).u32(0).u64(directory).u32(1);
  }
  const auto short_count = std::min(count, kMost16);
  end.u32(0x06054b50).u16(0).u16(0).u16(short_count).u16(short_count);
  end.u32(at_most_32(bytes)).u32(at_most_32(begin)).u16(0);
  TRY(put(end.text()));
  if (::fsync(file_.get()) != 0) return os_error("syncing", errno);
  return {};
}

}  // namespace lockstep::train
