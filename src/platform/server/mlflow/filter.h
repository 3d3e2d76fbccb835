// The filter language of MLflow's searches, and what they order by:
//
//   metrics.loss < 0.1 AND params.`batch size` = '32' AND tags.stage IN ('a', 'b')
//   attributes.status = 'FINISHED' AND run_name LIKE 'bert%' AND tags.note IS NULL
//
// https://mlflow.org/docs/latest/search-runs
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::mlflow {

enum class Entity { attribute, metric, param, tag };

struct Column {
  Entity entity = Entity::attribute;
  std::string key;  // of an attribute: one that the search has
};

enum class Operator {
  equal,
  unequal,
  less,
  at_most,
  greater,
  at_least,
  like,
  ilike,
  in,
  not_in,
  is_null,
  is_not_null
};

struct Comparison {
  Column column;
  Operator is = Operator::equal;
  double number = 0;                 // of a metric, start_time and end_time
  std::vector<std::string> texts{};  // of the others: one, or those of IN
};

struct Ordering {
  Column column;
  bool ascending = true;
};

// Those of runs.
inline constexpr std::string_view kAttributes[] = {
    "run_id", "run_name", "status", "user_id", "start_time", "end_time", "artifact_uri"};

// True if the column's values are numbers.
bool is_number(const Column& column);

using Attributes = std::span<const std::string_view>;

// All must hold. The error names the part that cannot be read.
Result<std::vector<Comparison>> parse_filter(std::string_view text,
                                             Attributes attributes = kAttributes);
// "metrics.loss DESC".
Result<Ordering> parse_ordering(std::string_view text, Attributes attributes = kAttributes);

}  // namespace lockstep::mlflow
