// TraceFile: a Chrome trace made of the traces of several ranks, for https://ui.perfetto.dev.
//
// Each rank gives the gzip of its events, with commas between them (python/lockstep/_trace.py). A
// gzip file may have several members, which are read as one text: so the ranks' bytes are copied as
// they are, and the text between them becomes members of its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "base/os/fd.h"
#include "base/result.h"

namespace lockstep::cli {

class TraceFile {
 public:
  // Fails if the file cannot be made.
  static Result<TraceFile> create(std::filesystem::path path);
  TraceFile(TraceFile&&) = default;
  TraceFile& operator=(TraceFile&&) = delete;
  ~TraceFile();  // removes it unless it is finished

  // base_us: the zero of the ranks' clock, in microseconds since 1970.
  Result<void> begin(std::int64_t base_us);
  // Before the bytes of each rank.
  Result<void> begin_rank();
  Result<void> add(std::string_view bytes);
  // The number of bytes. Only now the file has its name.
  Result<std::int64_t> finish();

 private:
  TraceFile(std::filesystem::path path, Fd file) : path_(std::move(path)), file_(std::move(file)) {}
  static std::filesystem::path unfinished(const std::filesystem::path& path);
  Result<void> add_text(std::string_view text);

  std::filesystem::path path_;
  Fd file_;
  std::int64_t size_ = 0;
  bool is_first_ = true;
};

// The text, not compressed, as a member of a gzip file (RFC 1952). At most 65,535 bytes.
std::string gzip_member(std::string_view text);

}  // namespace lockstep::cli
