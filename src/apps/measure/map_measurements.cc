#include "apps/measure/map_measurements.h"

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/os/files.h"
#include "map/map_file.h"

namespace lockstep::cli {

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
