// The differences of two or more runs: their specifications, the origin of their code, and their
// results.
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

struct ComparedField {
  std::string name;
  std::vector<std::optional<std::string>> values{};

  static constexpr auto fields() {
    return record<ComparedField>(
        field("field", &ComparedField::name, "as in RunDifference"),
        field("values", &ComparedField::values, "of each run, in order; null: it has none"));
  }
};

// The output of `lockstep compare --json`.
struct RunComparison {
  std::vector<std::string> runs;
  std::vector<ComparedField> differences;

  static constexpr auto fields() {
    return record<RunComparison>(
        field("runs", &RunComparison::runs, "the runs, the first is that of the comparison"),
        field("differences", &RunComparison::differences,
              "fields that are not the same in all runs, in the order of RunDifferences"));
  }
};

// Compares each run with the first, which must exist.
RunComparison compare_runs(const std::vector<api::RunView>& runs);

}  // namespace lockstep::cli
