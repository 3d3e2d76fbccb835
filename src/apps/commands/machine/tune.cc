#include "comm/probe/tune.h"

#include <iterator>
#include <memory>
#include <optional>
#include <sstream>
#include <string_view>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/measure/launched_ranks.h"
#include "apps/measure/map_measurements.h"
#include "base/os/files.h"
#include "comm/choice/tuned.h"
#include "map/map_file.h"
#include "text/convert.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

constexpr std::string_view kAllOperations = "all";

struct TuneFlags {
  std::optional<std::string> operation;  // nothing: all that are to be written, else all_reduce
  std::optional<std::string> bytes;      // nothing: all sizes of what is to be written, else a few
  std::string write;
  std::string map;
  bool words = false;
  int hosts = 2;
  int ranks = 1;
  bool json = false;
};

// The output of `--json`.
struct PlanReport {
  std::string plan;
  double predicted_us = 0;
  std::optional<double> measured_us;
  bool chosen = false;

  static constexpr auto fields() {
    return record<PlanReport>(
        field("plan", &PlanReport::plan, "such as ring, or ring,hierarchical"),
        field("predicted_us", &PlanReport::predicted_us, "by the costs"),
        field("measured_us", &PlanReport::measured_us, "median; null: only predicted"),
        field("chosen", &PlanReport::chosen, "whether Lockstep would take it"));
  }
};

struct SizeReport {
  std::int64_t bytes = 0;
  std::optional<double> ratio;
  std::vector<PlanReport> plans;

  static constexpr auto fields() {
    return record<SizeReport>(
        field("bytes", &SizeReport::bytes, "of a rank's share"),
        field("ratio", &SizeReport::ratio, "the choice's measured time over the least"),
        field("plans", &SizeReport::plans, "the cheapest first, as predicted"));
  }
};

struct TuneReport {
  std::string operation;
  int hosts = 1;
  int ranks = 1;
  std::vector<SizeReport> sizes;

  static constexpr auto fields() {
    return record<TuneReport>(field("operation", &TuneReport::operation, "such as all_reduce"),
                              field("hosts", &TuneReport::hosts, "of the group"),
                              field("ranks", &TuneReport::ranks, "in all"),
                              field("sizes", &TuneReport::sizes, "as they were asked for"));
  }
};

double in_us(comm::Seconds seconds) { return seconds.count() * 1e6; }

TuneReport report_of(comm::Operation operation, const comm::GroupShape& group,
                     const std::vector<comm::TunedSize>& sizes) {
  TuneReport report{std::string(text(operation)), group.hosts, group.ranks, {}};
  for (const auto& size : sizes) {
    SizeReport one{static_cast<std::int64_t>(size.bytes), size.ratio(), {}};
    for (const auto& plan : size.plans)
      one.plans.push_back({text(plan.plan), in_us(plan.predicted),
                           plan.measured ? std::optional(in_us(*plan.measured)) : std::nullopt,
                           plan.chosen});
    report.sizes.push_back(std::move(one));
  }
  return report;
}

std::string time_text(double us) {
  if (us < 1000) return format("{:.1f} us", us);
  return format("{:.2f} ms", us / 1000);
}

