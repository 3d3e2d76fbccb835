// The measurements that `lockstep probe` and `lockstep tune` write to a map's file.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "map/map.h"

namespace lockstep::cli {

// The output of `lockstep probe --json`.
struct ProbeReport {
  int hosts = 1;
  int ranks = 1;
  map::Measured measured;

  static constexpr auto fields() {
    return record<ProbeReport>(
        field("hosts", &ProbeReport::hosts, "on which ranks were"),
        field("ranks", &ProbeReport::ranks, "in all"),
        required(field("measured", &ProbeReport::measured, "as a map has it")));
  }
};

// Values that `found` does not have keep theirs, and so do tuned values.
void add_measured(const map::Measured& found, map::Measured& measured);

// Reads the output of a run of `lockstep probe --json`, of which lines may have the number of their
// rank.
Result<map::Measured> read_probe(const std::string& output);

// Refuses a file that could not be updated, before seconds go into a measurement.
Result<void> check_measured_file(const std::string& file);

// Writes the measurements of the file after `change` has updated them; all else stays. Prints a
// message.
Result<void> update_measured(const std::string& file,
                             const std::function<void(map::Measured& measured)>& change);

}  // namespace lockstep::cli
