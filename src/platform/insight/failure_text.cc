#include "platform/insight/failure_text.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/format.h"

namespace lockstep::insight {
namespace {

using Views = std::vector<std::string_view>;

constexpr std::string_view kTraceback = "Traceback (most recent call last):";
constexpr std::size_t kLinesMax = 60;
constexpr std::size_t kMessageLinesMax = 8;  // of an exception, after its first line
constexpr std::size_t kSummaryMax = 500;
// A program prints little between its exception and the crash that follows from it.
constexpr std::size_t kConsequenceLines = 50;

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c); });
}

// torch prints "[rank5]: " before each line of a traceback. Returns the 5, or nothing.
std::string_view rank_prefix(std::string_view line) {
  constexpr std::string_view kBegin = "[rank";
  if (!line.starts_with(kBegin)) return {};
  const auto end = line.find("]:");
  if (end == std::string_view::npos) return {};
  const std::string_view rank = line.substr(kBegin.size(), end - kBegin.size());
  return is_digits(rank) ? rank : std::string_view{};
}

std::string_view without_rank_prefix(std::string_view line) {
  if (rank_prefix(line).empty()) return line;
  line.remove_prefix(line.find("]:") + 2);
  if (line.starts_with(' ')) line.remove_prefix(1);
  return line;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}
bool is_indented(std::string_view line) { return line.starts_with(' ') || line.starts_with('\t'); }

// "ValueError: text", "torch.OutOfMemoryError: text", "KeyboardInterrupt": a dotted name, and a
// colon or the end.
bool is_exception_line(std::string_view line) {
  const auto name = line.substr(0, line.find(':'));
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front()))) return false;
  return std::ranges::all_of(
      name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

// A part of the lines, [begin, end), and the line that states the error.
struct Block {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t statement = 0;
};

// --- Python ---

// The block of one traceback, without its causes. None: it has no exception, so it was cut off.
std::optional<Block> traceback_at(const Views& lines, std::size_t begin) {
  std::size_t i = begin + 1;
  while (i < lines.size() && (is_indented(lines[i]) || is_blank(lines[i]))) ++i;
  if (i == lines.size() || !is_exception_line(lines[i])) return std::nullopt;
  Block block{begin, i + 1, i};
  while (block.end < lines.size() && block.end - i <= kMessageLinesMax) {
    const std::string_view next = lines[block.end];
    if (is_blank(next) || next.starts_with('[') || next.starts_with("terminate called") ||
        next == kTraceback)
      break;
    ++block.end;
  }
  return block;
}

bool joins_causes(std::string_view line) {
  return line == "During handling of the above exception, another exception occurred:" ||
         line == "The above exception was the direct cause of the following exception:";
}

// Python prints the cause first.
std::size_t begin_with_causes(const Views& lines, std::size_t begin) {
  for (;;) {
    std::size_t i = begin;
    while (i > 0 && is_blank(lines[i - 1])) --i;
    if (i == 0 || !joins_causes(lines[i - 1])) return begin;
    while (i > 0 && lines[i - 1] != kTraceback) --i;
    if (i == 0) return begin;
    begin = i - 1;
  }
}

// torchrun's own exception states only that a worker failed.
bool is_of_torchrun(std::string_view exception) {
  return exception.find("ChildFailedError") != std::string_view::npos;
}

// The last one for which `is_wanted(begin)` holds.
template <class Wanted>
std::optional<Block> last_traceback(const Views& lines, Wanted&& is_wanted) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (lines[i] != kTraceback || !is_wanted(i)) continue;
    auto block = traceback_at(lines, i);
    if (!block || is_of_torchrun(lines[block->statement])) continue;
    block->begin = begin_with_causes(lines, i);
    return block;
  }
  return std::nullopt;
}

// A file that Python cannot read has no traceback: its place, the line, a mark and the error.
std::optional<Block> syntax_error(const Views& lines) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!lines[i].starts_with("SyntaxError:") && !lines[i].starts_with("IndentationError:") &&
        !lines[i].starts_with("TabError:"))
      continue;
    std::size_t begin = i;
    while (begin > 0 && is_indented(lines[begin - 1])) --begin;
    return Block{begin, i + 1, i};
  }
  return std::nullopt;
}

// --- torchrun ---

struct TorchrunBox {
  Block block;
  std::string rank;  // that failed first
};

