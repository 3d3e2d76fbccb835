// The differences of two runs: their specifications, the origin of their code, and their results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "platform/api/messages.h"
#include "text/record.h"

namespace lockstep::cli {

struct RunDifference {
  std::string name;
  std::optional<std::string> first{};
  std::optional<std::string> second{};

  static constexpr auto fields() {
    return record<RunDifference>(
        field("field", &RunDifference::name,
              "its name in the run file, command[3] for a word, or that of a result"),
        field("first", &RunDifference::first, "of the first run; null: it has none"),
        field("second", &RunDifference::second, "of the second run; null: it has none"));
  }
};

// The output of `lockstep diff --json`.
struct RunDifferences {
  std::string first;
  std::string second;
  std::vector<RunDifference> differences;

  static constexpr auto fields() {
    return record<RunDifferences>(
        field("first", &RunDifferences::first, "the first run"),
        field("second", &RunDifferences::second, "the second run"),
        field("differences", &RunDifferences::differences,
              "of the specification, then of the origin, then of the results"));
  }
};

// Values of `env` are hidden: they are compared by the daemon's digests of them.
RunDifferences differences_of(const api::RunView& first, const api::RunView& second);

}  // namespace lockstep::cli