std::string as_text(const TuneReport& report) {
  Table table({"bytes", "plan", "predicted", "measured", "choice"});
  for (const auto& size : report.sizes)
    for (const auto& plan : size.plans) {
      const std::string ratio = size.ratio ? format(" {:.2f}x the best", *size.ratio) : "";
      table.add({text(Bytes(size.bytes)), plan.plan, time_text(plan.predicted_us),
                 plan.measured_us ? time_text(*plan.measured_us) : "-",
                 plan.chosen ? "<" + ratio : ""});
    }
  std::string lines = format("{}, {} ranks on {} hosts\n{}", report.operation, report.ranks,
                             report.hosts, table.text(0));
  while (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

Result<comm::Operation> operation_argument(const std::string& words) {
  std::vector<std::string_view> known;
  for (const auto operation : comm::kTunedOperations) {
    if (text(operation) == words) return operation;
    known.push_back(text(operation));
  }
  return Error{Code::invalid, format("--operation {}: there is one way to carry it out, or none; "
                                     "of these there are several: {}",
                                     words, joined(known, ", "))};
}

Result<std::vector<comm::Operation>> operations_argument(const TuneFlags& flags) {
  const auto fallback = flags.write.empty() ? text(comm::Operation::all_reduce) : kAllOperations;
  const std::string words = flags.operation.value_or(std::string(fallback));
  if (words == kAllOperations)
    return std::vector<comm::Operation>(std::begin(comm::kTunedOperations),
                                        std::end(comm::kTunedOperations));
  return std::vector<comm::Operation>{TRY(operation_argument(words))};
}

Result<std::vector<std::size_t>> bytes_argument(const std::string& words) {
  std::vector<std::size_t> sizes;
  std::istringstream parts(words);
  for (std::string part; std::getline(parts, part, ',');) {
    auto size = parse_bytes(part);
    if (!size) return std::move(size).error().with_context("--bytes");
    if (*size > 1_GiB || size->count() % 4 != 0 || size->count() == 0)
      return Error{Code::invalid, format("--bytes {}: must be from 4 to 1 GiB, in steps of 4, as "
                                         "float32 has 4 bytes",
                                         part)};
    sizes.push_back(static_cast<std::size_t>(size->count()));
  }
  if (sizes.empty()) return Error{Code::invalid, "--bytes: write a size, such as 1MiB"};
  return sizes;
}

Result<comm::Costs> costs_for(const TuneFlags& flags) {
  if (flags.map.empty()) return comm::Costs{};
  return comm::costs_of(TRY(map::parse_map(TRY(read_file(flags.map)), flags.map)));
}

// The requested sizes of one operation.
Result<std::vector<std::size_t>> sizes_for(const TuneFlags& flags, comm::Operation operation,
                                           int ranks) {
  if (!flags.bytes)
    return flags.write.empty() ? std::vector<std::size_t>{1 << 10, 64 << 10, 1 << 20, 16 << 20}
                               : comm::tuned_sizes(operation, ranks);
  return bytes_argument(*flags.bytes);
}

void show(const TuneFlags& flags, const std::vector<TuneReport>& reports) {
  if (!flags.json) {
    for (const auto& report : reports) print(as_text(report));
  } else if (reports.size() == 1) {
    print(dump_json(to_json(reports.front()), Indent::two));
  } else {
    print(dump_json(to_json(reports), Indent::two));
  }
}

Result<int> show_predicted(const TuneFlags& flags, const std::vector<comm::Operation>& operations) {
  if (!flags.write.empty() || flags.words)
    return Error{Code::invalid,
                 "alone nothing is measured, and there is nothing to keep: "
                 "lockstep run -n 2 -- lockstep tune --write FILE"};
  if (flags.hosts * flags.ranks < 2 || flags.hosts < 2)
    return Error{Code::invalid, "--hosts 1: within one host there is nothing to choose"};
  const comm::GroupShape group{flags.hosts * flags.ranks, flags.hosts, flags.ranks, flags.ranks};
  const auto costs = TRY(costs_for(flags));
  TRY(comm::check_tuned(costs.tuned));
  std::vector<TuneReport> reports;
  for (const auto operation : operations) {
    const auto sizes = TRY(sizes_for(flags, operation, group.ranks));
    reports.push_back(
        report_of(operation, group, comm::predict_all(operation, sizes, group, costs)));
  }
  show(flags, reports);
  print_to_stderr(
      format("lockstep: only predicted, by {}; to measure: lockstep run -n 2 "
             "-- lockstep tune",
             flags.map.empty() ? "assumed costs (--map FILE has measured ones)" : flags.map));
  return kDone;
}

// Only rank 0 calls this, because it alone prints: it saves the new measurements.
Result<void> save_tuning(const TuneFlags& flags, comm::Costs costs,
                         const std::vector<map::TunedRange>& found) {
  costs.tuned = comm::merge_tuned(costs.tuned, found);
  if (flags.words) print(comm::encode_costs(costs));
  if (flags.write.empty()) return {};
  return update_measured(flags.write, [&](map::Measured& measured) {
    measured.tuned = comm::merge_tuned(measured.tuned, found);
  });
}

Result<int> show_measured(const TuneFlags& flags, const comm::JoinedWorld& joined,
                          const std::vector<comm::Operation>& operations) {
  const auto group = comm::shape_of(joined.world->hosts());
  if (group.hosts == 1)
    return Error{Code::invalid, "all ranks are on one host, where there is nothing to choose"};
  WaitingLine line;
  std::vector<TuneReport> reports;
  std::vector<map::TunedRange> found;
  for (const auto operation : operations) {
    const auto sizes = TRY(sizes_for(flags, operation, group.ranks));
    const auto tuned =
        TRY(comm::tune(joined, operation, sizes, [&](std::string_view what) { line.show(what); }));
    reports.push_back(report_of(operation, group, tuned));
    const auto ranges = comm::tuned_ranges(operation, group, comm::select_tuned_calls(tuned));
    found.insert(found.end(), ranges.begin(), ranges.end());
  }
  line.wipe();
  if (joined.world->rank() != 0) return kDone;
  if (!flags.words) show(flags, reports);
  TRY(save_tuning(flags, joined.world->costs(), found));
  return kDone;
}

Result<int> show_tune(const TuneFlags& flags) {
  const auto operations = TRY(operations_argument(flags));
  if (flags.bytes) TRY(bytes_argument(*flags.bytes));
  if (!flags.write.empty()) TRY(check_measured_file(flags.write));
  const auto joined = TRY(join_launched_ranks());
  return joined ? show_measured(flags, *joined, operations) : show_predicted(flags, operations);
}

}  // namespace

// `lockstep tune`: the time of each algorithm for sizes of a collective, and the chosen one.
void add_tune(CLI::App& app, Action& action) {
  auto* command =
      app.add_subcommand("tune", "Compare the algorithms for a collective between hosts");
  auto flags = std::make_shared<TuneFlags>();
  command
      ->add_option("--operation", flags->operation,
                   "the collective; else all_reduce, or all to write")
      ->type_name("all_reduce|reduce_scatter|all_gather|broadcast|reduce|all");
  command->add_option("--bytes", flags->bytes,
                      "sizes of a rank's share, with commas between; else a few, or all to write");
  command
      ->add_option("--write", flags->write,
                   "also write into this map which plan is the fastest up to which size")
      ->type_name(kFileValue);
  command->add_option("--map", flags->map, "predict by this map's costs (alone)")
      ->type_name(kFileValue);
  command->add_option("--hosts", flags->hosts, "predict for this number of hosts (alone)")
      ->check(whole_number(1, 65536))
      ->capture_default_str();
  command->add_option("--ranks", flags->ranks, "the number of ranks on each host (alone)")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  auto* json = command->add_flag("--json", flags->json, "print JSON");
  command
      ->add_flag("--words", flags->words,
                 "print what was found as LOCKSTEP_COSTS, for ranks that mpirun or srun starts")
      ->excludes(json);
  command->footer(
      "As the ranks of a run it measures; alone it only predicts.\n\n"
      "Examples:\n"
      "  lockstep tune --hosts 16 --ranks 8 --map cluster.yaml\n"
      "  lockstep run -n 2 -- lockstep tune --bytes 1MiB\n"
      "  lockstep run -n 2 -- lockstep tune --write cluster.yaml");
  command->callback([&action, flags] { action = [flags] { return show_tune(*flags); }; });
}

}  // namespace lockstep::cli
