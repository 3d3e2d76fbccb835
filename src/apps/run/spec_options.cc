#include "apps/run/spec_options.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <type_traits>

#include "apps/cli/subcommand.h"
#include "base/clock.h"
#include "base/format.h"

namespace lockstep::cli {
namespace {

// The names of an option, and the completion of its value, where they differ from the field's.
struct Names {
  std::string_view field;
  std::string_view names;
  std::string_view type;
};
constexpr Names kNames[] = {
    {"nodes", "-n,--nodes", ""},      {"devices", "-g,--devices", ""},
    {"kind", "--device-kind", ""},    {"stays", "--stay", ""},
    {"after", "--after", kRunValue},  {"checkpoint_folder", "--checkpoint-folder", kFolderValue},
    {"venv", "--venv", kFolderValue}, {"mounts", "--mount", kFolderValue},
    {"module", "--module", "NAME"},   {"image", "--image", "NAME"},
    {"conda", "--conda", "NAME"},     {"labels", "--constraint", "KEY=VALUE"},
};

// The command comes after --, env has forms of its own, the fields of needs are options, the
// working folder is where the command is typed, and Lockstep itself sets the remainder. --upload
// takes no value.
constexpr std::string_view kNoOptions[] = {"command",   "env",    "needs",  "working_folder",
                                           "remainder", "upload", "secrets"};

// Their zero means never, and may be written so.
constexpr std::string_view kMayBeNever[] = {"hang_after", "lease"};

Names names_of(std::string_view field) {
  const auto* found = std::ranges::find(kNames, field, &Names::field);
  return found == std::end(kNames) ? Names{} : *found;
}

// `section`: of the run file, such as "slurm-"; a list of it is an option for each entry.
std::string option_names(std::string_view section, std::string_view field) {
  if (section.empty())
    if (const Names names = names_of(field); !names.names.empty()) return std::string(names.names);
  std::string name = format("--{}{}", section, field);
  if (!section.empty() && field == "options") name.pop_back();
  std::ranges::replace(name, '_', '-');
  return name;
}

// 2026-11-22T12:00:00Z, or 2h from now.
Result<Time> moment_from(const std::string& words) {
  if (const auto pause = parse_duration(words)) return SystemClock().now() + *pause;
  if (const auto moment = parse_time(words)) return moment;
  return Error{Code::invalid,
               format("{}: write a moment such as 2026-11-22T12:00:00Z, or how long from now, "
                      "such as 2h",
                      words)};
}

// The values of options, by the type of the field.
template <class T>
struct OptionValue;
template <>
struct OptionValue<std::string> {
  static constexpr std::string_view type = "TEXT";
  static std::string shown(const std::string& value) { return value; }
  static Result<std::string> from(const std::string& words) { return words; }
};
template <>
struct OptionValue<int> {  // its option checks the range
  static constexpr std::string_view type = "INT";
  static std::string shown(int value) { return format("{}", value); }
  static Result<int> from(const std::string& words) {
    int value = 0;
    std::from_chars(words.data(), words.data() + words.size(), value);
    return value;
  }
};
template <>
struct OptionValue<Duration> {
  static constexpr std::string_view type = "DURATION";
  static std::string shown(Duration value) { return text(value); }
  static Result<Duration> from(const std::string& words) { return parse_duration(words); }
};
template <>
struct OptionValue<Bytes> {
  static constexpr std::string_view type = "SIZE";
  static std::string shown(Bytes value) { return value == Bytes(0) ? "" : text(value); }
  static Result<Bytes> from(const std::string& words) { return parse_bytes(words); }
};
template <>
struct OptionValue<Time> {
  static constexpr std::string_view type = "TIME";
  static Result<Time> from(const std::string& words) { return moment_from(words); }
};
template <NamedEnum T>
struct OptionValue<T> {
  inline static const std::string type = joined(all_names<T>(), "|");
  static std::string shown(T value) { return std::string(name_of(value)); }
  static Result<T> from(const std::string& words) { return parse_name<T>(words); }
};
template <class T>
  requires requires { OptionValue<T>::type; }
struct OptionValue<std::optional<T>> {
  inline static const std::string type = std::string(OptionValue<T>::type);
  static std::string shown(const std::optional<T>&) { return ""; }
  static Result<std::optional<T>> from(const std::string& words) {
    return std::optional<T>(TRY(OptionValue<T>::from(words)));
  }
};

template <class T>
concept WordList = std::is_same_v<T, std::vector<std::string>> ||
                   std::is_same_v<T, std::optional<std::vector<std::string>>>;

template <class Record, class Value>
std::string help_of(const Field<Record, Value>& field) {
  const std::string shown = OptionValue<Value>::shown(Record{}.*field.member);
  return shown.empty() ? std::string(field.help) : format("{} (default {})", field.help, shown);
}

}  // namespace

template <class Record, class Value>
void SpecOptions::add(CLI::App& command, const Field<Record, Value>& field,
                      std::string_view section, Record& (*part)(model::RunSpec&)) {
  const std::string names = option_names(section, field.name);
  const std::string name = names.substr(names.find("--"));
  const std::string_view type =
      section.empty() ? names_of(field.name).type : std::string_view("TEXT");
  const auto member = field.member;
  if constexpr (std::is_same_v<Value, bool>) {
    auto given = std::make_shared<bool>(false);
    command.add_flag(names, *given, std::string(field.help));
    setters_.push_back([given, part, member](model::RunSpec& spec) -> Result<void> {
      if (*given) part(spec).*member = true;
      return {};
    });
  } else if constexpr (WordList<Value>) {
    auto words = std::make_shared<std::vector<std::string>>();
    command.add_option(names, *words, format("{}; repeatable", field.help))
        ->type_name(std::string(type))
        ->allow_extra_args(false);
    setters_.push_back([words, part, member](model::RunSpec& spec) -> Result<void> {
      if (!words->empty()) part(spec).*member = *words;
      return {};
    });
  } else if constexpr (std::is_same_v<Value, std::optional<map::Labels>>) {
    auto words = std::make_shared<std::vector<std::string>>();
    command.add_option(names, *words, format("{}; repeatable", field.help))
        ->type_name(std::string(type))
        ->allow_extra_args(false);
    setters_.push_back([words, part, member, name](model::RunSpec& spec) -> Result<void> {
      if (words->empty()) return {};
      auto labels = map::parse_labels(*words);
      if (!labels) return std::move(labels).error().with_context(name);
      part(spec).*member = *std::move(labels);
      return {};
    });
  } else {
    auto words = std::make_shared<std::string>();
    auto* option = command.add_option(names, *words, help_of(field))
                       ->type_name(std::string(type.empty() ? OptionValue<Value>::type : type));
    if (field.range) option->check(whole_number(field.range->least, field.range->most));
    const bool may_be_never = std::ranges::find(kMayBeNever, field.name) != std::end(kMayBeNever);
    setters_.push_back([=](model::RunSpec& spec) -> Result<void> {
      if (option->count() == 0) return {};
      auto value = OptionValue<Value>::from(may_be_never && *words == "never" ? "0s" : *words);
      if (!value) return std::move(value).error().with_context(name);
      part(spec).*member = *std::move(value);
      return {};
    });
  }
}

void SpecOptions::add_to(CLI::App& command, std::span<const std::string_view> only) {
  const auto is_wanted = [only](std::string_view name) {
    return std::ranges::find(kNoOptions, name) == std::end(kNoOptions) &&
           (only.empty() || std::ranges::find(only, name) != only.end());
  };
  const auto add_fields = [&]<class Record>(std::string_view section,
                                            Record& (*part)(model::RunSpec&)) {
    for_each_field<Record>([&]<class Value>(const Field<Record, Value>& field) {
      if constexpr (requires { OptionValue<Value>::from(""); } || std::is_same_v<Value, bool> ||
                    WordList<Value> || std::is_same_v<Value, std::optional<map::Labels>>) {
        if (is_wanted(field.name)) add(command, field, section, part);
      }
    });
  };
  add_fields("", +[](model::RunSpec& spec) -> model::RunSpec& { return spec; });
  add_fields("", +[](model::RunSpec& spec) -> model::Needs& { return spec.needs; });
  add_fields(
      "slurm-", +[](model::RunSpec& spec) -> model::SlurmRequest& {
        return spec.slurm ? *spec.slurm : spec.slurm.emplace();
      });
}

Result<void> SpecOptions::apply(model::RunSpec& spec) const {
  for (const auto& set : setters_) TRY(set(spec));
  return {};
}

}  // namespace lockstep::cli
