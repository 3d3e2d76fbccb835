#include "comm/probe/probe.h"

#include <memory>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/measure/launched_ranks.h"
#include "apps/measure/map_measurements.h"
#include "base/format.h"
#include "comm/cost/costs.h"
#include "map/map.h"
#include "text/convert.h"
#include "text/display/table.h"

namespace lockstep::cli {
namespace {

struct ProbeFlags {
  std::string write;
  bool words = false;
  bool json = false;
};

std::string microseconds(double value) { return format("{:.2f} us", value); }

void add_level(Table& table, std::string_view name,
               const std::optional<map::MeasuredLevel>& level) {
  if (!level) return;
  table.add({std::string(name), microseconds(level->latency_us), microseconds(level->overhead_us),
             format("{:.2f} Gbit/s", level->gbit_per_second)});
}

std::string as_text(const comm::ProbeResult& probed) {
  const map::Measured& measured = probed.measured;
  Table table({"messages", "latency", "overhead", "bandwidth"});
  add_level(table, "within a host", measured.within_host);
  add_level(table, "between hosts", measured.between_hosts);
  std::string lines;
  if (measured.between_hosts)
    lines += format("fabric: {}, {:.2f} Gbit/s measured\n", measured.fabric,
                    measured.between_hosts->gbit_per_second);
  if (!table.empty()) lines += table.text(0);
  lines += format("reduction: {:.1f} GB/s a rank\n", *measured.reduction_gbyte_per_second);
  if (!measured.between_hosts)
    lines +=
        "between hosts: not measured; for that, `lockstep run -n 2 -- "
        "lockstep probe`\n";
  lines.pop_back();
  return lines;
}

comm::Costs costs_of(const map::Measured& measured) {
  map::ClusterMap map;
  map.measured = measured;
  return comm::costs_of(map);
}

Result<int> show_probe(const ProbeFlags& flags) {
  if (!flags.write.empty()) TRY(check_measured_file(flags.write));
  WaitingLine line;
  const auto progress = [&](std::string_view what) { line.show(what); };
  const auto joined = TRY(join_launched_ranks());
  const comm::ProbeResult probed =
      TRY(joined ? comm::probe(*joined, progress) : comm::probe_this_host(progress));
  line.wipe();
  if (joined && joined->world->rank() != 0) return kDone;
  if (flags.words)
    print(comm::encode_costs(costs_of(probed.measured)));
  else if (flags.json)
    print(
        dump_json(to_json(ProbeReport{probed.hosts, probed.ranks, probed.measured}), Indent::two));
  else
    print(as_text(probed));
  if (!flags.write.empty())
    TRY(update_measured(flags.write,
                        [&](map::Measured& measured) { add_measured(probed.measured, measured); }));
  return kDone;
}

}  // namespace

// `lockstep probe`: measures the costs of messages and additions, for the choice of algorithms.
void add_probe(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("probe", "Measure how fast ranks reach one another and add");
  auto flags = std::make_shared<ProbeFlags>();
  command->add_option("--write", flags->write, "also write what was measured into this map")
      ->type_name(kFileValue);
  auto* json = command->add_flag("--json", flags->json, "print JSON");
  command
      ->add_flag("--words", flags->words,
                 "print the value of LOCKSTEP_COSTS, for ranks that mpirun or "
                 "srun starts")
      ->excludes(json);
  command->footer(
      "Alone it measures this machine; as the ranks of a run also "
      "the network between hosts.\n\n"
      "Examples:\n"
      "  lockstep probe --write cluster.yaml\n"
      "  lockstep run -n 2 -- lockstep probe\n"
      "  lockstep run -n 2 -- lockstep probe --json | lockstep map --measured -");
  command->callback([&action, flags] { action = [flags] { return show_probe(*flags); }; });
}

}  // namespace lockstep::cli
