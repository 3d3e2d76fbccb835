// Writes a ZIP archive: entries one after the other, stored without compression, each entry's bytes
// at a multiple of 64 (PKWARE's APPNOTE 6.3.9, with ZIP64 if sizes need it).
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::train {

class ZipWriter {
 public:
  // Replaces an existing file.
  static Result<ZipWriter> create(const std::filesystem::path& path);

  // Starts an entry of exactly `bytes` bytes, which append() then writes.
  Result<void> begin(std::string name, std::int64_t bytes);
  Result<void> append(std::span<const char> bytes);
  Result<void> add(std::string name, std::string_view bytes);
  // The last entry is complete: writes the directory, and makes the file durable.
  Result<void> finish() &&;

 private:
  struct Entry {
    std::string name;
    std::int64_t bytes = 0;
    std::int64_t offset = 0;  // of its header
    std::uint32_t crc = 0;
  };

  explicit ZipWriter(Fd file) : file_(std::move(file)) {}
  Result<void> put(std::string_view bytes);
  Result<void> end_entry();

  Fd file_;
  std::int64_t size_ = 0;
  std::int64_t missing_ = 0;  // bytes of the last entry that are still missing
  std::vector<Entry> entries_;
};

}  // namespace lockstep::train