std::optional<TorchrunBox> torchrun_box(const Views& lines) {
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!lines[i].starts_with("Root Cause (first observed failure):")) continue;
    TorchrunBox box{{i, i + 1, i}, ""};
    while (box.block.end < lines.size() && !lines[box.block.end].starts_with("===")) {
      const std::string_view line = lines[box.block.end];
      if (const auto at = line.find("rank      : "); at != std::string_view::npos)
        box.rank = line.substr(at + 12, line.find(' ', at + 12) - at - 12);
      if (line.find("exitcode  : ") != std::string_view::npos) box.block.statement = box.block.end;
      ++box.block.end;
    }
    return box;
  }
  return std::nullopt;
}

// --- C++, CUDA, NCCL ---

bool has(std::string_view line, std::string_view part) {
  return line.find(part) != std::string_view::npos;
}

bool states_native_error(std::string_view line) {
  return line.starts_with("terminate called") || line.starts_with("Fatal Python error:") ||
         has(line, "Watchdog caught collective operation timeout") ||
         (has(line, "Assertion `") && has(line, "failed")) || has(line, "CUDA error: ") ||
         has(line, "CUDA out of memory") || has(line, "NCCL error") ||
         line.starts_with("Segmentation fault") || line.starts_with("RuntimeError: ");
}

// A message ends at a blank line; a list of frames follows most of them.
Block native_block(const Views& lines, std::size_t begin) {
  Block block{begin, begin + 1, begin};
  while (block.end < lines.size() && block.end - begin < kLinesMax && !is_blank(lines[block.end]))
    ++block.end;
  return block;
}

// The first statement of the last group of them: what follows is a consequence.
std::optional<Block> native_error(const Views& lines) {
  std::optional<std::size_t> first;
  for (std::size_t i = lines.size(); i-- > 0;) {
    if (!states_native_error(lines[i])) continue;
    if (first && *first - i > kConsequenceLines) break;
    first = i;
  }
  return first ? std::optional(native_block(lines, *first)) : std::nullopt;
}

// --- The choice ---

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  return begin == std::string_view::npos ? std::string_view{} : text.substr(begin);
}

// "what()" has the text of an uncaught exception: "std::bad_alloc: std::bad_alloc".
std::string summary_of(const Views& lines, const Block& block) {
  const std::string_view statement = trimmed(lines[block.statement]);
  constexpr std::string_view kThrown = "terminate called after throwing an instance of '";
  if (!statement.starts_with(kThrown)) return std::string(statement.substr(0, kSummaryMax));
  const auto name = statement.substr(kThrown.size(), statement.rfind('\'') - kThrown.size());
  for (std::size_t i = block.statement + 1; i < block.end; ++i)
    if (const auto text = trimmed(lines[i]); text.starts_with("what():"))
      return format("{}: {}", name, trimmed(text.substr(7)).substr(0, kSummaryMax));
  return std::string(name);
}

FailureText text_of(const Views& lines, const Block& block) {
  FailureText text{.summary = summary_of(lines, block), .lines = {}};
  const std::size_t size = block.end - block.begin;
  const std::size_t begin = block.end - std::min(size, kLinesMax);
  for (std::size_t i = begin; i < block.end; ++i) text.lines.emplace_back(lines[i]);
  return text;
}

std::optional<Block> python_error(std::span<const std::string> raw, const Views& lines,
                                  const std::optional<TorchrunBox>& box) {
  if (box)  // of the worker that failed first, if torch marks its lines
    if (auto block =
            last_traceback(lines, [&](std::size_t i) { return rank_prefix(raw[i]) == box->rank; }))
      return block;
  if (auto block = last_traceback(lines, [](std::size_t) { return true; })) return block;
  return syntax_error(lines);
}

}  // namespace

std::optional<FailureText> find_failure(std::span<const std::string> lines) {
  Views views;
  for (const std::string& line : lines) views.push_back(without_rank_prefix(line));
  const auto box = torchrun_box(views);
  auto python = python_error(lines, views, box);
  // A program that goes on after a traceback has handled the exception.
  if (python && !box && views.size() > python->end + kConsequenceLines) python.reset();
  const auto native = native_error(views);
  if (python) return text_of(views, *python);
  if (native) return text_of(views, *native);
  if (box) return text_of(views, box->block);
  return std::nullopt;
}

}  // namespace lockstep::insight
