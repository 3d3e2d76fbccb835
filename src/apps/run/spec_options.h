// The options of `lockstep run` that set a field of the spec. Their names, help texts, defaults and
// ranges are those of RunSpec::fields(), so a new field is an option, too.
#pragma once

#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "platform/core/model/run.h"

namespace lockstep::cli {

class SpecOptions {
 public:
  // Adds an option for each field that a command line can give; `only`: for those of these, if any.
  void add_to(CLI::App& command, std::span<const std::string_view> only = {});
  // Sets the fields whose options were given; an error names the option.
  Result<void> apply(model::RunSpec& spec) const;

 private:
  template <class Record, class Value>
  void add(CLI::App& command, const Field<Record, Value>& field, std::string_view section,
           Record& (*part)(model::RunSpec&));

  std::vector<std::function<Result<void>(model::RunSpec&)>> setters_;
};

}  // namespace lockstep::cli
