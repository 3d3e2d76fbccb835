#include "text/display/plot.h"

#include <algorithm>
#include <limits>
#include <memory>

#include <unistd.h>

#include "apps/cli/exit_codes.h"
#include "apps/cli/subcommand.h"
#include "apps/cli/terminal.h"
#include "apps/daemon/own_daemon.h"
#include "apps/run/curves_display.h"
#include "apps/run/metrics_display.h"

namespace lockstep::cli {
namespace {

struct PlotFlags {
  std::string run;
  std::vector<std::string> names;
  std::optional<int> rank;
  std::optional<int> node;
  std::string x = "step";
  std::vector<std::string> others;
  bool log = false;
  int height = 16;
};

// A metric of several ranks is drawn as a band: many equal curves hide each other.
Result<std::vector<PlotSeries>> fetch(client::Client& client, const model::RunId& id,
                                      const PlotFlags& flags) {
  std::vector<PlotSeries> plots;
  for (const std::string& name : flags.names) {
    api::SeriesList list = TRY(
        client.call(api::kMetrics,
                    {.path = id, .query = {.name = name, .rank = flags.rank, .node = flags.node}}));
    if (list.series.empty() && flags.node)
      return Error{Code::not_found,
                   format("node {1} of {0} has no telemetry '{2}'; `lockstep metrics {0} --node "
                          "{1}` lists it",
                          text(id), *flags.node, name)};
    if (list.series.empty())
      return Error{Code::not_found,
                   format("{0} has logged no metric '{1}'; `lockstep metrics {0}` lists them",
                          text(id), name)};
    const api::Series& series = list.series.front();
    if (series.statistic)
      for (PlotSeries& curve : band_of(list.series)) plots.push_back(std::move(curve));
    else
      plots.push_back(curve_of(series, name, flags.node ? series.points.front().step : 0));
  }
  return plots;
}

// Curves of several runs, or over another x than the step; of a metric of several ranks the mean.
Result<std::vector<PlotSeries>> fetch_curves(client::Client& client, const model::RunId& id,
                                             const PlotFlags& flags) {
  std::string runs = text(id);
  for (const model::RunId& other : TRY(run_arguments(flags.others))) runs += "," + text(other);
  std::vector<PlotSeries> plots;
  for (const std::string& name : flags.names) {
    api::CurvesQuery query{.metric = name, .runs = runs, .rank = flags.rank};
    set_axis(query, flags.x);
    const api::CurveList list = TRY(client.call(api::kCurves, {.query = query}));
    for (const api::RunCurve& curve : list.curves)
      if (!curve.known)
        return Error{Code::not_found,
                     format("there is no run {}; `lockstep ps` lists them", curve.run)};
    for (PlotSeries& one : plots_of(list)) {
      if (flags.others.empty())
        one.name = name;
      else if (flags.names.size() > 1)
        one.name += " " + name;
      plots.push_back(std::move(one));
    }
  }
  if (!plots.empty()) return plots;
  return Error{Code::not_found,
               format("{0} has logged no metric '{1}' with a value of {2}; `lockstep metrics {0}` "
                      "lists them",
                      text(id), flags.names.front(), flags.x)};
}

}  // namespace

// `lockstep plot RUN [METRIC...]`: curves over steps, drawn in the terminal.
void add_plot(CLI::App& app, Action& action) {
  auto* command = app.add_subcommand("plot", "Draw metrics over steps in the terminal");
  auto flags = std::make_shared<PlotFlags>();
  add_run_argument(*command, flags->run);
  command->add_option("metric", flags->names, "metrics to draw (default: loss)")
      ->type_name("METRIC");
  auto* rank = command->add_option("--rank", flags->rank, "what this rank logged")
                   ->check(whole_number(0, std::numeric_limits<int>::max()));
  auto* node =
      command->add_option("--node", flags->node, "the telemetry of this node, over time in seconds")
          ->check(whole_number(0, std::numeric_limits<int>::max()))
          ->excludes(rank);
  command
      ->add_option("--x", flags->x,
                   "the x axis: step, time, relative (seconds since the first point), or a metric")
      ->capture_default_str()
      ->type_name("AXIS")
      ->excludes(node);
  command->add_option("--with", flags->others, "draw another run beside it; may be repeated")
      ->type_name(kRunValue)
      ->allow_extra_args(false)
      ->excludes(node);
  command->add_flag("--log", flags->log, "logarithmic y axis");
  command->add_option("--height", flags->height, "lines")
      ->capture_default_str()
      ->check(whole_number(4, 200));
  command->footer(
      "Example:\n  lockstep plot demo/42 loss --log\n  lockstep plot demo/42 loss --x tokens "
      "--with demo/41");
  command->callback([&action, flags] {
    action = [flags]() -> Result<int> {
      if (flags->names.empty()) flags->names = {"loss"};
      const model::RunId id = TRY(run_argument(flags->run));
      client::Client client = TRY(connect_to_daemon());
      const api::RunView view = TRY(client.call(api::kRun, {.path = id}));
      TRY(check_rank(view, flags->rank));
      TRY(check_node(view, flags->node));
      const bool is_plain = flags->x == "step" && flags->others.empty();
      const auto series =
          TRY(is_plain ? fetch(client, id, *flags) : fetch_curves(client, id, *flags));
      print(plot(series,
                 {.width = std::min(terminal_width(), 100),
                  .height = flags->height,
                  .log_y = flags->log,
                  .colour = style_for(STDOUT_FILENO) == TableStyle::colour,
                  .x_label = flags->node ? "seconds since the first" : axis_label(flags->x)}));
      return kDone;
    };
  });
}

}  // namespace lockstep::cli
