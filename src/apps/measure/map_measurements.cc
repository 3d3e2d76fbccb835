#include "apps/measure/map_measurements.h"

#include "apps/cli/terminal.h"
#include "base/format.h"
#include "base/os/files.h"
#include "map/map_file.h"

namespace lockstep {

Result<void> check_measured_file(const std::string& file) {
  TRY(parse_map(TRY(read_file(file)), file));
  return {};
}

Result<void> update_measured(const std::string& file,
                             const std::function<void(Measured& measured)>& change) {
  const std::string words = TRY(read_file(file));
  Measured measured = TRY(parse_map(words, file)).measured.value_or(Measured{});
  change(measured);
  const auto rewritten = TRY(rewrite_measured(words, file, measured));
  TRY(write_file(file, rewritten.text, 0644));
  print_to_stderr(format("lockstep: written to {}{}", file,
                         rewritten.kept_comments ? "" : "; its comments could not be kept"));
  return {};
}

}  // namespace lockstep
