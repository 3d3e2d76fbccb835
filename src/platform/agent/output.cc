#include "platform/agent/output.h"

#include <algorithm>

#include <fcntl.h>

#include "base/log.h"

namespace lockstep {
namespace {

constexpr auto kLineBytes = static_cast<std::size_t>(kLineMax.count());
constexpr auto kTextBytes = static_cast<std::size_t>(kTextMax.count());

// Where to cut so that no UTF-8 character is broken.
std::size_t cut_before(std::string_view line, std::size_t size) {
  std::size_t cut = size;
  while (cut > 0 && size - cut < 4 && (static_cast<unsigned char>(line[cut]) & 0xc0) == 0x80) --cut;
  return cut;
}

}  // namespace

Result<Output> Output::open(const std::filesystem::path& file, Sink sink) {
  Fd opened = TRY(open_file(file, O_WRONLY | O_CREAT | O_APPEND));
  return Output(file, std::move(opened), std::move(sink));
}

// A full disk costs the file, not the training: it is said once and the lines go on to the daemon.
void Output::keep(std::string_view bytes) {
  if (file_failed_) return;
  if (auto written = write_all(file_.get(), bytes); !written) {
    file_failed_ = true;
    LS_LOG(error, "{}: {}; output goes to the daemon only", name_.string(),
           written.error().message);
  }
}

void Output::take(std::string_view bytes) {
  keep(bytes);
  while (!bytes.empty()) {
    std::size_t end = std::min(bytes.find_first_of("\r\n"), bytes.size());
    if (end > 0) add_to_line(bytes.substr(0, end));
    if (end == bytes.size()) return;
    if (bytes[end] == '\n') end_line();
    if (bytes[end] == '\r') returned_ = true;
    bytes.remove_prefix(end + 1);
  }
}

void Output::add_to_line(std::string_view bytes) {
  if (returned_) start_over();
  open_ = true;
  std::size_t room = kLineBytes - std::min(line_.size(), kLineBytes);
  if (cut_ > 0) room = 0;
  if (bytes.size() > room) {
    std::size_t fits = cut_before(bytes, room);
    cut_ += bytes.size() - fits;
    bytes = bytes.substr(0, fits);
  }
  line_.append(bytes);
}

void Output::start_over() {
  line_.clear();
  cut_ = 0;
  returned_ = false;
}

void Output::end_line() {
  if (cut_ > 0) line_ += format(" [cut: {} bytes more in {}]", cut_, name_.filename().string());
  if (lines_ > 0 && text_.size() + line_.size() >= kTextBytes) flush();
  if (lines_ > 0) text_ += '\n';
  text_ += line_;
  ++lines_;
  start_over();
  open_ = false;
}

void Output::flush() {
  if (lines_ == 0) return;
  sink_(std::exchange(text_, {}), std::exchange(lines_, 0));
}

void Output::finish() {
  if (open_) end_line();
  flush();
}

}  // namespace lockstep
