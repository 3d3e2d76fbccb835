// Filters and orders of MLflow on rows in memory: models and experiments, of which a project has
// few. Runs are searched by SQL (run_query.h).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "platform/server/mlflow/filter.h"

namespace lockstep::mlflow {

// None: the row has no such value.
using ColumnValue = std::optional<std::variant<double, std::string>>;
using ColumnOf = std::function<ColumnValue(const Column&)>;

// A row without the value matches IS NULL, != and NOT IN: clients search for models that have no
// tag `mlflow.prompt.is_prompt` = 'true'.
bool matches(const std::vector<Comparison>& filter, const ColumnOf& column);
// The row of `a` comes before that of `b`; rows without a value are the last.
bool is_before(const std::vector<Ordering>& order, const ColumnOf& a, const ColumnOf& b);
// LIKE: % is any text, _ one character (a byte).
enum class LetterCase { same, any };
bool is_like(std::string_view text, std::string_view pattern, LetterCase letters);

}  // namespace lockstep::mlflow
