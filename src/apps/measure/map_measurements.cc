#include "apps/measure/map_measurements.h"

#include <regex>

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/os/files.h"
#include "map/map_file.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::cli {

void add_measured(const map::Measured& found, map::Measured& measured) {
  if (found.within_host) measured.within_host = found.within_host;
  if (found.between_hosts) {
    measured.between_hosts = found.between_hosts;
    measured.fabric = found.fabric;
  }
  if (found.reduction_gbyte_per_second)
    measured.reduction_gbyte_per_second = found.reduction_gbyte_per_second;
  if (!found.tuned.empty()) measured.tuned = found.tuned;
}

Result<map::Measured> read_probe(const std::string& output) {
  static const std::regex kRank(R"((^|\n)\[\d+\] )");
  // Before and after the object, ranks may have written messages.
  const std::string lines = "\n" + std::regex_replace(output, kRank, "$1");
  const std::size_t begin = lines.find("\n{");
  const std::size_t end = lines.rfind("\n}");
  const bool has_object = begin != lines.npos && end != lines.npos && begin < end;
  const std::string object = has_object ? lines.substr(begin, end + 2 - begin) : lines;
  const auto read = [&]() -> Result<map::Measured> {
    return TRY(from_json<ProbeReport>(TRY(parse_json(object)), UnknownFields::ignore)).measured;
  };
  auto measured = read();
  if (measured) return measured;
  return Error{Code::invalid,
               format("no output of `lockstep probe --json`: {}", measured.error().message)};
}

Result<void> check_measured_file(const std::string& file) {
  TRY(map::parse_map(TRY(read_file(file)), file));
  return {};
}

Result<void> update_measured(const std::string& file,
                             const std::function<void(map::Measured& measured)>& change) {
  const std::string words = TRY(read_file(file));
  map::Measured measured = TRY(map::parse_map(words, file)).measured.value_or(map::Measured{});
  change(measured);
  const auto rewritten = TRY(map::rewrite_measured(words, file, measured));
  TRY(write_file(file, rewritten.text, 0644));
  print_to_stderr(format("lockstep: written to {}{}", file,
                         rewritten.kept_comments ? "" : "; its comments could not be kept"));
  return {};
}

}  // namespace lockstep::cli
