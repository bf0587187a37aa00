#include "report.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "build_info.hpp"
#include "machine.hpp"
#include "runtime/caps.hpp"
#include "templates/planning.hpp"

namespace vkfuse::bench {

namespace {

using nlohmann::json;

/// At most seven characters from nanoseconds to seconds.
std::string microseconds(double us) {
  if (us < 1000) return fmt::format("{:.2f}", us);
  return us < 100000 ? fmt::format("{:.1f}", us) : fmt::format("{:.0f}", us);
}

void add_times(json& object, const std::string& key, const Times& times) {
  if (times.samples.empty()) return;
  object[key + "_us"] = rounded(times.median);
  object[key + "_p10"] = rounded(times.p10);
  object[key + "_p90"] = rounded(times.p90);
  object[key + "_n"] = times.n();
}

void add_start(json& object, const std::string& name, const Start& start) {
  object["compile_ms_" + name] = start.compile_ms;
  object["pipeline_ms_" + name] = start.pipeline_ms;
  object["create_ms_" + name] = start.create_ms;
  object["first_run_ms_" + name] = start.first_run_ms;
  object["compiler_calls_" + name] = start.compiler_calls;
}

void add_measured(json& object, const RowResult& result, const std::string& name, const Measured& measured) {
  add_times(object, name, measured.timing.alone);
  add_times(object, name + "_stream", measured.timing.stream);
  add_times(object, name + "_wall", measured.timing.wall);
  add_times(object, name + "_replay", measured.timing.replay);
  object["kernels_" + name] = measured.kernels;
  add_start(object, name, measured.cold);
  if (measured.warm) add_start(object, name + "_warm", *measured.warm);
  object["arena_bytes_" + name] = measured.arena_bytes;
  object["moved_bytes_" + name] = measured.moved_bytes;
  if (measured.timing.alone.samples.empty()) return;
  object["own_copy_percent_" + name] = result.own_copy_percent(measured);
  json samples = json::array();
  for (double us : measured.timing.alone.samples) samples.push_back(rounded(us));
  object["samples"][name] = std::move(samples);
}

json to_json(const SweepPoint& point) {
  const schedule::Schedule& schedule = point.schedule;
  json object = {{"schedule", point.text},
                 {"kind", schedule::name_of(schedule.kind())},
                 {"workgroup", schedule.workgroup},
                 {"vector_bytes", widest_access(schedule)},
                 {"us", point.times.median},
                 {"p10", point.times.p10},
                 {"p90", point.times.p90},
                 {"n", point.times.n()},
                 {"unroll_factor", schedule.unroll_factor},
                 {"modelled_us", schedule.cost.modelled_us},
                 {"splits", schedule.splits}};
  object.update(json(schedule::describe(schedule).choices));
  return object;
}

constexpr std::string_view name_of(Limit limit) {
  constexpr std::string_view names[] = {"memory", "arithmetic", "launch"};
  return names[static_cast<int>(limit)];
}

/// Of the row as such.
void add_facts(json& object, const RowResult& result) {
  object["max_error_over_bound"] = result.max_ratio;
  object["samples_checked"] = result.samples;
  object["bytes"] = result.bytes;
  object["operations"] = result.operations;
  object["instructions"] = json::array();
  for (const Instruction one : result.instructions) object["instructions"].push_back(name_of(one));
  if (result.row->traits.law_ops > 0) object["law_ops"] = result.row->traits.law_ops;
}

/// A time for people: "-" where there is none.
std::string time_or_dash(const std::optional<Measured>& measured) {
  return measured ? microseconds(measured->us()) : "-";
}
std::string kernels_or_dash(const std::optional<Measured>& measured) {
  return measured ? std::to_string(measured->kernels) : "-";
}
std::string kernels_text(const RowResult& row) {
  return fmt::format("{}/{}/{}", row.fused.kernels, kernels_or_dash(row.framework()), kernels_or_dash(row.unfused));
}

struct Column {
  const char* head;
  int width;
  int turn;  ///< columns of a lower one have got their place before
  std::string (*cell)(const RowResult&);
};

/// As they stand side by side. Those of turn 0 fit 80 characters.
constexpr Column kColumns[] = {
    {"kernels", 10, 0, kernels_text},
    {"fused us", 8, 0, [](const RowResult& row) { return microseconds(row.fused.us()); }},
    {"stream", 8, 3, [](const RowResult& row) { return microseconds(row.fused.timing.stream.median); }},
    {"op by op", 8, 0, [](const RowResult& row) { return time_or_dash(row.framework()); }},
    {"per node", 8, 0, [](const RowResult& row) { return time_or_dash(row.unfused); }},
    {"copy us", 8, 2, [](const RowResult& row) { return microseconds(row.copy.us()); }},
    {"copy", 4, 0, [](const RowResult& row) { return fmt::format("{:.0f}%", row.copy_percent()); }},
    {"peak", 4, 0,
     [](const RowResult& row) {
       const std::optional<double> percent = row.peak_percent();
       return percent ? fmt::format("{:.0f}%", *percent) : "-";
     }},
    {"beside", 6, 4,
     [](const RowResult& row) {
       const std::optional<double> percent = row.beside_percent();
       return percent ? fmt::format("{:.0f}%", *percent) : "-";
     }},
    {"replay", 8, 4,
     [](const RowResult& row) {
       return row.fused.timing.replay.n() > 0 ? microseconds(row.fused.timing.replay.median) : "-";
     }},
    {"GB/s", 4, 1, [](const RowResult& row) { return fmt::format("{:.{}f}", row.gb_s(), row.gb_s() < 99.95 ? 1 : 0); }},
    {"error", 5, 1, [](const RowResult& row) { return fmt::format("{:.2f}", row.max_ratio); }},
    {"cold ms", 7, 5, [](const RowResult& row) { return fmt::format("{:.1f}", row.fused.cold.ms()); }},
    {"warm ms", 7, 6,
     [](const RowResult& row) { return row.fused.warm ? fmt::format("{:.1f}", row.fused.warm->ms()) : "-"; }},
};

std::vector<Column> columns_within(int columns) {
  int last_turn = 0, width = kCaseWidth;
  for (int turn = 0; turn <= 6; ++turn) {
    for (const Column& column : kColumns) width += column.turn == turn ? 1 + column.width : 0;
    if (width <= columns) last_turn = turn;
  }
  std::vector<Column> chosen;
  std::copy_if(std::begin(kColumns), std::end(kColumns), std::back_inserter(chosen),
               [&](const Column& column) { return column.turn <= last_turn; });
  return chosen;
}

}  // namespace

double rounded(double us) { return std::round(us * 1e3) * 1e-3; }

std::string not_measured(const std::string& name, Outcome outcome, const std::string& detail) {
  const char* word = outcome == Outcome::wrong ? "WRONG" : outcome == Outcome::skipped ? "skipped" : "failed";
  // A compiler's message has many lines; the JSON has them all.
  return fmt::format("{:<{}} {}: {}", name, kCaseWidth, word, detail.substr(0, detail.find('\n')));
}

const char* name_of(Outcome outcome) {
  constexpr const char* names[] = {"measured", "checked", "wrong", "skipped", "failed"};
  return names[static_cast<int>(outcome)];
}

Result<json> environment(const Session& session) {
  const vulkan::DeviceInfo& info = session.context->device()->info();
  VKF_TRY(target, session.context->tiers().target({}));
  const DeviceDescription device = runtime::describe(session.context->opened().index(), info, target.caps);
  json feature_tiers = json::object();
  for (int i = 0; i < kFeatureTierCount; ++i) {
    VKF_TRY(missing, session.context->tiers().missing(static_cast<FeatureTier>(i)));
    feature_tiers[std::string(vkfuse::name_of(static_cast<FeatureTier>(i)))] = missing.empty() ? "yes" : missing;
  }
  return json{{"device", device.name},
              {"driver", device.driver},
              {"driver_name", info.driver_name.empty() ? json() : json(info.driver_name)},
              {"driver_info", info.driver_info.empty() ? json() : json(info.driver_info)},
              {"driver_uuid", vulkan::to_text(info.driver_uuid)},
              {"driver_version", info.driver_version},
              {"uuid", device.uuid},
              {"vendor_id", info.vendor_id},
              {"device_id", info.device_id},
              {"api", device.api},
              {"type", device.type},
              {"memory_bytes", device.memory_bytes},
              {"limits", device.limits},
              {"features", device.features},
              {"feature_tiers", feature_tiers},
              {"vkfuse", VKFUSE_VERSION},
              {"build", build_facts()},
              {"shaderc", shaderc_facts()},
              {"suite", session.quick ? "quick" : "full"},
              {"host", host_facts()},
              {"sensors_before", sensors(info)}};
}

std::string table_head(bool check_only, int columns) {
  std::string line = fmt::format("{:<{}}", "case", kCaseWidth);
  if (check_only) return line + fmt::format(" {:>10} {:>7} {:>5} {:>7}", "kernels", "samples", "error", "seconds");
  for (const Column& column : columns_within(columns)) line += fmt::format(" {:>{}}", column.head, column.width);
  return line;
}

std::string table_line(const RowResult& result, int columns) {
  if (result.outcome != Outcome::measured && result.outcome != Outcome::checked)
    return not_measured(result.name_of_case, result.outcome, result.detail);
  std::string cells;
  if (result.outcome == Outcome::checked) {
    cells = fmt::format(" {:>10} {:>7} {:>5.2f} {:>7.2f}", kernels_text(result), result.samples, result.max_ratio,
                        result.seconds);
  } else {
    for (const Column& column : columns_within(columns))
      cells += fmt::format(" {:>{}}", column.cell(result), column.width);
  }
  std::string name = result.name_of_case;
  if (name.size() > kCaseWidth && kCaseWidth + cells.size() <= static_cast<std::size_t>(columns) &&
      name.size() + cells.size() > static_cast<std::size_t>(columns))
    name += '\n';
  return name +
         std::string(name.back() == '\n' ? kCaseWidth : std::max<std::size_t>(kCaseWidth, name.size()) - name.size(),
                     ' ') +
         cells;
}

json to_json(const RowResult& result) {
  json object = {
      {"name", result.row->name},    {"group", result.row->group},   {"dtype", vkfuse::name_of(result.row->dtype)},
      {"case", result.name_of_case}, {"size", result.size},          {"outcome", name_of(result.outcome)},
      {"detail", result.detail},     {"row_seconds", result.seconds}};
  const bool measured = result.outcome == Outcome::measured;
  object["checked"] = measured || result.outcome == Outcome::checked;
  if (!object["checked"]) return object;
  add_facts(object, result);
  object["unfused_us"] = object["framework_us"] = object["kernels_unfused"] = object["kernels_framework"] = nullptr;
  add_measured(object, result, "fused", result.fused);
  if (result.unfused) add_measured(object, result, "unfused", *result.unfused);
  if (result.framework()) add_measured(object, result, "framework", *result.framework());
  if (!measured) return object;
  add_measured(object, result, "copy", result.copy);
  if (result.beside) {
    object["beside"] = result.name_of_beside;
    add_times(object, "beside", result.beside->timing.alone);
    object["beside_percent"] = *result.beside_percent();
  }
  if (result.unfused) object["gain_over_unfused"] = result.gain_over(*result.unfused);
  if (result.framework()) object["gain_over_framework"] = result.gain_over(*result.framework());
  object["copy_bytes"] = result.copy_bytes;
  object["buffer_sets"] = result.sets;
  object["n"] = result.fused.timing.alone.n();
  object["visits"] = result.visits;
  object["warm_seconds"] = result.warm_seconds;
  object["steady"] = result.steady;
  object["fused_gb_s"] = result.gb_s();
  object["copy_gb_s"] = result.copy_gb_s();
  object["copy_percent"] = result.copy_percent();
  const std::optional<double> peak_percent = result.peak_percent();
  object["peak_percent"] = peak_percent ? json(*peak_percent) : json();
  object["peak_of"] = result.peak ? json(name_of(result.peak->instruction)) : json();
  const std::optional<Limit> limit = result.limit();
  object["limit"] = limit ? json(name_of(*limit)) : json();
  return object;
}

std::string sweep_head() {
  return fmt::format("{:<19} {:>16} {:>24} {:>8} {:>24} {:>8} {:>5} {:>5}", "row", "size", "default", "us", "best",
                     "us", "ratio", "tried");
}

std::string table_line(const SweepResult& result) {
  if (result.outcome != Outcome::measured) return not_measured(result.row->name, result.outcome, result.detail);
  return fmt::format("{:<19} {:>16} {:>24} {:>8} {:>24} {:>8} {:>5.3f} {:>5}", result.row->name, result.size,
                     result.standard.text, microseconds(result.standard.times.median), result.best.text,
                     microseconds(result.best.times.median), result.ratio, result.all.size());
}

json to_json(const SweepResult& result) {
  json object = {{"name", result.row->name},
                 {"size", result.size},
                 {"outcome", name_of(result.outcome)},
                 {"detail", result.detail}};
  if (result.outcome != Outcome::measured) return object;
  object["default"] = to_json(result.standard);
  object["best"] = to_json(result.best);
  object["default_over_best"] = result.ratio;
  object["refused"] = result.refused;
  for (const SweepPoint& point : result.all) object["all"].push_back(to_json(point));
  return object;
}

std::string planners_head() {
  return fmt::format("{:<36} {:<14} {:>8} {:>14} {:>12} {:>10}", "case", "planner", "kernels", "bytes", "modelled us",
                     "us");
}

std::string table_line(const PlannersResult& result) {
  if (result.outcome != Outcome::measured && result.outcome != Outcome::checked)
    return not_measured(result.row->name, result.outcome, result.detail);
  std::string all;
  for (const PlannerPoint& point : result.points) {
    const std::string time = point.times.n() > 0 ? microseconds(point.times.median) : "";
    all += fmt::format("{}{:<36} {:<14} {:>8} {:>14} {:>12.1f} {:>10}", all.empty() ? "" : "\n",
                       all.empty() ? result.name_of_case : "", name_of(point.policy), point.kernels, point.bytes,
                       point.modelled_us, point.same_as ? fmt::format("= {}", name_of(*point.same_as)) : time);
  }
  if (const PlannerPoint* other = result.better_by_model())
    all += fmt::format("  BETTER by {}", name_of(other->policy));
  if (const PlannerPoint* other = result.faster_measured())
    all += fmt::format("  MEASURED FASTER by {}", name_of(other->policy));
  return all;
}

json to_json(const PlannersResult& result) {
  json object = {{"name", result.row->name},
                 {"case", result.name_of_case},
                 {"outcome", name_of(result.outcome)},
                 {"detail", result.detail}};
  object["planners"] = json::array();
  for (const PlannerPoint& point : result.points) {
    json one = {{"planner", name_of(point.policy)},
                {"kernels", point.kernels},
                {"bytes", point.bytes},
                {"modelled_us", point.modelled_us}};
    if (point.same_as) one["same_as"] = name_of(*point.same_as);
    if (point.times.n() > 0)
      one["us"] = {
          {"median", point.times.median}, {"p10", point.times.p10}, {"p90", point.times.p90}, {"n", point.times.n()}};
    object["planners"].push_back(std::move(one));
  }
  return object;
}

}  // namespace vkfuse::bench
